package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/base/formats"
	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/location"
	"github.com/stint-run/stint/internal/base/text"
)

// NoLimit is the longest time, as good as no limit, for the fields of a [Spec] that say so; "none" in JSON. (Their zero
// value means the default.)
const NoLimit time.Duration = math.MaxInt64

// Bounds of a Spec that nobody else needs.
const (
	maxAttempts = 1000
	minExpiry   = time.Second
	maxDuration = 10 * 365 * 24 * time.Hour
	maxMaxItem  = 1 << 30
	// maxSpec, in bytes as JSON, is a quarter of Temporal's limit of 2 MB for a payload: a spec is sent with every
	// page, beside other things. The names of the inputs may take maxInputNames of them.
	maxSpec       = 512 << 10
	maxInputNames = 448 << 10
	// maxLocation bounds that of the store and of each output, in bytes as JSON: each of the 600 executions that a
	// leg may start at once is given the store.
	maxLocation = 2 << 10
	// maxSlotSpecs bounds the specs that the legs of a loop's slots are given together: they are started at once.
	maxSlotSpecs = 2<<20 - 64<<10
)

// Spec describes a job. The zero value of a field means its default. As JSON it takes at most 512 KiB, the names of
// the inputs 448 KiB and each location 2,048 bytes.
type Spec struct {
	// Name is the job's name and workflow ID: [a-z0-9][a-z0-9-]*, at most 200 bytes.
	Name string `json:"name"`
	// Pool names the workers that run the job: [a-z0-9][a-z0-9-]*.
	Pool string `json:"pool"`

	// Stages make the job a pipeline: each item goes through all of them, in their order. At most 20. Pool is then the
	// first pool that they reach, which also plans and finishes the job. Default: one handler, that of Pool.
	Stages []Stage `json:"stages,omitempty"`

	// Files, Feed and Loop say where the items come from: a job has exactly one of them.
	Files *Files `json:"files,omitempty"`
	Feed  *Feed  `json:"feed,omitempty"`
	Loop  *Loop  `json:"loop,omitempty"`
	// Format names what the items are written in, as --format of the command line does: "jsonl" or "csv", say. A feed
	// takes "jsonl" (default) or "text". Default "auto": each input's extension decides, for JSON also its beginning.
	Format string `json:"format,omitempty"`
	// MaxItem is the length of the longest item in bytes: 1 … 1 GiB, default 16 MiB. A longer one is
	// a failed item.
	MaxItem int64 `json:"max_item,omitempty"`

	// Output is the file that gets the results. If it ends in '/', it is the directory or bucket
	// prefix that keeps them as parts. Empty: the parts stay in the store. No output may be an input.
	Output string `json:"output,omitempty"`
	// Split names a field of the results, JSON objects: "kind" or ".kind". Its value decides which file gets a result;
	// there are at most [limits.MaxSplitFiles]. Output names the files with {} for the value ("out/{}.jsonl", which is
	// also what "out/" means). The parts are kept in the store, too. Only for jobs of files.
	Split string `json:"split,omitempty"`
	// Flatten makes each result a list of results: the handler answers each item with a JSON list, every element
	// becomes a line of the output, and an empty list gives no line. Any other answer is the item's error. In a
	// pipeline the results of the last stage are lists. Only for jobs of files.
	Flatten bool `json:"flatten,omitempty"`
	// Dropped is the file that gets the items for which the handler gave no result, each as the line that a filter is
	// given; by default none. Only for jobs of files.
	Dropped string `json:"dropped,omitempty"`
	// Columns are the columns of an output that is a table, by its extension .csv, .tsv or .tab: keys of the results,
	// which are JSON objects, in this order; at most 10,000. Default: all keys, in the order in which they first
	// appear.
	Columns []string `json:"columns,omitempty"`
	// Errors is the file that gets the error records; by default the output's name with ".errors.jsonl" added
	// ("errors.jsonl" inside an output that ends in '/', and an output that is split has "_errors" for {}).
	Errors string `json:"errors,omitempty"`
	// Report is the file that gets the final report as JSON; by default none.
	Report string `json:"report,omitempty"`
	// Store is the directory or bucket prefix for parts and manifests; by default the output
	// itself if that ends in '/', otherwise the output's name with ".stint" added ("_split" for {}, if it is split).
	Store string `json:"store,omitempty"`
	// Reuse takes results of an earlier run for items that have not changed. Nil: every item is run.
	Reuse *Reuse `json:"reuse,omitempty"`
	// Unique has equal items called once: the outcome of the first of them is that of all, each in its place. Items are
	// equal if the handler would get the same bytes. All inputs are read once before the first item is run. Only for jobs
	// of files.
	Unique bool `json:"unique,omitempty"`

	// BatchItems and BatchBytes fix the size of a batch (items 1 … 10,000,000, bytes 1 … 1 GiB;
	// whichever is reached first). 0: automatic, aiming at batches of five seconds, within
	// 250,000 items and 64 MiB.
	BatchItems int64 `json:"batch_items,omitempty"`
	BatchBytes int64 `json:"batch_bytes,omitempty"`
	// Window is how many batches may be in flight at once: 1 … 10,000. 0: automatic, as many as keep the pool's slots
	// busy, at least 64.
	Window int `json:"window,omitempty"`
	// Priority says which of the pool's jobs gets the next free slot: 1, before all others, … 5, after them. Default 3.
	// Batches of a lower priority that run return their rest after the calls in hand if one of a higher one waits.
	Priority int `json:"priority,omitempty"`
	// Pin names the version of the handler whose workers alone run the job's batches: up to 64 letters, digits and
	// . _ + : -. "first" is that of the worker that begins the job; not for pipelines, whose pools have handlers of their
	// own. While no such worker lives the job waits. Empty: workers of any version run them.
	Pin string `json:"pin,omitempty"`
	// Expiry is a batch's timer: a worker that is silent for so long is presumed dead. 1 s … 24 h,
	// default 30 s.
	Expiry time.Duration `json:"expiry,omitempty"`
	// CallTimeout limits one call of the handler: 1 ms … 10 years or [NoLimit], default 10 min.
	CallTimeout time.Duration `json:"call_timeout,omitempty"`
	// BatchTimeout limits one execution of a batch from start to close: up to 10 years, default no
	// limit.
	BatchTimeout time.Duration `json:"batch_timeout,omitempty"`
	// Attempts is how often a batch whose worker died, or a call that failed as a whole, is tried
	// before it is halved or has failed: 1 … 1,000, default 3.
	Attempts int `json:"attempts,omitempty"`
	// ItemAttempts is how often an item is tried if its handler returns an error: 1 … 1,000,
	// default 1.
	ItemAttempts int `json:"item_attempts,omitempty"`
	// Backoff is the wait before the first retry; it doubles up to one minute. 1 ms … 1 min,
	// default 1 s.
	Backoff time.Duration `json:"backoff,omitempty"`
	// Retry are rules by which items are tried again, instead of by ItemAttempts, Attempts and Backoff, if their failure is
	// one that a rule selects: the first such rule counts. NoRetry lists types of errors that are final at once, before
	// any rule; * stands for any text. Together up to 1,000 bytes as JSON, fewer if
	// Store is very long.
	Retry   []Retry  `json:"retry,omitempty"`
	NoRetry []string `json:"no_retry,omitempty"`
	// Grace is how long running calls may take after a stop: 1 ns … 30 days, default 120 s. With a nanosecond they are
	// ended at once.
	Grace time.Duration `json:"grace,omitempty"`

	// OnError says what happens to a failed item: [OnErrorRecord] (default) writes an error record,
	// [OnErrorDrop] only counts it, [OnErrorStop] (default of a loop) ends the job with the item's error.
	OnError string `json:"on_error,omitempty"`
	// MaxFailed is how many failed items the job tolerates before it fails; default: any number.
	MaxFailed Tolerance `json:"max_failed,omitempty"`
	// CleanStop lists the types of errors that stop the job without making it fail; default
	// "OutOfRange": there are no more items. "none" alone: every error makes it fail.
	CleanStop []string `json:"clean_stop,omitempty"`
	// IgnoreStragglers: work that is still running after a stop's grace period does not change the
	// job's outcome.
	IgnoreStragglers bool `json:"ignore_stragglers,omitempty"`
	// JobRate limits the items a second of the whole job, up to [limits.MaxRate]; default no limit. A burst
	// has at most one second's items.
	JobRate Rate `json:"job_rate,omitempty"`
	// RequestRate limits the requests a minute of the whole job, repeated ones included: of a handler that makes requests
	// itself (worker.HTTP) these, of any other its calls, but in a pipeline nothing. Unlike JobRate it allows no burst.
	// TokenRate limits the tokens a minute that they use, by an estimate until the answer says how many these are. Both are
	// a number a minute, not a second, up to [limits.MaxRate]; default no limit. LimitBy names a field of the items, "tenant" or "a.b": the limits hold for each of its values, up to 10,000
	// at a time.
	RequestRate Rate   `json:"request_rate,omitempty"`
	TokenRate   Rate   `json:"token_rate,omitempty"`
	LimitBy     string `json:"limit_by,omitempty"`
	// MaxCost and MaxTokens are a budget of the job, all its runs together: when its calls have used so much, it stops in
	// order, and can be resumed with more. It is exceeded by calls in hand at most. 0: none.
	MaxCost   Money `json:"max_cost,omitempty"`
	MaxTokens int64 `json:"max_tokens,omitempty"`
	// Deadline is when the job stops in order if it still runs, and can be resumed: a time in RFC 3339 form, or a duration
	// from the start of its run, such as "90m". Empty: never.
	Deadline string `json:"deadline,omitempty"`

	// Init, Shutdown and Cleanup name hooks of the pool's workers, or of another pool's as
	// "POOL/NAME": at most 20 each, run one after the other. Init runs before the first batch,
	// Shutdown when a stop is requested, Cleanup when everything has ended.
	Init     []string `json:"init,omitempty"`
	Shutdown []string `json:"shutdown,omitempty"`
	Cleanup  []string `json:"cleanup,omitempty"`
}

