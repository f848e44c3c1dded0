package starter

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stint-run/stint/internal/base/formats"
	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/location"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/worker"
)

// sizeFlag is a number of bytes, written 65536, 64KiB or 64MB.
type sizeFlag int64

func (s *sizeFlag) String() string {
	return strings.ReplaceAll(humanize.IBytes(uint64(max(0, *s))), " ", "")
}
func (s *sizeFlag) Type() string { return "SIZE" }
func (s *sizeFlag) Set(text string) error {
	n, err := humanize.ParseBytes(text)
	if err != nil || n > 1<<62 {
		return fmt.Errorf("invalid size %q: write 65536, 64KiB or 64MB", text)
	}
	*s = sizeFlag(n)
	return nil
}

// rateFlag is a number of items a second or, as N/m, a minute: 250, 0.5 or 90/m.
type rateFlag job.Rate

func (r *rateFlag) String() string { return job.Rate(*r).String() }
func (r *rateFlag) Type() string   { return "RATE" }
func (r *rateFlag) Set(text string) error {
	return (*job.Rate)(r).Set(text)
}

// minuteFlag is a number a minute: 500, or with another unit 10/s.
type minuteFlag job.Rate

func (r *minuteFlag) String() string { return job.Rate(*r).String() }
func (r *minuteFlag) Type() string   { return "N" }
func (r *minuteFlag) Set(text string) error {
	return (*job.Rate)(r).SetPerMinute(text)
}

// moneyFlag is an amount of money.
type moneyFlag job.Money

func (m *moneyFlag) String() string { return job.Money(*m).String() }
func (m *moneyFlag) Type() string   { return "AMOUNT" }
func (m *moneyFlag) Set(text string) error {
	return (*job.Money)(m).Set(text)
}

// rulesFlag are rules of further tries; each comes in a flag of its own.
type rulesFlag []job.Retry

func (r *rulesFlag) String() string     { return strings.Join(r.GetSlice(), "; ") }
func (r *rulesFlag) Type() string       { return "RULE" }
func (r *rulesFlag) Set(s string) error { return r.Append(s) }

// Append, Replace and GetSlice make it a pflag.SliceValue.
func (r *rulesFlag) Append(s string) error {
	*r = append(*r, job.Retry(s))
	return job.Retry(s).Validate()
}

func (r *rulesFlag) Replace(all []string) error {
	*r = nil
	for _, s := range all {
		if err := r.Append(s); err != nil {
			return err
		}
	}
	return nil
}

func (r *rulesFlag) GetSlice() (all []string) {
	for _, rule := range *r {
		all = append(all, string(rule))
	}
	return all
}

// itemsFlag is whether the items are the names of files.
type itemsFlag bool

const itemsRecords, itemsNames = "records", "names"

func (i *itemsFlag) String() string {
	if *i {
		return itemsNames
	}
	return itemsRecords
}
func (i *itemsFlag) Type() string { return itemsRecords + "|" + itemsNames }
func (i *itemsFlag) Set(text string) error {
	if text != itemsRecords && text != itemsNames {
		return errors.New("use " + itemsRecords + " or " + itemsNames)
	}
	*i = text == itemsNames
	return nil
}

// windowFlag is a number of batches, or auto.
type windowFlag int

func (w *windowFlag) String() string { return limits.DescribeWindow(int(*w), 0) }
func (w *windowFlag) Type() string   { return "N|auto" }
func (w *windowFlag) Set(text string) error {
	n, err := limits.ParseWindow(text)
	*w = windowFlag(n)
	return err
}

// concurrencyFlag is a number of calls at once, or auto. The worker checks its range.
type concurrencyFlag worker.Options

const autoConcurrency = "auto"

func (c *concurrencyFlag) String() string {
	if c.AutoConcurrency {
		return autoConcurrency
	}
	return strconv.Itoa(c.Concurrency)
}

func (c *concurrencyFlag) Type() string { return "N|auto" }

func (c *concurrencyFlag) Set(text string) error {
	c.Concurrency, c.AutoConcurrency = 0, text == autoConcurrency
	if c.AutoConcurrency {
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return errors.New("use 1 to 1000, or auto")
	}
	c.Concurrency = n
	return nil
}

