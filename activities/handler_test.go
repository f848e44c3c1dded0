package activities

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/timers"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
)

type outOfRange struct{}

func (outOfRange) Error() string { return "out of range" }

// B7: an item's error keeps its type name and message.
func TestFaultOf(t *testing.T) {
	t.Parallel()
	crash := &Fault{Kind: job.KindCrash, Err: job.Error{Type: "Crash", Message: "killed"}}
	tests := []struct {
		name string
		err  error
		want Fault
	}{
		{"a fault", crash, *crash},
		{"a wrapped fault", fmt.Errorf("calling: %w", crash), *crash},
		{"expired", &timers.ExpiredError{Scope: "the call", After: time.Second}, Fault{Kind: job.KindExpired, Err: job.Error{Type: "Expired", Message: "the call took longer than 1s"}}},
		{"plain", errors.New("no"), Fault{Kind: job.KindError, Err: job.Error{Type: "error", Message: "no"}}},
		{"plain, wrapped", fmt.Errorf("a: %w", errors.New("no")), Fault{Kind: job.KindError, Err: job.Error{Type: "error", Message: "a: no"}}},
		{"typed", outOfRange{}, Fault{Kind: job.KindError, Err: job.Error{Type: "outOfRange", Message: "out of range"}}},
		{"typed, by pointer", &outOfRange{}, Fault{Kind: job.KindError, Err: job.Error{Type: "outOfRange", Message: "out of range"}}},
		{"typed, wrapped", fmt.Errorf("a: %w", outOfRange{}), Fault{Kind: job.KindError, Err: job.Error{Type: "outOfRange", Message: "a: out of range"}}},
		{"of the standard library", &fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}, Fault{Kind: job.KindError, Err: job.Error{Type: "PathError", Message: "open x: file does not exist"}}},
		{"of Temporal", temporal.NewApplicationError("no", "OutOfRange"), Fault{Kind: job.KindError, Err: job.Error{Type: "OutOfRange", Message: "no (type: OutOfRange, retryable: true)"}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, *FaultOf(test.err))
		})
	}
}

func TestFault_Error(t *testing.T) {
	t.Parallel()
	require.EqualError(t, LengthFault(3, 1), "length: Length: the call was given 3 items and answered with 1 results")
}

func TestCauseOf(t *testing.T) {
	t.Parallel()
	err := errors.New("the handler's")
	require.Equal(t, err, CauseOf(t.Context(), err))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errEnded)
	require.Equal(t, errEnded, CauseOf(ctx, err), "why the call was cut off, not what it made of that")
}

// A filter is given its items as lines, whether they lie so in memory or have to be put together.
func TestCall_Lines(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file, content string
		want                string
	}{
		{"text", "in.txt", "one\n\n  \ntwo\r\nthree", "one\ntwo\r\nthree\n"},
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
			h := &fake{traits: Traits{Form: Lines}, call: func(c *Call) error {
				lines := string(c.Lines(&scratch))
				if len(whole) == 0 {
					whole = append(whole, lines)
					return errors.New("to be halved")
				}
				if len(c.Items) > 1 {
					return errors.New("to be halved again")
				}
				tried = append(tried, lines)
				return echo(c)
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
