package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/base/formats"
	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/location"
	"github.com/stint-run/stint/internal/base/text"
)

// What says where a job's items come from: see [Spec.Source].
const (
	SourceFiles = "files"
	SourceFeed  = "feed"
	SourceClock = "clock"
)

// StandardInput is the input that stands for the standard input of a process.
const StandardInput = "-"

// Files make a job whose items are the records of files.
type Files struct {
	// Input lists paths, globs, directories and bucket URLs; "-" is the standard input of the
	// process that serves the pool (only `stint run` offers it). Paths are the workers' paths.
	Input []string `json:"input"`
	// Names makes the names of the files the items, and not what the files hold, which are not read: absolute paths and
	// bucket URLs, each a string in JSON.
	Names bool `json:"names,omitempty"`
	// NewFiles leaves out the files that an earlier run of the job's name, or of its schedule's, has completed: those of
	// the same name, size and, of a bucket's objects, ETag, otherwise time of modification. A file that has changed is
	// run again as a whole. The output has the results of the new files only, so each run needs one of its own: a run
	// does not replace the output of an earlier one, and that of a schedule has a placeholder. Items that have failed
	// do not keep a file from being completed: a redrive runs them again. A run that is stopped or fails completes no
	// file. It is not for the standard input.
	NewFiles bool `json:"new_files,omitempty"`
	// NewFilesList is the file that has the list of what the runs of the name have completed. Default: ".NAME.completed-files"
	// beside the output, outside of directories whose names have a placeholder.
	NewFilesList string `json:"new_files_list,omitempty"`
	// OtherFormat is the format of files whose names show none, if Format leaves it to the names. Default: such a file
	// makes the job fail.
	OtherFormat string `json:"other_format,omitempty"`
	// Delimiter separates the fields of inputs that are CSV: an ASCII character other than a quote and the line ends,
	// or `\t`. Default: a comma, and a tab in TSV.
	Delimiter string `json:"delimiter,omitempty"`
	// Quote says whether fields of inputs that are CSV may be quoted: `"` as in RFC 4180, "none" not at all: each line
	// is a record then. Default: `"`, and "none" in TSV.
	Quote string `json:"quote,omitempty"`
	// MaxInput is how many bytes an input that is copied into the store (compressed files, the standard input)
	// may have uncompressed: 1 … 1 EiB, default 1 TiB. A longer one fails the job.
	MaxInput int64 `json:"max_input,omitempty"`
	// Flush is how long the first items that come on the standard input wait for more before they are run: 10 ms … 1 h,
	// default 1 s. Without an Output, the results are printed while more items come, and batches are cut to take about
	// that long.
	Flush time.Duration `json:"flush,omitempty"`
}

// Feed makes a job whose items clients put (see [jobs.NewFeed]) until the feed is closed.
//
// [jobs.NewFeed]: https://pkg.go.dev/github.com/stint-run/stint/jobs#NewFeed
type Feed struct {
	// Capacity and CapacityBytes bound the items that are accepted and unfinished: 1 … 100,000, default 256,
	// and 1 KiB … 64 MiB, default 4 MiB.
	Capacity      int   `json:"capacity,omitempty"`
	CapacityBytes int64 `json:"capacity_bytes,omitempty"`
	// BatchWait is how long a batch that is not full waits for more items, counted from its first: 100 ms … 1 h.
	// Default: not at all. Shorter waits are the client's: see FeedOptions.Linger.
	BatchWait time.Duration `json:"batch_wait,omitempty"`
	// Keep is how long a result is kept for the client that has put its item: 1 s … 24 h, default 10 min. Afterwards
	// it is in the output only.
	Keep time.Duration `json:"keep,omitempty"`
}

// Loop makes a job whose items are the ticks of a clock, until it is stopped.
type Loop struct {
	// Slots is how many slots of the pool it runs in, each with ticks of its own: 1 … 200, default 1.
	Slots int `json:"slots,omitempty"`
	// Every is the interval, 1 ms … 10 years: tick k of a slot is due k intervals after its first tick. 0: back to
	// back, each tick as soon as the one before has ended.
	Every time.Duration `json:"every,omitempty"`
	// CatchUp says what becomes of ticks that are due while an earlier one still runs: "all" (default) runs
	// them back to back afterwards, "skip" leaves them out. It needs Every.
	CatchUp string `json:"catch_up,omitempty"`
}