// jobOptions are the flags that describe a job; the keys of a job file are their names.
type jobOptions struct {
	file    string
	spec    job.Spec
	files   job.Files
	feed    feedFlags
	reuse   reuseFlags
	loop    loopFlags
	fresh   bool
	timeout time.Duration // --call-timeout as written
	grace   time.Duration // --grace as written
	pools   poolsFile     // of the job file
	null    bool          // --null
}

func (o *jobOptions) addFlags(fs *pflag.FlagSet, p *Program) {
	s := &o.spec
	s.MaxItem, o.files.MaxInput = limits.DefaultMaxItem, limits.DefaultMaxInput
	fs.StringVarP(&o.file, "file", "f", "", "YAML `FILE` with these flags as keys, and 'input'; flags given here override it")
	fs.StringVar(&s.Name, "name", "", "the job's `NAME`, [a-z0-9][a-z0-9-]* (default: made up)")
	fs.StringVar(&s.Pool, "pool", "", "the `POOL` that runs the job, [a-z0-9][a-z0-9-]*")
	fs.StringVar(&s.Format, "format", formats.Auto, "format of the input: "+formats.Auto+", "+formats.Names())
	fs.BoolVarP(&o.null, "null", "0", false, "items of the input end with a NUL byte, as find -print0 writes them: --format text0")
	fs.Var((*itemsFlag)(&o.files.Names), "items", "what the items are: the records of the inputs, or the names of these files")
	fs.BoolVar(&o.files.NewFiles, "new-files", false, "leave out files that an earlier run of the --name has completed, by name, size and time; each run needs an output of its own")
	fs.StringVar(&o.files.NewFilesList, "new-files-list", "", "`FILE` with the list of these files (default: .NAME.completed-files beside the output)")
	fs.StringVar(&o.files.Delimiter, "delimiter", "", "what separates the fields of csv input, or for --each the columns {1}, {2} of lines of text, such as ; or \\t (default: a comma, of tsv a tab, and a line is one column)")
	fs.StringVar(&o.files.Quote, "quote", "", "whether fields of csv or tsv input may be quoted: '\"' or none (default: '\"', of tsv none)")
	fs.StringVarP(&s.Output, "output", "o", "", "`FILE` for the results ("+strings.Join(location.Tables, ", ")+": as a table), or directory or bucket prefix (ending in /) for parts")
	fs.StringSliceVar(&s.Columns, "columns", nil, "`KEYS` of the results that an output which is a table gets, in this order (default: all)")
	fs.StringVar(&s.Split, "split", "", fmt.Sprintf("split results, JSON objects, into at most %d files by the value of a `FIELD`: --output names them with {} for the value", limits.MaxSplitFiles))
	fs.BoolVar(&s.Flatten, "flatten", false, "answers are JSON lists: each element is a line of its own in the output")
	fs.StringVar(&s.Dropped, "dropped", "", "`FILE` for the items for which the handler gives no result (default: none)")
	fs.StringVar(&s.Errors, "errors", "", "`FILE` for the error records (default: the output's name and .errors.jsonl)")
	fs.StringVar(&s.Report, "report", "", "`FILE` for the final report, JSON")
	fs.Var((*sizeFlag)(&s.MaxItem), "max-item", "longest item; a longer one is a failed item")
	fs.Var((*sizeFlag)(&o.files.MaxInput), "max-input", "most bytes of a compressed input, or of stdin, uncompressed; with more the job fails")
	fs.DurationVar(&o.files.Flush, "flush", limits.DefaultFlush, "how long the first items that come on stdin wait for more before they are run")
	fs.Int64Var(&s.BatchItems, "batch-items", 0, "items of a batch (0: automatic)")
	fs.Var((*sizeFlag)(&s.BatchBytes), "batch-bytes", "most bytes of a batch (0: automatic)")
	fs.Lookup("batch-bytes").DefValue = zeroDefault
	fs.Var((*windowFlag)(&s.Window), "window", fmt.Sprintf("batches in flight at once, 1 to %d, or auto: as many as keep the pool busy", limits.MaxWindow))
	fs.StringVar(&s.Pin, "pin", "", "run all batches with the version of the handler that the job begins with (--pin=`VERSION`: with that one), while workers of it live")
	fs.Lookup("pin").NoOptDefVal = limits.PinFirst
	fs.IntVar(&s.Priority, "priority", limits.DefaultPriority, "which of the pool's jobs goes first, 1 to 5: 1 before all others")
	fs.DurationVar(&s.Expiry, "expiry", limits.DefaultExpiry, "a worker silent for so long is presumed dead")
	fs.DurationVar(&o.timeout, "call-timeout", limits.DefaultCallTimeout, "limit of one call of the handler (0: none)")
	fs.DurationVar(&s.BatchTimeout, "batch-timeout", 0, "limit of one execution of a batch (0: none)")
	fs.IntVar(&s.Attempts, "attempts", limits.DefaultAttempts, "tries of a failing batch or call before it is given up or halved")
	fs.IntVar(&s.ItemAttempts, "item-attempts", limits.DefaultItemAttempts, "tries of an item whose handler returns an error; of --http and --llm 5 in 'stint run'")
	fs.DurationVar(&s.Backoff, "backoff", limits.DefaultBackoff, "wait before a repetition, doubled up to 1m")
	fs.Var((*rulesFlag)(&s.Retry), "retry", "how what fails in one way is tried again, such as 'type=RateLimit attempts=10 backoff=5s'; repeatable")
	fs.StringSliceVar(&s.NoRetry, "no-retry", nil, "`TYPES` of errors that are final at once, such as ValueError,Key*")
	fs.DurationVar(&o.grace, "grace", limits.DefaultGrace, "how long running calls may take after a stop (0: end at once)")
	fs.StringVar(&s.OnError, "on-error", job.OnErrorRecord, "what a failed item does: record, drop (count it only) or stop (the job)")
	fs.StringVar((*string)(&s.MaxFailed), "max-failed", "", "failed items that the job tolerates, `N|P%`: a number, or a share of those done (default: any)")
	fs.StringSliceVar(&s.CleanStop, "clean-stop", []string{limits.CleanStopType}, "`TYPES` of errors that stop the job without making it fail ('': none)")
	fs.BoolVar(&s.IgnoreStragglers, "ignore-stragglers", false, "do not make what is still running after a stop the job's outcome")
	fs.Var((*rateFlag)(&s.JobRate), "job-rate", "most items a second of the whole job, such as 250 or 90/m (0: no limit)")
	fs.Lookup("job-rate").DefValue = zeroDefault
	fs.Var((*minuteFlag)(&s.RequestRate), "rpm", "most requests a minute of the whole job, without bursts (0: no limit)")
	fs.Var((*minuteFlag)(&s.TokenRate), "tpm", "most tokens a minute of the whole job (0: no limit)")
	fs.StringVar(&s.LimitBy, "limit-by", "", "`FIELD` of the items: --rpm and --tpm hold for each of its values")
	fs.Var((*moneyFlag)(&s.MaxCost), "max-cost", "money after which the job stops, and can be resumed with more (0: no limit)")
	fs.Int64Var(&s.MaxTokens, "max-tokens", 0, "tokens after which the job stops, and can be resumed with more (0: no limit)")
	fs.StringVar(&s.Deadline, "deadline", "", "`TIME` such as 2026-01-31T18:00:00Z, or duration such as 90m, after which the job stops, and can be resumed")
	for _, name := range []string{"rpm", "tpm", "max-cost"} {
		fs.Lookup(name).DefValue = zeroDefault
	}
	fs.StringSliceVar(&s.Init, "init", p.Options.Init, "`HOOKS`, NAME or POOL/NAME, to run before the first batch")
	fs.StringSliceVar(&s.Shutdown, "shutdown", p.Options.Shutdown, "`HOOKS` to run when a stop is requested")
	fs.StringSliceVar(&s.Cleanup, "cleanup", p.Options.Cleanup, "`HOOKS` to run when everything has ended")
	fs.BoolVar(&o.fresh, "fresh", false, "start anew if a job of the name exists")
	o.feed.addFlags(fs)
	o.reuse.addFlags(fs)
	fs.BoolVar(&s.Unique, "unique", false, "call equal items once: the outcome of the first is that of all, each in its place")
}

