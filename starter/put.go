package starter

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stint-run/stint/internal/base/jsonscan"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/jobs"
)

type putOptions struct {
	feedCommand
	items givenItems
	wait  time.Duration
	limit waitLimit
}

func newPut(p *Program) *cobra.Command {
	o := &putOptions{limit: answerWithin()}
	cmd := &cobra.Command{
		Use:   "put JOB ITEM… | -f FILE | -",
		Short: "Put items into a feed",
		Long: `Puts items into a feed ('stint start --feed') and prints how many it has accepted. An accepted item is
run and recorded once, whatever ends meanwhile; its result is in the feed's output ('stint results').

An item is a JSON value; with --format text of the feed it is a string, as it stands. Those of a file,
or of the standard input (-), stand in lines of their own. Items that begin with - follow a --.

Items given as arguments are accepted together or not at all, up to 1000 or the feed's capacity; those
of a file in lists as they come. The feed refuses a list if it has no room for it. With --wait each
list waits for room; without, the first refusal ends the command. A refused item leaves no trace.

Exit status: 0 all accepted, 1 not all (the number on standard output says how many were), 124 the feed
has not answered within --timeout.`,
		Example: `  stint feed put risk '{"species":"Osprey"}' '{"species":"Mallard"}'
  stint feed put risk -f strikes.jsonl --wait 1m`,
		Args: wrongArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.limit.check(cmd.Flags(), "", true); err != nil {
				return err
			}
			return o.run(cmd.Context(), p, args)
		},
	}
	fs := cmd.Flags()
	o.addFlags(fs)
	o.items.addFlags(fs)
	fs.DurationVar(&o.wait, "wait", 0, "how long a list waits for room (0: not at all)")
	o.limit.addFlags(fs, "how long the feed may take to answer for a list, beyond --wait, for the first one from the beginning")
	return cmd
}

func (o *putOptions) run(ctx context.Context, p *Program, args []string) error {
	if o.wait < 0 {
		return usageError("--wait %v: use 0 or more", o.wait)
	}
	if err := o.items.take(args[1:]); err != nil {
		return err
	}
	limit := o.limit.begun()
	options := jobs.FeedOptions{Session: o.items.session}
	return o.withFeed(ctx, p, args[0], limit, options, func(ctx context.Context, feed *feedClient, listed jobs.Listed) error {
		putting := &putting{feed: feed, wait: o.wait, limit: limit}
		err := o.put(ctx, p, putting, listed.Format)
		if coded, ok := errors.AsType[*codeError](err); ok && coded.code == ExitUsage {
			return err // nothing has been put
		}
		if o.json {
			err = errors.Join(err, printJSON(p.Stdout, map[string]any{"job": args[0], "accepted": putting.accepted}))
		} else if _, failed := fmt.Fprintln(p.Stdout, putting.accepted); failed != nil {
			err = errors.Join(err, fmt.Errorf("printing: %w", failed))
		}
		return err
	})
}

func (o *putOptions) put(ctx context.Context, p *Program, to *putting, format string) error {
	if o.items.file == "" {
		items, err := o.items.encoded(format)
		if err != nil {
			return err
		}
		if err := to.size(ctx, 1); err != nil {
			return err
		}
		given := make(chan json.RawMessage, len(items))
		for _, item := range items {
			given <- item
		}
		close(given)
		return to.lists(ctx, given)
	}
	lines, err := o.items.open(p, format)
	if err != nil {
		return err
	}
	defer lines.in.Close()
	if err := to.size(ctx, listShare); err != nil {
		return err
	}
	to.limit.until = time.Time{} // its first list may come late
	return to.stream(ctx, lines)
}

// listShare: lists of a file have a part of the feed's capacity, so that there is room for one before the feed is idle.
const listShare = 4

// putting puts items in lists.
type putting struct {
	feed     *feedClient
	wait     time.Duration
	limit    waitLimit // of an answer, beyond the wait
	items    int       // of a list, at most
	bytes    int64     // of a list, at most
	accepted int
}

// size finds out how large lists may be: a part of the capacity.
func (u *putting) size(ctx context.Context, share int) error {
	ctx, cancel := u.limit.limit(ctx)
	defer cancel()
	state, err := u.feed.State(ctx)
	if err != nil {
		return err
	}
	u.items = max(1, min(jobs.MaxPutItems, state.Capacity/share))
	u.bytes = max(1, min(jobs.MaxPutBytes, state.CapacityBytes/int64(share)))
	return nil
}

// fits reports whether a list has room for another item. Any item fits into an empty one.
func (u *putting) fits(items int, bytes int64, item json.RawMessage) bool {
	return items == 0 || items < u.items && bytes+int64(len(item)) <= u.bytes
}

// list puts one list.
func (u *putting) list(ctx context.Context, items []json.RawMessage) error {
	ctx, cancel := u.limit.and(u.wait).limit(ctx)
	defer cancel()
	u.limit.until = time.Time{} // another list has as long
	err := u.feed.PutWait(ctx, u.wait, items...)
	if err == nil {
		u.accepted += len(items)
	}
	return err
}

// stream puts lines as they come: each list has those that have been read while the one before was put.
func (u *putting) stream(ctx context.Context, lines *itemLines) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	items := make(chan json.RawMessage, u.items)
	read := trap.Go("reading items", func() error {
		defer close(items)
		for {
			item, err := lines.nextItem()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			select {
			case items <- item:
			case <-ctx.Done():
				return nil
			}
		}
	})
	if err := u.lists(ctx, items); err != nil {
		return err
	}
	return <-read
}