// Skips reports whether ticks are left out that are due while an earlier one still runs.
func (l *Loop) Skips() bool { return l.CatchUp == catchUpSkip }

// The values of Loop.CatchUp.
const (
	catchUpAll  = "all"
	catchUpSkip = "skip"
)

// Bounds that nobody else needs.
const (
	maxMaxInput      = 1 << 60
	minCapacityBytes = 1 << 10
	minBatchWait     = 100 * time.Millisecond
	maxBatchWait     = time.Hour
	minEvery         = time.Millisecond
)

// Source names where the job's items come from: [SourceFiles], [SourceFeed] or [SourceClock].
func (s Spec) Source() string {
	switch {
	case s.Feed != nil:
		return SourceFeed
	case s.Loop != nil:
		return SourceClock
	}
	return SourceFiles
}

// Inputs returns the inputs of a job of files; other jobs have none.
func (s Spec) Inputs() []string {
	if s.Files == nil {
		return nil
	}
	return s.Files.Input
}

// NewFilesList returns the place of the list of completed files, if the job runs new files only; otherwise "".
func (s Spec) NewFilesList() string {
	if s.Files == nil || !s.Files.NewFiles {
		return ""
	}
	return s.Files.NewFilesList
}

// sourceDefaults fills in the defaults of what the job is, and those that it gives to other fields.
func (s *Spec) sourceDefaults() {
	if s.Feed == nil && s.Loop == nil && s.Files == nil {
		s.Files = &Files{}
	}
	if s.Files != nil {
		files := *s.Files
		if files.Delimiter == `\t` {
			files.Delimiter = "\t"
		}
		setDefault(&files.MaxInput, limits.DefaultMaxInput)
		setDefault(&files.Flush, limits.DefaultFlush)
		s.Files = &files
	}
	if s.Feed != nil {
		feed := *s.Feed
		setDefault(&feed.Capacity, limits.DefaultCapacity)
		setDefault(&feed.CapacityBytes, limits.DefaultCapacityBytes)
		setDefault(&feed.Keep, limits.DefaultKeep)
		setDefault(&s.Format, "jsonl")
		s.Feed = &feed
	}
	if s.Loop != nil {
		loop := *s.Loop
		setDefault(&loop.Slots, 1)
		if loop.Every > 0 {
			setDefault(&loop.CatchUp, catchUpAll)
		}
		setDefault(&s.Format, "jsonl")
		setDefault(&s.OnError, OnErrorStop)
		s.Loop = &loop
	}
}

// checkSource refuses a spec with more than one source, and what its source does not allow.
func (s Spec) checkSource() []error {
	var set []string
	var errs []error
	if s.Files != nil {
		set, errs = append(set, "Files"), append(append(errs, s.Files.check(s.Format)...), s.checkNewFiles()...)
	}
	if s.Feed != nil {
		set, errs = append(set, "Feed"), append(errs, s.Feed.check(s)...)
	}
	if s.Loop != nil {
		set, errs = append(set, "Loop"), append(errs, s.Loop.check(s)...)
	}
	switch {
	case len(set) == 0:
		return []error{errors.New("no source of items given: set Files, Feed or Loop")}
	case len(set) > 1:
		return []error{fieldError(set[0], "excludes %s: a job has one source of items, use one of them", strings.Join(set[1:], ", "))}
	}
	if s.Files == nil {
		errs = append(errs, s.checkPlainResults())
	}
	return errs
}