// zeroDefault, as the default of a flag, keeps help from showing one: the text says it better.
const zeroDefault = "0"

// complete reads the job file, takes the inputs and returns the spec without name, pool and store.
func (o *jobOptions) complete(cmd *cobra.Command, inputs []string, dir string) (job.Spec, error) {
	if o.file != "" {
		fromFile, err := o.readFile(cmd.Flags(), dir)
		if err != nil {
			return job.Spec{}, err
		}
		if len(inputs) == 0 {
			inputs = fromFile
		}
	}
	if err := cmp.Or(refuseZeros(cmd.Flags(), neverZero), refuseEmpty(cmd.Flags(), "name", "pool")); err != nil {
		return job.Spec{}, err
	}
	for name, limit := range map[string]time.Duration{"grace": o.grace, "call-timeout": o.timeout} {
		if limit < 0 {
			return job.Spec{}, usageError("--%s %v: use a duration of 0 or more", name, limit)
		}
	}
	s := o.spec
	s.CallTimeout, s.Grace = cmp.Or(o.timeout, job.NoLimit), cmp.Or(o.grace, time.Nanosecond)
	if len(s.CleanStop) == 0 { // given as '' or []: the flag has a default
		s.CleanStop = []string{limits.NoCleanStop}
	}
	if o.null && s.Format != formats.Auto && s.Format != string(records.Text0) {
		return job.Spec{}, usageError("--null: the format is %s: leave one of them out", s.Format)
	} else if o.null {
		s.Format = string(records.Text0)
	}
	if s.LimitBy != "" && s.RequestRate == 0 && s.TokenRate == 0 {
		return job.Spec{}, usageError("--limit-by %s: it says for which values --rpm and --tpm hold: give one of them", s.LimitBy)
	}
	if err := cmp.Or(o.setSource(cmd.Flags(), &s, inputs), o.reuse.complete(cmd.Flags(), &s, dir)); err != nil {
		return job.Spec{}, err
	}
	if s.Files != nil && s.Files.NewFiles && s.Name == "" {
		return job.Spec{}, usageError("--new-files: the files are those of the earlier runs of a name: give --name NAME, the same for each run")
	}
	return o.absolute(s, dir)
}