// The values of Spec.OnError.
const (
	OnErrorRecord = "record"
	OnErrorDrop   = "drop"
	OnErrorStop   = "stop"
)

// StopsCleanly reports whether an error of the type stops the job without making it fail.
func (s Spec) StopsCleanly(errorType string) bool {
	return errorType != limits.NoCleanStop && slices.Contains(s.CleanStop, errorType)
}

// WithDefaults returns the spec with every default filled in.
func (s Spec) WithDefaults() Spec {
	s.sourceDefaults()
	s.Stages = withStageDefaults(s.Stages, 1)
	if pools := s.StagePools(); len(pools) > 0 {
		setDefault(&s.Pool, pools[0].Pool)
	}
	setDefault(&s.Format, formats.Auto)
	setDefault(&s.MaxItem, limits.DefaultMaxItem)
	setDefault(&s.Expiry, limits.DefaultExpiry)
	setDefault(&s.CallTimeout, limits.DefaultCallTimeout)
	setDefault(&s.Priority, limits.DefaultPriority)
	setDefault(&s.Attempts, limits.DefaultAttempts)
	setDefault(&s.ItemAttempts, limits.DefaultItemAttempts)
	setDefault(&s.Backoff, limits.DefaultBackoff)
	setDefault(&s.Grace, limits.DefaultGrace)
	setDefault(&s.OnError, OnErrorRecord)
	if len(s.CleanStop) == 0 {
		s.CleanStop = []string{limits.CleanStopType}
	}
	if s.Split != "" && s.Output != "" {
		s.splitDefaults()
	}
	s.newFilesDefaults()
	if s.Output != "" {
		if location.IsPrefix(s.Output) {
			setDefault(&s.Store, s.Output)
			setDefault(&s.Errors, location.Append(s.Output, "errors.jsonl"))
		} else {
			setDefault(&s.Store, location.Append(s.Output, ".stint"))
			setDefault(&s.Errors, location.Append(s.Output, ".errors.jsonl"))
		}
	}
	s.reuseDefaults()
	return s
}