// check refuses no inputs, or names that are too long together, and what does not fit their format.
func (f *Files) check(format string) []error {
	var errs []error
	if len(f.Input) == 0 {
		errs = append(errs, errors.New("no input given: name at least one file, directory, glob or bucket URL"))
	}
	errs = append(errs, f.checkItems(format)...)
	names := 0
	for i, input := range f.Input {
		if input == "" {
			errs = append(errs, fieldError("Files.Input", "%d of %d is empty: name a file, directory, glob or bucket URL", i+1, len(f.Input)))
		}
		names += text.JSONSize(input)
	}
	if names > maxInputNames {
		errs = append(errs, fmt.Errorf("the names of the %s inputs take %s bytes as JSON: at most %s are allowed; name a directory or a prefix, or quote the pattern so that workers expand it",
			text.Thousands(int64(len(f.Input))), text.Thousands(int64(names)), text.Thousands(maxInputNames)))
	}
	named, _ := formats.Named(format)
	delimited := named.Delimited || format == formats.Auto
	switch d := f.Delimiter; {
	case d == "":
	case len(d) > 1 || d[0] >= utf8.RuneSelf || d == `"` || d == "\n" || d == "\r" || d == "\x00":
		errs = append(errs, fieldError("Files.Delimiter", `%q: use one ASCII character, such as ; or | or \t, and no quote or line end`, d))
	case !delimited:
		errs = append(errs, fieldError("Files.Delimiter", "%q: it is for csv, and the format is %s: leave one of them out", d, format))
	}
	switch q := f.Quote; {
	case q == "":
	case q != `"` && q != "none":
		errs = append(errs, fieldError("Files.Quote", `%q: use '"' if fields may be quoted, or none`, q))
	case !delimited:
		errs = append(errs, fieldError("Files.Quote", "%s: it is for csv and tsv, and the format is %s: leave one of them out", q, format))
	}
	if f.MaxInput < 1 || f.MaxInput > maxMaxInput {
		errs = append(errs, fieldError("Files.MaxInput", "%d: use 1 to %d", f.MaxInput, int64(maxMaxInput)))
	}
	if f.Flush < 10*time.Millisecond || f.Flush > time.Hour {
		errs = append(errs, fieldError("Files.Flush", "%v: use %v to %v", f.Flush, 10*time.Millisecond, time.Hour))
	}
	return errs
}

// checkItems checks what the items are, and the format that files have whose names show none.
func (f *Files) checkItems(format string) []error {
	var errs []error
	switch {
	case f.Names && slices.Contains(f.Input, StandardInput):
		errs = append(errs, fieldError("Files.Names", "is for files, and the standard input has no name: name files, or have each of its lines be an item"))
	case f.Names && (format != formats.Auto || f.Delimiter != "" || f.Quote != ""):
		errs = append(errs, fieldError("Files.Names", "is set, so the files are not read: leave format, delimiter and quote out"))
	}
	if _, ok := formats.Named(f.OtherFormat); !ok && f.OtherFormat != "" {
		errs = append(errs, fieldError("Files.OtherFormat", "%q: use %s", f.OtherFormat, formats.Names()))
	}
	return errs
}

func (f *Feed) check(s Spec) []error {
	var errs []error
	if format, _ := formats.Named(s.Format); !format.Lines {
		errs = append(errs, fieldError("Format", "%q: use %s for a feed", s.Format, formats.LineNames()))
	}
	if f.Capacity < 1 || f.Capacity > limits.MaxCapacity {
		errs = append(errs, fieldError("Feed.Capacity", "%d: use 1 to %d items", f.Capacity, limits.MaxCapacity))
	}
	if f.CapacityBytes < minCapacityBytes || f.CapacityBytes > limits.MaxCapacityBytes {
		errs = append(errs, fieldError("Feed.CapacityBytes", "%d: use %d to %d bytes", f.CapacityBytes, minCapacityBytes, limits.MaxCapacityBytes))
	}
	if f.BatchWait != 0 && (f.BatchWait < minBatchWait || f.BatchWait > maxBatchWait) {
		errs = append(errs, fieldError("Feed.BatchWait", "%v: use %v to %v, or 0; shorter waits are the client's (FeedOptions.Linger)", f.BatchWait, minBatchWait, maxBatchWait))
	}
	if f.Keep < time.Second || f.Keep > 24*time.Hour {
		errs = append(errs, fieldError("Feed.Keep", "%v: use %v to %v", f.Keep, time.Second, 24*time.Hour))
	}
	return errs
}