// flagRange is a flag whose zero would be replaced by its default, with the values that it takes.
type flagRange struct{ name, values string }

// neverZero are those of jobs.
var neverZero = []flagRange{
	{"max-item", "1 to 1GiB"}, {"max-input", "1 to 1EiB"}, {"attempts", "1 to 1000"}, {"item-attempts", "1 to 1000"},
	{"expiry", "1s to 24h"}, {"backoff", "1ms to 1m"}, {"flush", "10ms to 1h"},
	{"capacity", "1 to 100000"}, {"capacity-bytes", "1KiB to 64MiB"}, {"keep", "1s to 24h"},
}

// refuseZeros refuses zeros that would be replaced by the default.
func refuseZeros(fs *pflag.FlagSet, ranges []flagRange) error {
	for _, limit := range ranges {
		flag := fs.Lookup(limit.name)
		if text := flag.Value.String(); flag.Changed && (text == "0" || text == "0s" || text == "0B") {
			return usageError("--%s %s: use %s", limit.name, text, limit.values)
		}
	}
	return nil
}

// refuseEmpty refuses flags that are given and empty, as by a variable of a script that is not set: they would count as
// not given.
func refuseEmpty(fs *pflag.FlagSet, names ...string) error {
	for _, name := range names {
		if flag := fs.Lookup(name); flag != nil && flag.Changed && flag.Value.String() == "" {
			return usageError("--%s '': it is empty: give a value, or leave it out", name)
		}
	}
	return nil
}