// lists puts items in as few lists as possible, until there are no more.
func (u *putting) lists(ctx context.Context, items <-chan json.RawMessage) error {
	var held json.RawMessage // that did not fit into the last list
	for ended := false; !ended; {
		var list []json.RawMessage
		list, held, ended = u.gather(ctx, items, held)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := u.list(ctx, list); err != nil { // the last one may be empty
			return err
		}
	}
	return nil
}

// gather takes the item that is held and those that have been read, at least one. It stops at the first one that does
// not fit, which is held then.
func (u *putting) gather(
	ctx context.Context, items <-chan json.RawMessage, held json.RawMessage,
) (list []json.RawMessage, next json.RawMessage, ended bool) {
	if held == nil {
		select {
		case held = <-items: // nil: there are no more
		case <-ctx.Done():
		}
	}
	if held == nil {
		return nil, nil, true
	}
	list = append(list, held)
	bytes := int64(len(held))
	for {
		select {
		case item, more := <-items:
			if !more {
				return list, nil, true
			}
			if !u.fits(len(list), bytes, item) {
				return list, item, false
			}
			list = append(list, item)
			bytes += int64(len(item))
		default:
			return list, nil, false
		}
	}
}

// givenItems are the items that a command gets: as arguments, or as the lines of a file.
type givenItems struct {
	file    string // -f
	args    []string
	session int64 // that must be open; 0: any
}

func (g *givenItems) addFlags(fs *pflag.FlagSet) {
	fs.StringVarP(&g.file, "file", "f", "", "`FILE` with an item in each line; - for the standard input")
	fs.Int64Var(&g.session, "session", 0, "refuse items unless session `N` is open (default: whichever is open)")
}

// take takes the arguments after the job's name.
func (g *givenItems) take(args []string) error {
	switch {
	case g.session < 0:
		return usageError("--session %d: use 1 or more", g.session)
	case len(args) == 1 && args[0] == "-" && g.file == "":
		g.file = "-"
	case len(args) > 0 && g.file != "":
		return usageError("items are given twice, as arguments and in %s: leave one of them out", g.file)
	case len(args) == 0 && g.file == "":
		return usageError("no items given: name them, or use -f FILE, or - for the standard input")
	default:
		g.args = args
	}
	return nil
}

// encoded returns the arguments as items.
func (g *givenItems) encoded(format string) ([]json.RawMessage, error) {
	items := make([]json.RawMessage, len(g.args))
	for i, arg := range g.args {
		item, err := encodeItem([]byte(arg), format)
		if err != nil {
			return nil, usageError("item %d of %d: %w", i+1, len(g.args), err)
		}
		items[i] = item
	}
	return items, nil
}

// itemLines reads the items of a file.
type itemLines struct {
	name   string
	format string
	in     io.ReadCloser
	lines  *bufio.Scanner
	number int   // of the last line
	err    error // why all has ended early
}

// maxItemLine, in bytes, leaves room for what a line has beside its item.
const maxItemLine = jobs.MaxPutBytes + 64<<10

func (g *givenItems) open(p *Program, format string) (*itemLines, error) {
	l := &itemLines{name: "the standard input", format: format, in: io.NopCloser(p.Stdin)}
	if g.file != "-" {
		f, err := os.Open(p.path(g.file))
		if err != nil {
			return nil, usageError("%w", err)
		}
		l.name, l.in = g.file, f
	}
	l.lines = bufio.NewScanner(l.in)
	l.lines.Buffer(make([]byte, 64<<10), maxItemLine)
	return l, nil
}

// next returns the next line, of JSON the next that is not blank, or io.EOF. It is valid until the next call.
func (l *itemLines) next() ([]byte, error) {
	for l.lines.Scan() {
		l.number++
		if line := l.lines.Bytes(); l.format == "text" || !records.IsBlank(line) {
			return line, nil
		}
	}
	switch err := l.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("line %d of %s is too long: an item has at most %d bytes", l.number+1, l.name, jobs.MaxPutBytes)
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", l.name, err)
	}
	return nil, io.EOF
}

// nextItem returns the next item, or io.EOF.
func (l *itemLines) nextItem() (json.RawMessage, error) {
	line, err := l.next()
	if err != nil {
		return nil, err
	}
	item, err := encodeItem(line, l.format)
	if err != nil {
		return nil, fmt.Errorf("line %d of %s: %w", l.number, l.name, err)
	}
	return item, nil
}

// all yields the items. An invalid line is yielded as it is, so that its error stands at its place.
func (l *itemLines) all(yield func(json.RawMessage) bool) {
	for {
		line, err := l.next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				l.err = err
			}
			return
		}
		item, err := encodeItem(line, l.format)
		if err != nil {
			item = slices.Clone(line)
		}
		if !yield(item) {
			return
		}
	}
}

// encodeItem returns a line, or an argument, as an item of a feed of the format.
func encodeItem(line []byte, format string) (json.RawMessage, error) {
	isText := format == "text"
	switch {
	case !isText && !json.Valid(line):
		return nil, fmt.Errorf("%s is not JSON: a string needs quotation marks of its own, '\"…\"'", shortened(line))
	case !utf8.Valid(line):
		return nil, fmt.Errorf("%s is not valid UTF-8", shortened(line))
	case !isText && jsonscan.TooDeep(line):
		return nil, fmt.Errorf("%s is nested deeper than %s", shortened(line), text.Thousands(jsonscan.MaxNesting))
	case !isText:
		return slices.Clone(line), nil
	}
	item, err := text.JSON(string(line))
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	return item, nil
}

// shortened returns the beginning of an item, for a message.
func shortened(line []byte) string {
	const most = 60
	if len(line) > most {
		return fmt.Sprintf("%.*q…", most, line)
	}
	return fmt.Sprintf("%q", line)
}