// Streams reports whether the job's results are printed while its input still comes: it reads the standard input, and
// has no output.
func (s Spec) Streams() bool { return s.Output == "" && slices.Contains(s.Inputs(), StandardInput) }

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate returns an error that names every field with an invalid value, as joined *FieldErrors, or
// nil. The spec must have its defaults filled in (see [Spec.WithDefaults]).
func (s Spec) Validate() error {
	errs := []error{limits.CheckName("job", s.Name), limits.CheckName("pool", s.Pool), s.checkLocations(), s.checkSplit()}
	errs = append(errs, s.checkSource()...)
	errs = append(errs, s.checkStages()...)
	errs = append(errs, s.checkFormats()...)
	errs = append(errs, s.checkSizes()...)
	errs = append(errs, s.checkTimes()...)
	errs = append(errs, s.checkEnds()...)
	errs = append(errs, s.checkReuse()...)
	errs = append(errs, s.checkRetry()...)
	errs = append(errs, s.checkPin())
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return s.checkSize()
}

// checkSize refuses a spec that is too large to be sent.
func (s Spec) checkSize() error {
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("writing the spec: %w", err)
	}
	most := maxSpec
	if s.Loop != nil {
		most = min(most, maxSlotSpecs/max(1, s.Loop.Slots))
	}
	if len(data) <= most {
		return nil
	}
	return fmt.Errorf("the spec takes %s bytes as JSON: at most %s are allowed: shorten its longest lists and names",
		text.Thousands(int64(len(data))), text.Thousands(int64(most)))
}