// absolute makes the paths of the spec independent of the working directory.
func (o *jobOptions) absolute(s job.Spec, dir string) (job.Spec, error) {
	if s.Output == "-" {
		s.Output = ""
	}
	locations := []*string{&s.Output, &s.Errors, &s.Dropped, &s.Report}
	for i := range s.Inputs() {
		locations = append(locations, &s.Files.Input[i])
	}
	if s.Files != nil {
		locations = append(locations, &s.Files.NewFilesList)
	}
	if err := store.MakeAbsolute(dir, locations...); err != nil {
		return s, usageError("%w", err)
	}
	return s, nil
}

// feedFlags are the flags that make a job a feed.
type feedFlags struct {
	feed bool
	spec job.Feed
}

// sourceFlags are flags that only jobs of one source have. Those of feeds only `start` offers.
var sourceFlags = map[string][]string{
	job.SourceFiles: {"null", "items", "new-files", "new-files-list", "delimiter", "quote", "max-input", "flush", "reuse", "unique"},
	job.SourceFeed:  {"capacity", "capacity-bytes", "batch-wait", "keep"},
}

func (o *feedFlags) addFlags(fs *pflag.FlagSet) {
	o.spec.CapacityBytes = limits.DefaultCapacityBytes
	fs.BoolVar(&o.feed, "feed", false, "take the items that clients put, with 'stint feed put' or 'stint feed call', until 'stint feed close'")
	fs.IntVar(&o.spec.Capacity, "capacity", limits.DefaultCapacity, fmt.Sprintf("of a feed: items accepted and unfinished, 1 to %d; more are refused", limits.MaxCapacity))
	fs.Var((*sizeFlag)(&o.spec.CapacityBytes), "capacity-bytes", "of a feed: their bytes, up to 64MiB")
	fs.DurationVar(&o.spec.BatchWait, "batch-wait", 0, "of a feed: how long a batch that is not full waits for items, from its first on, 100ms or more (0: it does not)")
	fs.DurationVar(&o.spec.Keep, "keep", limits.DefaultKeep, "of a feed: how long a result is kept for the client that waits for it")
}

// hide takes the flags out of the help of a command that runs no feeds. A job file may have them.
func (o *feedFlags) hide(fs *pflag.FlagSet) {
	for _, name := range append([]string{"feed"}, sourceFlags[job.SourceFeed]...) {
		fs.Lookup(name).Hidden = true
	}
}

// setSource says in the spec where the items come from, and refuses what is for jobs of another source.
func (o *jobOptions) setSource(fs *pflag.FlagSet, s *job.Spec, inputs []string) error {
	switch {
	case o.loop.loop:
		if err := o.loop.complete(fs, s); err != nil {
			return err
		}
	case o.feed.feed:
		feed := o.feed.spec
		s.Feed = &feed
	default:
		files := o.files
		files.Input = slices.Clone(inputs)
		s.Files = &files
	}
	if s.Files == nil && len(inputs) > 0 {
		return usageError("input %s: a %s has no inputs, its items come from elsewhere: leave it out", inputs[0], wordsOf[s.Source()])
	}
	if s.Files == nil && !fs.Changed("format") {
		s.Format = "" // a default of its own
	}
	var errs []error
	fs.Visit(func(flag *pflag.Flag) {
		for source, names := range sourceFlags {
			if source != s.Source() && slices.Contains(names, flag.Name) {
				errs = append(errs, fmt.Errorf("--%s is for %ss only: leave it out, or make the job one", flag.Name, wordsOf[source]))
			}
		}
	})
	if len(errs) > 0 {
		return usageError("%w", errors.Join(errs...))
	}
	return nil
}

// wordsOf are what a job of a source is called.
var wordsOf = map[string]string{job.SourceFiles: "job of file", job.SourceFeed: "feed", job.SourceClock: "loop"}

// refuse is the error of a command that runs no feeds, if the job is one.
func (o *feedFlags) refuse(p *Program, why string) error {
	if !o.feed {
		return nil
	}
	return usageError("%s: start one with '%[2]s start --feed', and its workers with '%[2]s worker', on a cluster or beside a '%[2]s server'", why, p.name())
}
