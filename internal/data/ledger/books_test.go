package ledger

import (
	"testing"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

func entry(source int, offset, length, first, count int64) wire.Entry {
	return wire.Entry{Batch: wire.Batch{Source: source, Offset: offset, Length: length, First: first, Count: count}.Sealed(), Part: NewToken(), OK: count}
}

// G9: a job whose books do not balance fails.
func TestCheckBooks(t *testing.T) {
	t.Parallel()
	failed := func(e wire.Entry, ok, failed, dropped int64) wire.Entry {
		e.OK, e.Failed, e.Dropped = ok, failed, dropped
		return e
	}
	tests := []struct {
		name    string
		planned int64
		entries []wire.Entry
		problem string
	}{
		{"nothing", 0, nil, ""},
		{"one", 3, []wire.Entry{entry(0, 0, 30, 0, 3)}, ""},
		{"behind a header", 3, []wire.Entry{entry(0, 17, 30, 0, 3)}, ""},
		{"in a row", 5, []wire.Entry{entry(0, 0, 30, 0, 3), entry(0, 30, 20, 3, 2)}, ""},
		{"over sources", 5, []wire.Entry{entry(0, 0, 30, 0, 3), entry(1, 12, 20, 3, 2)}, ""},
		{"over empty sources", 5, []wire.Entry{entry(1, 0, 30, 0, 3), entry(4, 0, 20, 3, 2)}, ""},
		{"blank lines at the end of a source", 5, []wire.Entry{entry(0, 0, 30, 0, 3), entry(1, 0, 20, 3, 2)}, ""},
		{"with failures", 5, []wire.Entry{failed(entry(0, 0, 30, 0, 3), 2, 1, 1), failed(entry(0, 30, 20, 3, 2), 0, 2, 0)}, ""},
		{"without bytes", 5, []wire.Entry{entry(0, 0, 0, 0, 3), entry(0, 0, 0, 3, 2)}, ""},
		{"after a source with bytes", 5, []wire.Entry{entry(0, 0, 30, 0, 3), entry(1, 0, 0, 3, 1), entry(1, 0, 0, 4, 1)}, ""},

		{"without bytes, a gap", 5, []wire.Entry{entry(0, 0, 0, 0, 2), entry(0, 0, 0, 3, 2)}, "items 2 to 2 are in no accepted part"},
		{"without bytes, twice", 3, []wire.Entry{entry(0, 0, 0, 0, 3), entry(0, 0, 0, 0, 3)}, "items 0 to 2 are in two accepted parts"},
		{"without bytes behind bytes", 5, []wire.Entry{entry(0, 0, 30, 0, 3), entry(0, 0, 0, 3, 2)}, "lies before"},
		{"bytes behind none", 5, []wire.Entry{entry(0, 0, 0, 0, 3), entry(0, 20, 10, 3, 2)}, "bytes 0 to 20 of input 0"},
		{"nothing of something", 3, nil, "3 items were planned, and 0 are in accepted parts"},
		{"nothing planned", 0, []wire.Entry{entry(0, 0, 30, 0, 3)}, "0 items were planned, and 3 are"},
		{"the end is missing", 5, []wire.Entry{entry(0, 0, 30, 0, 3)}, "5 items were planned, and 3 are"},
		{"the beginning is missing", 5, []wire.Entry{entry(0, 30, 20, 3, 2)}, "items 0 to 2 are in no accepted part"},
		{"a gap", 9, []wire.Entry{entry(0, 0, 30, 0, 3), entry(0, 50, 40, 5, 4)}, "items 3 to 4 are in no accepted part"},
		{"an overlap", 5, []wire.Entry{entry(0, 0, 30, 0, 3), entry(0, 20, 30, 2, 3)}, "items 2 to 2 are in two accepted parts"},
		{"twice", 3, []wire.Entry{entry(0, 0, 30, 0, 3), entry(0, 0, 30, 0, 3)}, "items 0 to 2 are in two accepted parts"},
		{"one within another", 9, []wire.Entry{entry(0, 0, 90, 0, 9), entry(0, 20, 10, 2, 1)}, "items 2 to 2 are in two"},
		{"bytes missing", 5, []wire.Entry{entry(0, 0, 30, 0, 3), entry(0, 40, 20, 3, 2)}, "bytes 30 to 40 of input 0 are in no accepted part"},
		{"bytes twice", 5, []wire.Entry{entry(0, 0, 30, 0, 3), entry(0, 20, 20, 3, 2)}, "lies before"},
		{"source backwards", 5, []wire.Entry{entry(1, 0, 30, 0, 3), entry(0, 0, 20, 3, 2)}, "lies before"},
		{"too few outcomes", 3, []wire.Entry{failed(entry(0, 0, 30, 0, 3), 2, 0, 0)}, "items 0 to 2 has 2 outcomes"},
		{"too many outcomes", 3, []wire.Entry{failed(entry(0, 0, 30, 0, 3), 3, 1, 0)}, "items 0 to 2 has 4 outcomes"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newShelf(t)
			var heads []string
			for _, e := range test.entries {
				heads = append(heads, f.commit(nil, e))
			}
			links, err := Chain(t.Context(), f.dir, heads)
			require.NoError(t, err)
			books, err := CheckBooks(t.Context(), f.dir, links, test.planned)
			if test.problem != "" {
				jobtest.RequireType(t, err, job.ErrorBooks)
				require.ErrorContains(t, err, test.problem)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.planned, books.Items)
			require.Equal(t, books.Items, books.OK+books.Failed)
			require.EqualValues(t, len(test.entries), books.Parts)
		})
	}
}