// checkLocations refuses outputs that would replace an input or each other.
func (s Spec) checkLocations() error {
	if s.Store == "" && s.Loop == nil {
		return errors.New("no output given: name a file, or a directory or bucket prefix ending in '/'")
	}
	taken := map[string]string{}
	var errs []error
	for _, input := range s.Inputs() {
		taken[sameLocation(input)] = "an input"
		if !utf8.ValidString(input) {
			asURL := url.URL{Scheme: "file", Path: input}
			errs = append(errs, fieldError("Files.Input", "%q is not UTF-8: write it as %s", input, asURL.String()))
		}
	}
	for _, o := range s.outputs() {
		if o.location == "" || o.field == "Store" && o.location == s.Output {
			continue
		}
		if n := text.JSONSize(o.location); n > maxLocation {
			errs = append(errs, fieldError(o.field, "%q takes %s bytes as JSON: at most %s are allowed",
				text.Cut(o.location, 50), text.Thousands(int64(n)), text.Thousands(maxLocation)))
		}
		key := sameLocation(o.location)
		if other := taken[key]; other != "" {
			errs = append(errs, fieldError(o.field, "%s is also %s, which it would replace: name another place", o.location, other))
			continue
		}
		taken[key] = "the spec's " + o.field
	}
	return errors.Join(errs...)
}

// sameLocation returns the same text for two ways to write a location, as far as that shows without looking at the file
// system: Plan does that. The query of a bucket URL does not count: another one often leads to the same object.
func sameLocation(where string) string {
	if rest, ok := strings.CutPrefix(where, "file://"); ok {
		where = strings.TrimPrefix(rest, "localhost")
	}
	if location.IsURL(where) {
		where, _ = location.SplitQuery(where)
		return where
	}
	return filepath.Clean(where)
}

func (s Spec) checkSizes() []error {
	var errs []error
	inRange := func(field string, v, lo, hi int64) {
		if v < lo || v > hi {
			errs = append(errs, fieldError(field, "%d: use %d to %d", v, lo, hi))
		}
	}
	inRange("MaxItem", s.MaxItem, 1, maxMaxItem)
	inRange("BatchItems", s.BatchItems, 0, limits.MaxBatchItems)
	inRange("BatchBytes", s.BatchBytes, 0, limits.MaxBatchBytes)
	if s.Window < 0 || s.Window > limits.MaxWindow {
		errs = append(errs, fieldError("Window", "%d: use 1 to %d, or 0 for an automatic one", s.Window, limits.MaxWindow))
	}
	inRange("Priority", int64(s.Priority), 0, limits.LeastPriority) // 0 is the server's default, which is the same
	inRange("Attempts", int64(s.Attempts), 1, maxAttempts)
	inRange("ItemAttempts", int64(s.ItemAttempts), 1, maxAttempts)
	if s.JobRate < 0 || s.JobRate > limits.MaxRate {
		errs = append(errs, fieldError("JobRate", "%v: use 0.001 to %d items a second, 0 for no limit", s.JobRate, limits.MaxRate/1000))
	}
	return append(errs, s.checkUse()...)
}

const (
	// maxLimitBy bounds the name of the field that limits hold by, in bytes as JSON: each execution is given it.
	maxLimitBy = 200
	// maxDeadline bounds the text of a deadline, in bytes.
	maxDeadline = 40
)

