package starter

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stint-run/stint/feedstore"
	"github.com/stint-run/stint/internal/base/backoff"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/data/failures"
	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/run/command"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

type resultsOptions struct {
	connection connection
	want       outputs.Selection
	follow     bool
	limit      waitLimit
	cursor     string // file
	to         io.Writer
}

func newResults(p *Program) *cobra.Command {
	o := &resultsOptions{to: p.Stdout}
	cmd := o.command(p, &cobra.Command{
		Use:   "results JOB",
		Short: "Print a job's results, in input order",
		Long: `Prints the results of a job in the order of its items. Of a job that has not finished it prints
those that have been committed, up to the first item that has not; --follow continues as more come.
The files must be reachable from here. The results of a feed are committed every ten seconds or so;
--session prints those of one session only. 'stint errors' is about the failed items.

--cursor FILE begins where the cursor in FILE says, at the beginning if there is no such file, and keeps it up
to date: with --follow, the same command continues where it was interrupted. If it was killed, it may repeat
the lines that it printed last.`,
	})
	cmd.Flags().StringVar(&o.cursor, "cursor", "", "of a feed: `FILE` with the place to begin at, which is kept up to date (default: none)")
	return cmd
}

// errorsOptions are those of `errors`: it prints groups of error records, or records.
type errorsOptions struct {
	resultsOptions
	where   string
	records bool
	json    bool
	groups  failures.Groups
}

func newErrors(p *Program) *cobra.Command {
	o := &errorsOptions{resultsOptions: resultsOptions{want: outputs.Selection{Errors: true}}}
	cmd := o.command(p, &cobra.Command{
		Use:   "errors JOB",
		Short: "Group a job's failed items by kind, type and message, or print their records",
		Long: `Groups the failed items of a job by kind, type and message, with the number of each and its first
item. Messages that differ only in numbers, names in quotes, paths and the like are one group. Below
each group stands the expression that selects it.

--where EXPRESSION prints the records of the failed items that it selects instead, in input order and as
in the errors file: a line of JSON for each, with the item, its error and its input; --records prints
those of all. An expression is one or more conditions, all of which must hold, on kind, type, message,
stage, source and attempts:

  kind=expired,crash  type='Rate*'  message="no such *"  type!=ValueError  attempts>2

In type, stage and source * stands for any text; a message need only contain the text.
'stint redrive --where' runs the selected items again.

Of a job that has not finished it knows what has been committed, as 'stint results' does.`,
		Example: `  stint errors nightly
  stint errors nightly --where 'type=RateLimit'
  stint errors nightly --where 'kind=error message="no field"' | jq .input`,
	})
	fs := cmd.Flags()
	fs.StringVar(&o.where, "where", "", "print the records of the failed items that `EXPRESSION` selects (default: show groups)")
	fs.BoolVar(&o.records, "records", false, "print all records; --follow does, too")
	fs.BoolVar(&o.json, "json", false, "print the groups as JSON")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		grouped, err := o.begin(cmd.Flags(), p)
		if err != nil {
			return err
		}
		if err := run(cmd, args); err != nil || !grouped {
			return err
		}
		return o.printGroups(p, args[0])
	}
	return cmd
}

// begin decides where the records go, and reports whether they are grouped.
func (o *errorsOptions) begin(fs *pflag.FlagSet, p *Program) (grouped bool, err error) {
	o.to = p.Stdout
	if err := o.checkFlags(fs); err != nil {
		return false, err
	}
	switch {
	case fs.Changed("where"):
		matches, err := job.Where(o.where).Matcher()
		if err != nil {
			return false, usageError("--where: %w", err)
		}
		o.to = &failures.Records{Each: func(line []byte, f *job.Failure) error {
			if !matches(f) {
				return nil
			}
			return printLine(p.Stdout, line)
		}}
		return false, nil
	case o.records || o.follow:
		return false, nil
	}
	o.to = o.groups.Writer()
	return true, nil
}

// checkFlags refuses flags of which one would be ignored.
func (o *errorsOptions) checkFlags(fs *pflag.FlagSet) error {
	where := fs.Changed("where")
	if where && o.records {
		return usageError("--where and --records: --where prints the records that it selects, --records those of all: leave one of them out")
	}
	for _, flag := range []struct {
		name string
		set  bool
	}{{"where", where}, {"records", o.records}, {"follow", o.follow}} {
		if flag.set && o.json {
			return usageError("--%s and --json: --%[1]s prints records, each a line of JSON: leave --json out", flag.name)
		}
	}
	return nil
}

// shownFailures is how many groups `errors` shows people; programs get all.
const shownFailures = 50

// printGroups prints the groups of all failures.
func (o *errorsOptions) printGroups(p *Program, name string) error {
	if o.json {
		return printJSON(p.Stdout, append([]job.FailureGroup{}, o.groups.Largest(math.MaxInt)...))
	}
	groups := o.groups.Largest(shownFailures)
	if len(groups) == 0 {
		fmt.Fprintf(p.Stderr, "%s has no records of failed items\n", name)
		return nil
	}
	var b strings.Builder
	width := len(text.Thousands(groups[0].Count))
	for _, g := range groups {
		fmt.Fprintf(&b, "%*s × %s\n", width, text.Thousands(g.Count), g)
		if where := g.Where(); where != "" {
			fmt.Fprintf(&b, "%*s   --where %s\n", width, "", command.Quote(string(where)))
		}
	}
	return printLine(p.Stdout, []byte(b.String()))
}

func printLine(w io.Writer, line []byte) error {
	if _, err := w.Write(line); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}

