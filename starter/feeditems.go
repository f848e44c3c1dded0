package starter

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stint-run/stint/feedstore"
	"github.com/stint-run/stint/internal/jsonscan"
	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

// feedClient is a client of a feed for items and results as JSON.
type feedClient = jobs.Feed[json.RawMessage, json.RawMessage]

// feedCommand is what the commands for the clients of a feed have in common.
type feedCommand struct {
	connection connection
	json       bool
	client     *jobs.Client // set by withFeed
}

func (o *feedCommand) addFlags(fs *pflag.FlagSet) {
	o.connection.addFlags(fs)
	fs.BoolVar(&o.json, "json", false, "print JSON")
}

// answerWithin is the flag --timeout of a command to whose requests a feed answers at once.
func answerWithin() waitLimit { return waitLimit{timeout: jobs.DefaultFeedLimit} }

// withFeed dials, checks that the job is a feed, and runs fn with a client of it. A request to end ends fn's context.
// The server has the limit to be reached, and to say what it knows of the job.
func (o *feedCommand) withFeed(ctx context.Context, p *Program, name string, limit waitLimit, options jobs.FeedOptions, fn func(context.Context, *feedClient, jobs.Listed) error) error {
	return o.connection.withClientSoon(ctx, p, limit, func(ctx context.Context, client *jobs.Client) error {
		o.client = client
		limited, cancel := limit.limit(ctx)
		defer cancel()
		listed, err := client.Get(name).Listed(limited)
		if err != nil {
			return unlessOver(limited, err)
		}
		if listed.Source != job.SourceFeed {
			return &jobs.FeedError{Code: jobs.CodeNotFeed, Feed: name}
		}
		results := feedstore.New(feedstore.Options{})
		defer results.Close()
		options.Store = results
		feed := jobs.NewFeed[json.RawMessage, json.RawMessage](client, name, options)
		defer feed.Release()
		err = fn(ctx, feed, listed)
		var failed *jobs.FailedError
		switch {
		case jobs.IsCode(err, jobs.CodeUnserved):
			fmt.Fprintln(p.Stderr, p.unserved(listed.Pool))
		case errors.As(err, &failed):
			err = fmt.Errorf("%w: '%s resume %s' continues it", err, p.name(), name)
		case isLate(err):
			err = &codeError{code: ExitTimeout, err: fmt.Errorf("%w\n%s", err, p.whoDoesNotAnswer(ctx, client, client.Get(name)))}
		}
		return err
	})
}

// givenItems are the items that a command gets: as arguments, or as the lines of a file.
type givenItems struct {
	file string // -f
	args []string
}

func (g *givenItems) addFlags(fs *pflag.FlagSet) {
	fs.StringVarP(&g.file, "file", "f", "", "`FILE` with an item in each line; - for the standard input")
}

// take takes the arguments after the job's name.
func (g *givenItems) take(args []string) error {
	switch {
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

// feedItemsArgs are those of a command that takes items: a job's name and, maybe, items.
func feedItemsArgs() cobra.PositionalArgs { return wrongArgs(cobra.MinimumNArgs(1)) }

// encoded are the arguments as items.
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
	close  func() error
	lines  *bufio.Scanner
	number int // of the last line
}

// maxItemLine, in bytes, leaves room for what a line has beside its item.
const maxItemLine = jobs.MaxPutBytes + 64<<10

func (g *givenItems) open(p *Program, format string) (*itemLines, error) {
	l := &itemLines{name: g.file, format: format, close: func() error { return nil }}
	var r io.Reader = p.Stdin
	if g.file == "-" {
		l.name = "the standard input"
	} else {
		f, err := os.Open(p.path(g.file))
		if err != nil {
			return nil, usageError("%w", err)
		}
		r, l.close = f, f.Close
	}
	l.lines = bufio.NewScanner(r)
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

// encodeItem returns a line, or an argument, as an item of a feed of the format.
func encodeItem(line []byte, format string) (json.RawMessage, error) {
	if format != "text" {
		if !json.Valid(line) {
			return nil, fmt.Errorf("%s is not JSON: a string needs quotation marks of its own, '\"…\"'", shortened(line))
		}
		if !utf8.Valid(line) {
			return nil, fmt.Errorf("%s is not valid UTF-8", shortened(line))
		}
		if jsonscan.TooDeep(line) {
			return nil, fmt.Errorf("%s is nested deeper than %s", shortened(line), text.Thousands(jsonscan.MaxNesting))
		}
		return json.RawMessage(append([]byte(nil), line...)), nil
	}
	if !utf8.Valid(line) {
		return nil, fmt.Errorf("%s is not valid UTF-8", shortened(line))
	}
	item, err := text.JSON(string(line))
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	return item, nil
}

// shortened is the beginning of an item, for a message.
func shortened(line []byte) string {
	const most = 60
	if len(line) > most {
		return fmt.Sprintf("%.*q…", most, line)
	}
	return fmt.Sprintf("%q", line)
}
