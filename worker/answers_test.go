package worker

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/calls"
	"github.com/stretchr/testify/require"
)

// large is the size of a result of an item "fill", in bytes: a few fill a call's answer.
const large = calls.AnswerLimit / 8

// What a worker holds of a call's answer is bounded: what goes beyond that is asked for again.
func TestAnswers_AreBoundedInSum(t *testing.T) {
	t.Parallel()
	const n = 40
	for _, kind := range []string{"serve", "exec", "each", "batch", "each in processes", "batch in processes"} {
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
