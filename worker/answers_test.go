package worker

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// large is the size of a result of an item "fill", in bytes: a few fill a call's answer.
const large = calls.AnswerLimit / 8

// What a worker holds of a call's answer is bounded: what goes beyond that is asked for again.
func TestAnswers_AreBoundedInSum(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	const n = 40
	kinds := []string{"serve", "batch", "exec", "each", "each in processes", "batch in processes"}
	if testing.Short() {
		kinds = kinds[:2] // they have 160 MB of results each
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.options.Slots, f.options.CallItems, f.batch = 1, n, n
			file := filepath.Join(f.dir, "called")
			var h Handler
			switch name, separate := strings.CutSuffix(kind, " in processes"); {
			case name == "serve":
				h = f.program("yes")
			case name == "exec":
				h = Exec("awk", fmt.Sprintf(`BEGIN { s = "x"; while (length(s) < %d) s = s s } { print "x" >> $2; print "\"" s "\"" }`, large))
			case separate:
				h = f.inProcesses("obey " + name)
			default:
				h = processHandlers["obey "+name]
			}
			o := f.run(h, "in.txt", strings.Repeat("fill "+file+"\n", n))
			require.Empty(t, o.failures)
			require.Len(t, o.output, n*(large+3))
			require.LessOrEqual(t, o.totals.CallMax, int64(calls.AnswerLimit/large+1))
			require.LessOrEqual(t, count(file), 3*n, "items are called again once or twice")
		})
	}
}

// B12: a result that is too large is its item's error, the same for every handler that answers with values.
func TestAnswers_TooLarge(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"serve", "each", "batch", "each as encoding/json", "batch as encoding/json", "each in processes", "batch in processes"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.options.Slots, f.batch = 1, 10
			var h Handler
			switch name, how, _ := strings.Cut(kind, " "); {
			case name == "serve":
				h = f.program("yes")
			case how == "in processes":
				h = f.inProcesses("obey " + name)
			case how == "as encoding/json":
				h = Codec(EncodingJSON, processHandlers["obey "+name])
			default:
				h = processHandlers["obey "+name]
			}
			o := f.run(h, "in.txt", lines("a", "large "+strconv.Itoa(calls.MaxResult), "large "+strconv.Itoa(calls.MaxResult+1), "b"))
			require.Len(t, o.output, calls.MaxResult+1+len(lines(`"a"`, `"b"`)))
			failure := o.only(t)
			require.EqualValues(t, 2, failure.Item)
			require.Equal(t, job.KindError, failure.Kind)
			require.Equal(t, job.Error{Type: "TooLarge", Message: "the result has 16777217 bytes: the limit is 16777216"}, failure.Error)
			require.Equal(t, 1, failure.Attempts)
		})
	}
}
