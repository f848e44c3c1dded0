package starter

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

type callOptions struct {
	feedCommand
	items   givenItems
	timeout time.Duration
}

func newCall(p *Program) *cobra.Command {
	o := &callOptions{}
	cmd := &cobra.Command{
		Use:   "call JOB ITEM… | -f FILE | -",
		Short: "Put items into a feed and print their results",
		Long: `Puts items into a feed ('stint start --feed'), waits if there is no room, and prints their
results in the order of the items, each in a line. Items are given as for 'stint feed put'. With --format
text of the feed, a result that is a string is printed as it stands.

An item that has failed has a line on standard error instead: its number in this call, from 1, its
ordinal in the feed, kind, type and message. An item without a result (dropped) has no line.

An item whose result is not there within --timeout is given up by this command, not by the feed: it
keeps its place, and its outcome is recorded. The kinds timeout, discarded (by a reset) and stored
(the result is too large to be sent: 'stint results' has it) are such outcomes.

Exit status: 0 every item has its result, 1 the feed takes no items, 3 some items failed, 124 the feed has
not answered at all within --timeout.`,
		Example: `  stint feed call risk '{"species":"Osprey","size":"Large"}'
  stint feed call risk -f strikes.jsonl > risks.jsonl`,
		Args: wrongArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), p, args) },
	}
	fs := cmd.Flags()
	o.addFlags(fs)
	fs.Lookup("json").Usage = "print the outcome of each item, failed ones too, as an object in a line"
	o.items.addFlags(fs)
	fs.DurationVar(&o.timeout, "timeout", jobs.DefaultFeedLimit, "how long an item may take, from when it is read")
	return cmd
}

func (o *callOptions) run(ctx context.Context, p *Program, args []string) error {
	if o.timeout <= 0 {
		return usageError("--timeout %v: use a duration above 0", o.timeout)
	}
	if err := o.items.take(args[1:]); err != nil {
		return err
	}
	limit := waitLimit{timeout: o.timeout}.begun()
	options := jobs.FeedOptions{Session: o.items.session}
	return o.withFeed(ctx, p, args[0], limit, options, func(ctx context.Context, feed *feedClient, listed jobs.Listed) error {
		items, lines, err := o.source(p, listed.Format)
		if err != nil {
			return err
		}
		defer lines.in.Close()
		each := o.timeout
		if o.items.file == "" { // they are read
			each = max(time.Millisecond, time.Until(limit.until))
		}
		before := o.timeout - each
		show := &outcomes{p: p, json: o.json, text: listed.Format == "text"}
		for result, err := range feed.Stream(ctx, items, jobs.StreamOptions{InPlace: true, Limit: each}) {
			if err := show.one(result, waitedMore(err, before)); err != nil {
				return err
			}
		}
		if lines.err != nil {
			return lines.err
		}
		if show.late > 0 && show.late == show.failed && !show.some {
			fmt.Fprintln(p.Stderr, p.whoDoesNotAnswer(ctx, o.client, o.client.Get(listed.Name)))
		}
		if show.failed > 0 {
			return &codeError{code: ExitSomeFailed}
		}
		return nil
	})
}

// waitedMore returns the error of an item with the time that had passed before it was sent.
func waitedMore(err error, before time.Duration) error {
	e, ok := err.(*jobs.FeedError) //nolint:errorlint // one that is wrapped stays as it is
	if !ok || e.Code != jobs.CodeSilent && e.Code != jobs.CodeTimeout {
		return err
	}
	late := *e
	late.Waited += before
	if e.Queued != nil && *e.Queued >= e.Waited {
		late.Queued = &late.Waited // it was in no other place
	}
	return &late
}

// source returns the items of a call, and the lines of which they are read, if they are.
func (o *callOptions) source(p *Program, format string) (iter.Seq[json.RawMessage], *itemLines, error) {
	if o.items.file == "" {
		items, err := o.items.encoded(format)
		return slices.Values(items), &itemLines{in: io.NopCloser(p.Stdin)}, err
	}
	lines, err := o.items.open(p, format)
	if err != nil {
		return nil, nil, err
	}
	return lines.all, lines, nil
}