// command completes a command that prints results or error records.
func (o *resultsOptions) command(p *Program, cmd *cobra.Command) *cobra.Command {
	cmd.Args = jobArg()
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.want.Session < 0 {
			return usageError("--session %d: use 1 or more", o.want.Session)
		}
		if err := o.limit.check(cmd.Flags(), "--follow", o.follow); err != nil {
			return err
		}
		return o.connection.withClientUntil(cmd.Context(), p, o.limit, func(ctx context.Context, client *jobs.Client) error {
			return o.print(ctx, p, client, args[0])
		})
	}
	fs := cmd.Flags()
	o.connection.addFlags(fs)
	fs.Int64Var(&o.want.Session, "session", 0, "of a feed: only items of session `N` (default: all)")
	fs.BoolVar(&o.follow, "follow", false, "continue until the job has ended")
	o.limit.addFlags(fs, "with --follow, how long to continue (default: until the job has ended)")
	return cmd
}

func (o *resultsOptions) print(ctx context.Context, p *Program, client *jobs.Client, name string) error {
	var access store.Access
	defer access.Close()
	feed := &feedResults{options: o, p: p, store: feedstore.New(feedstore.Options{})}
	defer feed.store.Close()
	follower := &outputs.Follower{Errors: o.want.Errors}
	shown, pool := "", ""
	for {
		report, err := reportOf(ctx, p, client, name)
		pool = report.Pool
		switch {
		case err == nil:
			shown = ""
			switch {
			case report.Feed != nil && !o.want.Errors:
				err = feed.print(ctx, report)
			case o.cursor != "":
				err = usageError("--cursor is for feeds: %s is not one", name)
			case o.follow && o.want.Session == 0 && outputs.Follows(report):
				err = follower.Copy(ctx, &access, report, o.to)
				o.want.From = follower.Next()
			default:
				o.want.From, err = outputs.Results(ctx, &access, report, o.want, o.to)
			}
			if err != nil {
				return err
			}
			if !o.follow || report.State.Final() {
				return nil
			}
		case !o.follow || !wraps[*unansweredError](err):
			return err
		case shown != err.Error(): // a worker may come
			shown = err.Error()
			fmt.Fprintln(p.Stderr, shown)
		}
		if !backoff.Wait(pollEvery, ctx.Done()) {
			if isLimit(ctx) {
				who := ""
				if shown == "" { // otherwise that has been said
					who = p.whoIsSilent(ctx, client, client.Get(name), []string{pool})
				}
				return o.limit.exceeded(fmt.Sprintf("%s has not ended within %v", name, o.limit.timeout), who)
			}
			return ctx.Err()
		}
	}
}

// feedResults prints what a feed adds to its results.
type feedResults struct {
	options  *resultsOptions
	p        *Program
	store    *feedstore.Store
	follower jobs.FeedFollower // nil: nothing has been printed
	at       jobs.FeedCursor
}

func (f *feedResults) print(ctx context.Context, report job.Report) error {
	if f.follower == nil {
		if err := f.begin(); err != nil {
			return err
		}
	}
	before := f.at
	out := bufio.NewWriterSize(f.p.Stdout, 64<<10)
	err := f.follower.Next(ctx, report, func(line []byte, next jobs.FeedCursor) error {
		_, _ = out.Write(line) // its errors come with the last one
		if err := out.WriteByte('\n'); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
		f.at = next
		return nil
	})
	if flushed := out.Flush(); err == nil && flushed != nil {
		err = fmt.Errorf("printing: %w", flushed)
	} else if flushed != nil {
		return err // what was printed is not known
	}
	if f.at == before || f.options.cursor == "" {
		return err
	}
	if saved := f.save(); err == nil {
		err = saved
	}
	return err
}

// begin reads the cursor.
func (f *feedResults) begin() error {
	session := f.options.want.Session
	f.at.Session = session
	if f.options.cursor != "" {
		name := f.p.path(f.options.cursor)
		removeUnfinished(name)
		if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
			return usageError("--cursor %s: it is no ordinary file, and would be replaced: name another file", f.options.cursor)
		}
		text, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return usageError("--cursor: %w", err)
		}
		if err == nil {
			if f.at, err = jobs.ParseFeedCursor(strings.TrimSpace(string(text))); err != nil {
				return usageError("--cursor %s: %w", f.options.cursor, err)
			}
			if f.at.Session != session {
				return usageError("--cursor %s: it is of session %d (0: all): use that --session, or another file", f.options.cursor, f.at.Session)
			}
		}
	}
	f.follower = f.store.Follow(f.at)
	return nil
}

const unfinished = ".new"

// removeUnfinished removes what earlier commands have left beside a cursor that were killed while they replaced it.
func removeUnfinished(name string) {
	entries, _ := os.ReadDir(filepath.Dir(name)) // reading the cursor meets the reason
	for _, e := range entries {
		number, begins := strings.CutPrefix(e.Name(), filepath.Base(name)+".")
		number, ends := strings.CutSuffix(number, unfinished)
		if _, err := strconv.ParseUint(number, 10, 64); begins && ends && err == nil && e.Type().IsRegular() {
			_ = os.Remove(filepath.Join(filepath.Dir(name), e.Name()))
		}
	}
}

// save replaces the cursor's file.
func (f *feedResults) save() error {
	name := f.p.path(f.options.cursor)
	next, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*"+unfinished)
	if err != nil {
		return fmt.Errorf("writing the cursor: %w", err)
	}
	_, err = next.WriteString(f.at.String() + "\n")
	err = errors.Join(err, next.Close())
	if err == nil {
		err = os.Rename(next.Name(), name)
	}
	if err != nil {
		_ = os.Remove(next.Name())
		return fmt.Errorf("writing the cursor: %w", err)
	}
	return nil
}
