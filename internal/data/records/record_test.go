package records

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestQuotes searches each record whole, and in two parts with every place between them.
func TestQuotes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		record string
		want   int // -1: not complete
	}{
		"empty":              {"\n", 0},
		"plain":              {"a,b\nc", 3},
		"quoted":             {"\"a\nb\",\"\n\"\nc", 9},
		"doubled":            {"\"\"\"\n\"\"\"\nx", 7},
		"empty fields":       {"\"\",\"\"\n\"", 5},
		"stray":              {"a\"\nb\"", 2},
		"stray behind quote": {"\"a\"\"\"b\"\"c\"\nd\"", 10},
		"quote behind comma": {"\"a\"b\",\"\n\"\n", 9},
		"comma in quotes":    {"\"a,\"\n\"", 4},
		"never closed":       {"\"a\nb,\nc", -1},
		"no end":             {"a,b", -1},
		"end behind a quote": {"\"a\"", -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for cut := range c.record {
				q := quotes{delimiter: ','}
				got := q.find([]byte(c.record[:cut]))
				if got < 0 {
					got = q.find([]byte(c.record))
				}
				require.Equal(t, c.want, got, "cut at %d", cut)
			}
		})
	}
}

func TestRecordTakesLinearTime(t *testing.T) {
	t.Parallel()
	record := []byte(strings.Repeat(`"a",`, 1<<20) + "\n")
	q := quotes{delimiter: ','} // a search for the newline from every quote anew would look at 2^41 bytes
	require.Equal(t, len(record)-1, q.find(record))
}
