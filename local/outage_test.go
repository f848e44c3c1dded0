package local

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"testing/synctest"

	"github.com/stint-run/stint/internal/data/store"
	"github.com/stretchr/testify/require"
)

// A store that cannot be used for a while does not end a run that has just begun; a fault that stays does, at once.
func TestThroughOutage(t *testing.T) {
	t.Parallel()
	away := &store.OpError{Op: "looking up", Where: "s3://bucket/in.txt", Err: errors.New("503")}
	gone := &store.OpError{Op: "looking up", Where: "s3://bucket/in.txt", Err: fs.ErrNotExist}
	other := errors.New("invalid location")
	for name, c := range map[string]struct {
		errs  []error // of the tries; the last one stays
		want  error
		tries int
		notes int
	}{
		"nothing":  {[]error{nil}, nil, 1, 0},
		"passes":   {[]error{away, away, nil}, nil, 3, 1},
		"then not": {[]error{away, gone}, gone, 2, 1},
		"missing":  {[]error{gone}, gone, 1, 0},
		"other":    {[]error{other}, other, 1, 0},
		"too long": {[]error{away}, away, 9, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				notes, tries := 0, 0
				r := &run{ctx: t.Context(), o: Options{Note: func(string) { notes++ }}}
				err := r.throughOutage(t.Context(), func() error {
					tries++
					return c.errs[min(tries, len(c.errs))-1]
				})
				require.Equal(t, c.want, err)
				require.Equal(t, c.tries, tries)
				require.Equal(t, c.notes, notes)
			})
		})
	}
	// A request to end ends the wait, also where what follows would go on.
	ended := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	r := &run{ctx: ctx, o: Options{Note: func(string) { cancel(ended) }}}
	require.Equal(t, ended, r.throughOutage(t.Context(), func() error { return away }))
}
