package gateway

import (
	"fmt"
	"testing"

	"github.com/stint-run/stint/jobs"
	"github.com/stretchr/testify/require"
)

// Requests for one feed share a client; those of feeds that nobody has asked for lately are released.
func TestFeeds(t *testing.T) {
	t.Parallel()
	made := map[string]*fake{}
	f := newFeeds(func(name string) Feed { made[name] = &fake{}; return made[name] })
	first, done, err := f.take("first")
	require.NoError(t, err)
	again, doneAgain, err := f.take("first")
	require.NoError(t, err)
	require.Same(t, first, again)
	for i := range maxIdle + 1 {
		_, done, err := f.take(fmt.Sprint(i))
		require.NoError(t, err)
		done()
	}
	require.True(t, made["0"].released.Load(), "the one used longest ago")
	require.False(t, made["1"].released.Load())
	require.False(t, made["first"].released.Load(), "it is in use")
	done()
	doneAgain()
	require.Len(t, f.known, maxIdle)
	f.close()
	require.True(t, made["first"].released.Load())
	_, _, err = f.take("first")
	require.True(t, jobs.IsCode(err, jobs.CodeReleased))
}