// checkUse checks what limits the use of services.
func (s Spec) checkUse() []error {
	var errs []error
	if s.RequestRate < 0 || s.RequestRate > limits.MaxRate {
		errs = append(errs, fieldError("RequestRate", "%v: use 0.001 to %d requests a minute, 0 for no limit", s.RequestRate, limits.MaxRate/1000))
	}
	if s.TokenRate < 0 || s.TokenRate > limits.MaxRate {
		errs = append(errs, fieldError("TokenRate", "%v: use 0.001 to %d tokens a minute, 0 for no limit", s.TokenRate, limits.MaxRate/1000))
	}
	if s.MaxCost < 0 {
		errs = append(errs, fieldError("MaxCost", "%d: use an amount above 0, or 0 for no limit", int64(s.MaxCost)))
	}
	if s.MaxTokens < 0 {
		errs = append(errs, fieldError("MaxTokens", "%d: use a number above 0, or 0 for no limit", s.MaxTokens))
	}
	switch {
	case text.JSONSize(s.LimitBy) > maxLimitBy || !utf8.ValidString(s.LimitBy):
		errs = append(errs, fieldError("LimitBy", "name a field with up to %d bytes of UTF-8 as JSON", maxLimitBy))
	case strings.ContainsAny(s.LimitBy, "{}$") || s.LimitBy != "" && strings.ContainsRune("#%./", rune(s.LimitBy[0])):
		errs = append(errs, fieldError("LimitBy", "%q: give the name of a field of the items, such as tenant or a.b, or the number of a column", s.LimitBy))
	}
	if _, err := s.DeadlineAfter(time.Time{}); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// DeadlineAfter returns the deadline of a run that has begun at a time; zero: there is none.
func (s Spec) DeadlineAfter(began time.Time) (time.Time, error) {
	if s.Deadline == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, s.Deadline)
	if err == nil && len(s.Deadline) <= maxDeadline {
		return at, nil
	}
	after, err := time.ParseDuration(s.Deadline)
	if err != nil || after <= 0 || after > maxDuration || len(s.Deadline) > maxDeadline {
		return time.Time{}, fieldError("Deadline", "%q: use a time such as 2026-01-31T18:00:00Z, or a duration from the start such as 90m, up to %v", s.Deadline, maxDuration)
	}
	return began.Add(after), nil
}

func (s Spec) checkTimes() []error {
	var errs []error
	between := func(field string, d, lo, hi time.Duration) {
		if d < lo || d > hi {
			errs = append(errs, fieldError(field, "%v: use %v to %v", d, lo, hi))
		}
	}
	between("Expiry", s.Expiry, minExpiry, 24*time.Hour)
	if s.CallTimeout != NoLimit {
		between("CallTimeout", s.CallTimeout, time.Millisecond, maxDuration)
	}
	between("BatchTimeout", s.BatchTimeout, 0, maxDuration)
	between("Backoff", s.Backoff, time.Millisecond, limits.MaxBackoff)
	between("Grace", s.Grace, time.Nanosecond, 30*24*time.Hour)
	return errs
}

// checkEnds checks what the spec says about failed items and hooks.
func (s Spec) checkEnds() []error {
	var errs []error
	switch s.OnError {
	case OnErrorRecord, OnErrorDrop, OnErrorStop:
	default:
		errs = append(errs, fieldError("OnError", "%q: use record, drop or stop", s.OnError))
	}
	if s.MaxFailed.Validate() != nil {
		errs = append(errs, fieldError("MaxFailed", "%q: %s", string(s.MaxFailed), toleranceForm))
	}
	if len(s.CleanStop) > 1 && slices.Contains(s.CleanStop, limits.NoCleanStop) {
		errs = append(errs, fieldError("CleanStop", "%q: use %s alone, or leave it out", strings.Join(s.CleanStop, ","), limits.NoCleanStop))
	}
	for _, stage := range []struct {
		field string
		hooks []string
	}{{"Init", s.Init}, {"Shutdown", s.Shutdown}, {"Cleanup", s.Cleanup}} {
		if len(stage.hooks) > maxHooks {
			errs = append(errs, fieldError(stage.field, "has %d hooks: use at most %d", len(stage.hooks), maxHooks))
		}
		for _, name := range stage.hooks {
			errs = append(errs, checkHook(name))
		}
	}
	return errs
}
