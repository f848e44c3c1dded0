package activities

import (
	"errors"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

// A filter is given its items as lines, whether they lie so in memory or have to be put together.
func TestCall_Lines(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file, content string
		want                string
	}{
		{"text", "in.txt", "one\n\n  \ntwo\r\nthree", "one\n\n  \ntwo\r\nthree\n"},
		{"jsonl", "in.jsonl", "1\n\n {\"a\": 2}\n3", "1\n {\"a\": 2}\n3\n"},
		{"jsonl with invalid ones", "in.jsonl", "1\nbad\n3\n", "1\n3\n"},
		{"csv", "in.csv", "a\n1\n\"2\n3\"\n", "{\"a\":\"1\"}\n{\"a\":\"2\\n3\"}\n"},
		{"too long ones", "in.txt", "one\n" + strings.Repeat("x", 200) + "\nthree\n", "one\nthree\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, test.file, test.content)
			f.spec.BatchItems, f.spec.MaxItem = 10, 100
			var scratch []byte
			var whole, tried []string
			h := &callstest.Handler{As: calls.Traits{Form: calls.Lines}, Do: func(c *calls.Call) error {
				var in strings.Builder
				c.Lines(&scratch).Feed(t.Context(), &in)
				lines := in.String()
				if len(whole) == 0 {
					whole = append(whole, lines)
					return errors.New("to be halved")
				}
				if len(c.Items) > 1 {
					return errors.New("to be halved again")
				}
				tried = append(tried, lines)
				return callstest.Echo(c)
			}}
			f.serve(h, Options{})
			in := f.input(f.plan()[0])
			in.Calls.Attempts = 1
			result, err := f.acts.Process(t.Context(), in)
			require.NoError(t, err)
			require.Equal(t, []string{test.want}, whole)
			require.Equal(t, test.want, strings.Join(tried, ""), "halves have their own lines")
			require.Equal(t, test.want, f.output(result.Entry))
		})
	}
}

// A step that only gathers what members have made of the items is meant to call no handler, whatever becomes of an
// item: no outcome of it counts as one of a handler's.
func TestOutcomes_OfAGatheringStepAreCarried(t *testing.T) {
	t.Parallel()
	for _, gathers := range []bool{false, true} {
		e := &execution{in: wire.ProcessInput{Stage: &wire.Stage{Gather: gathers, Last: true}}}
		tooLong := e.beforehand(nil, errors.New("too long"))
		require.NotNil(t, tooLong.Failure)
		require.Equal(t, gathers, tooLong.Carried)
		valid := e.beforehand([]byte("1"), nil)
		require.Equal(t, gathers, valid != nil && valid.Carried)
	}
}