func (l *Loop) check(s Spec) []error {
	var errs []error
	refuse := func(field string, set bool, why string) {
		if set {
			errs = append(errs, fieldError(field, "is not for loops: %s", why))
		}
	}
	if l.Every != 0 && (l.Every < minEvery || l.Every > maxDuration) {
		errs = append(errs, fieldError("Loop.Every", "%v: use %v to %v, or leave it out to run back to back", l.Every, minEvery, maxDuration))
	}
	if l.Slots < 1 || l.Slots > limits.MaxSlots {
		errs = append(errs, fieldError("Loop.Slots", "%d: use 1 to %d", l.Slots, limits.MaxSlots))
	}
	switch {
	case l.CatchUp != "" && l.CatchUp != catchUpAll && l.CatchUp != catchUpSkip:
		errs = append(errs, fieldError("Loop.CatchUp", "%q: use %s or %s", l.CatchUp, catchUpAll, catchUpSkip))
	case l.CatchUp != "" && l.Every == 0:
		errs = append(errs, fieldError("Loop.CatchUp", "%q: a loop without an interval misses no tick; leave it out, or set Loop.Every", l.CatchUp))
	}
	if s.Output != "" && !location.IsPrefix(s.Output) {
		errs = append(errs, fieldError("Output", "%s: a loop has no end at which its results would become one file: end it with '/'", s.Output))
	}
	if s.Format != "jsonl" {
		errs = append(errs, fieldError("Format", "%q: the ticks of a loop are jsonl; leave it out", s.Format))
	}
	refuse("Stages", len(s.Stages) > 0, "it has one handler; leave them out")
	refuse("BatchItems", s.BatchItems != 0, "a tick is a call; leave it out")
	refuse("BatchBytes", s.BatchBytes != 0, "a tick is a call; leave it out")
	refuse("BatchTimeout", s.BatchTimeout != 0, "Spec.CallTimeout limits a tick")
	refuse("Window", s.Window != 0, "its slots say how much runs at once")
	refuse("JobRate", s.JobRate != 0, "its interval says how often it runs")
	refuse("RequestRate", s.RequestRate != 0, "its interval says how often it runs")
	refuse("TokenRate", s.TokenRate != 0, "its interval says how often it runs")
	refuse("MaxCost", s.MaxCost != 0, "its ticks have no end to save for")
	refuse("MaxTokens", s.MaxTokens != 0, "its ticks have no end to save for")
	refuse("MaxFailed", s.MaxFailed != "", "Spec.OnError says whether it continues after a failed tick")
	return errs
}

// Durations as text in JSON, as those of a [Spec] are.
type (
	plainFeed Feed
	jsonFeed  struct {
		*plainFeed
		BatchWait duration `json:"batch_wait,omitzero"`
		Keep      duration `json:"keep,omitzero"`
	}
	plainLoop Loop
	jsonLoop  struct {
		*plainLoop
		Every duration `json:"every,omitzero"`
	}
)

// MarshalJSON writes durations as text.
func (f Feed) MarshalJSON() ([]byte, error) {
	return json.Marshal(jsonFeed{(*plainFeed)(&f), duration(f.BatchWait), duration(f.Keep)})
}

// UnmarshalJSON reads durations as text.
func (f *Feed) UnmarshalJSON(data []byte) error {
	in := jsonFeed{plainFeed: (*plainFeed)(f)}
	err := json.Unmarshal(data, &in)
	f.BatchWait, f.Keep = time.Duration(in.BatchWait), time.Duration(in.Keep)
	return err
}

// MarshalJSON writes durations as text.
func (l Loop) MarshalJSON() ([]byte, error) {
	return json.Marshal(jsonLoop{(*plainLoop)(&l), duration(l.Every)})
}

// UnmarshalJSON reads durations as text.
func (l *Loop) UnmarshalJSON(data []byte) error {
	in := jsonLoop{plainLoop: (*plainLoop)(l)}
	err := json.Unmarshal(data, &in)
	l.Every = time.Duration(in.Every)
	return err
}