// outcomes prints the outcomes of a call.
type outcomes struct {
	p      *Program
	json   bool
	text   bool // the feed's format
	failed int
	late   int  // of them, those that had no outcome in time
	some   bool // there was a result, so somebody answers
}

// kindTimeout is the kind of an item whose result was not there in time.
const kindTimeout = "timeout"

// callOutcome is the outcome of one item, as `feed call --json` prints it.
type callOutcome struct {
	Index   int64           `json:"index"`          // in this call, from 0
	Item    *int64          `json:"item,omitempty"` // ordinal in the feed, if it is known
	Result  json.RawMessage `json:"-"`              // printed as it was given
	Dropped bool            `json:"dropped,omitempty"`
	Error   *callError      `json:"error,omitempty"`
}

// line returns the outcome as an object in a line.
func (c *callOutcome) line() ([]byte, error) {
	line, err := text.JSON(c)
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	if c.Result != nil {
		line = text.JSONField(line, "result", c.Result)
	}
	return append(line, '\n'), nil
}

type callError struct {
	Kind    string `json:"kind"` // of job.Failure, or timeout, discarded, stored
	Type    string `json:"type,omitempty"`
	Message string `json:"message"`
	Stack   string `json:"stack,omitempty"`
}

// one prints one outcome. It returns an error that ends the call.
func (o *outcomes) one(r jobs.Result[json.RawMessage, json.RawMessage], err error) error {
	outcome := callOutcome{Index: r.Index, Result: r.Out, Dropped: r.Dropped}
	if r.Numbered {
		outcome.Item = &r.Ordinal
	}
	o.some = o.some || err == nil
	if err != nil {
		failure := failureOf(err)
		if failure == nil {
			return err
		}
		outcome.Result, outcome.Error = nil, failure
		o.failed++
		if failure.Kind == kindTimeout {
			o.late++
		}
	}
	if o.json {
		line, err := outcome.line()
		if err != nil {
			return err
		}
		return o.print(line)
	}
	switch {
	case outcome.Error != nil:
		fmt.Fprintln(o.p.Stderr, outcome.describe())
		return nil
	case outcome.Dropped:
		return nil
	}
	line := []byte(outcome.Result)
	var said string
	if o.text && json.Unmarshal(line, &said) == nil {
		line = []byte(said)
	}
	return o.print(append(line, '\n'))
}

func (o *outcomes) print(line []byte) error {
	if _, err := o.p.Stdout.Write(line); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}

// describe returns a failed item in a line.
func (c callOutcome) describe() string {
	where := fmt.Sprint(c.Index + 1)
	if c.Item != nil {
		where += fmt.Sprintf(" (item %d)", *c.Item)
	}
	e := c.Error
	return where + ": " + job.FailureGroup{Kind: e.Kind, Type: e.Type}.Label() + firstLine(e.Message)
}

// failureOf returns the error of an item; nil: it is not one item's.
func failureOf(err error) *callError {
	e, ok := errors.AsType[*jobs.FeedError](err)
	if !ok {
		return nil
	}
	failure := &callError{Kind: e.Kind(), Message: err.Error()}
	switch e.Code {
	case jobs.CodeItem:
		cause := e.Failure.Error
		failure.Type, failure.Message, failure.Stack = cmp.Or(cause.Type, "Error"), cause.Message, cause.Stack
	case jobs.CodeDecode:
		failure.Kind = job.KindError
	case jobs.CodeInvalidItem:
		failure.Kind, failure.Message = job.KindInvalid, fmt.Sprintf("the item cannot be sent: %v", rootCause(e.Err))
	case jobs.CodeTooLarge:
		failure.Kind = job.KindInvalid
	case jobs.CodeTimeout:
		failure.Kind = kindTimeout
	}
	if failure.Kind == "" {
		return nil
	}
	return failure
}
