package job

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// None switches a limit off where the zero value of a Spec's field means "the default".
const None = -1

// Defaults and bounds of a Spec.
const (
	DefaultWindow       = 64
	DefaultExpiry       = 30 * time.Second
	DefaultCallTimeout  = 10 * time.Minute
	DefaultAttempts     = 3
	DefaultItemAttempts = 1
	DefaultBackoff      = time.Second
	MaxBackoff          = time.Minute
	DefaultGrace        = 120 * time.Second
	DefaultMaxItem      = 16 << 20

	// MaxWindow keeps a job's pending activities (window, Plan, two Commits) well under
	// Temporal's 2,000 for one workflow run, and its legs' histories near three events a batch.
	MaxWindow = 1000
	// MaxBatchItems and MaxBatchBytes bound a batch, chosen or automatic.
	MaxBatchItems = 10_000_000
	MaxBatchBytes = 1 << 30
	maxAttempts   = 1000
	minExpiry     = time.Second
	maxDuration   = 10 * 365 * 24 * time.Hour
	maxMaxItem    = 1 << 30
	// maxInputNames keeps a spec, which goes along with every page, far below Temporal's 2 MB for a
	// payload. In bytes.
	maxInputNames = 512 << 10
)

// Spec describes a job. The zero value of a field means its default.
type Spec struct {
	// Name is the job's name and workflow ID: [a-z0-9][a-z0-9-]*, at most 200 bytes.
	Name string `json:"name"`
	// Pool names the workers that run the job: [a-z0-9][a-z0-9-]*.
	Pool string `json:"pool"`

	// Input lists paths, globs, directories and bucket URLs; "-" is the standard input of the
	// process that serves the pool (only `stint run` offers it). Paths are the workers' paths.
	Input []string `json:"input"`
	// Format is "jsonl", "csv" or "text"; "" or "auto" goes by each input's extension.
	Format string `json:"format,omitempty"`
	// MaxItem is the longest item in bytes, 16 MiB by default; a longer one is a failed item.
	MaxItem int64 `json:"max_item,omitempty"`

	// Output is the file that gets the results, or, ending in '/', the directory or bucket prefix
	// that keeps them as parts. Empty: the parts stay in the store.
	Output string `json:"output,omitempty"`
	// Errors is the file that gets the error records; by default the output's name with
	// ".errors.jsonl" added ("errors.jsonl" inside an output that ends in '/').
	Errors string `json:"errors,omitempty"`
	// Report is the file that gets the final report as JSON; by default none.
	Report string `json:"report,omitempty"`
	// Store is the directory or bucket prefix for parts and manifests; by default the output
	// itself where that ends in '/', otherwise the output's name with ".stint" added.
	Store string `json:"store,omitempty"`

	// BatchItems and BatchBytes fix the size of a batch (items 1 … 10,000,000, bytes 1 … 1 GiB;
	// whichever is reached first). 0: automatic, aiming at batches of five seconds, within
	// 100,000 items and 64 MiB.
	BatchItems int64 `json:"batch_items,omitempty"`
	BatchBytes int64 `json:"batch_bytes,omitempty"`
	// Window is how many batches may be in flight at once: 1 … 1,000, default 64.
	Window int `json:"window,omitempty"`
	// Expiry is a batch's timer: a worker silent for so long is presumed dead. At least one
	// second, default 30 s.
	Expiry time.Duration `json:"expiry,omitempty"`
	// CallTimeout limits one call of the handler; default 10 min, None: no limit.
	CallTimeout time.Duration `json:"call_timeout,omitempty"`
	// BatchTimeout limits one execution of a batch from start to close; default no limit.
	BatchTimeout time.Duration `json:"batch_timeout,omitempty"`
	// Attempts is how often a batch whose worker died, and a call that failed as a whole, is
	// tried before it is given up or halved: 1 … 1,000, default 3.
	Attempts int `json:"attempts,omitempty"`
	// ItemAttempts is how often an item is tried whose handler returns an error: default 1.
	ItemAttempts int `json:"item_attempts,omitempty"`
	// Backoff is the wait before the first repetition; it doubles up to one minute. Default 1 s.
	Backoff time.Duration `json:"backoff,omitempty"`
	// Grace is how long running calls may take after a stop; default 120 s, None: no grace.
	Grace time.Duration `json:"grace,omitempty"`

	// OnError is what a failed item does: "record" (default) writes an error record, "drop" only
	// counts it, "stop" ends the job with the item's error.
	OnError string `json:"on_error,omitempty"`
	// MaxFailed is how many failed items the job puts up with before it ends as failed; default any.
	MaxFailed Tolerance `json:"max_failed,omitempty"`
	// CleanStop lists the types of errors that stop the job without making it fail; default
	// [CleanStopType].
	CleanStop []string `json:"clean_stop,omitempty"`
	// IgnoreStragglers leaves work that outlives a stop's grace period out of the job's outcome.
	IgnoreStragglers bool `json:"ignore_stragglers,omitempty"`
	// JobRate limits the items a second of the whole job; default no limit. Bursts are of at most
	// one second's items.
	JobRate Rate `json:"job_rate,omitempty"`

	// Init, Shutdown and Cleanup name hooks of the pool's workers, or, as "POOL/NAME", of another
	// pool's: each list is run one after the other. Init runs before the first batch; Shutdown when
	// a stop is requested; Cleanup when everything has ended.
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

// CleanStopType is the type of error that by default stops a job without making it fail: there is
// nothing more to be had.
const CleanStopType = "OutOfRange"

// WithDefaults returns the spec with every default filled in.
func (s Spec) WithDefaults() Spec {
	setDefault(&s.Format, "auto")
	setDefault(&s.MaxItem, DefaultMaxItem)
	setDefault(&s.Window, DefaultWindow)
	setDefault(&s.Expiry, DefaultExpiry)
	setDefault(&s.CallTimeout, DefaultCallTimeout)
	setDefault(&s.Attempts, DefaultAttempts)
	setDefault(&s.ItemAttempts, DefaultItemAttempts)
	setDefault(&s.Backoff, DefaultBackoff)
	setDefault(&s.Grace, DefaultGrace)
	setDefault(&s.OnError, OnErrorRecord)
	if len(s.CleanStop) == 0 {
		s.CleanStop = []string{CleanStopType}
	}
	if s.Output != "" {
		if isPrefix(s.Output) {
			setDefault(&s.Store, s.Output)
			setDefault(&s.Errors, inPrefix(s.Output, "errors.jsonl"))
		} else {
			setDefault(&s.Store, addSuffix(s.Output, ".stint"))
			setDefault(&s.Errors, addSuffix(s.Output, ".errors.jsonl"))
		}
	}
	return s
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// isPrefix, inPrefix and addSuffix work on paths and on bucket URLs, whose query stays at the end.
func isPrefix(location string) bool {
	path, _ := splitQuery(location)
	return strings.HasSuffix(path, "/")
}

func inPrefix(location, name string) string { return addSuffix(location, name) }

func addSuffix(location, suffix string) string {
	path, query := splitQuery(location)
	return path + suffix + query
}

// splitQuery separates the driver's parameters of a bucket URL: what follows the last question
// mark, where that is made of name=value pairs. Any other question mark belongs to the key.
func splitQuery(location string) (path, query string) {
	i := strings.LastIndexByte(location, '?')
	if i < 0 || !strings.Contains(location, "://") {
		return location, ""
	}
	for pair := range strings.SplitSeq(location[i+1:], "&") {
		if strings.IndexByte(pair, '=') < 1 {
			return location, ""
		}
	}
	return location[:i], location[i:]
}

// Validate returns an error that names every field that cannot be, or nil. It wants a spec with
// its defaults filled in.
func (s Spec) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := CheckName("job", s.Name); err != nil {
		errs = append(errs, err)
	}
	if err := CheckName("pool", s.Pool); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, s.checkInputs())
	switch s.Format {
	case "auto", "jsonl", "csv", "text":
	default:
		bad("format %q: use jsonl, csv, text or auto", s.Format)
	}
	if s.Store == "" {
		bad("no output: name a file, or a directory or bucket prefix ending in '/'")
	}
	inRange := func(name string, v, lo, hi int64) {
		if v < lo || v > hi {
			bad("%s %d: use %d to %d", name, v, lo, hi)
		}
	}
	inRange("max-item", s.MaxItem, 1, maxMaxItem)
	inRange("batch-items", s.BatchItems, 0, MaxBatchItems)
	inRange("batch-bytes", s.BatchBytes, 0, MaxBatchBytes)
	inRange("window", int64(s.Window), 1, MaxWindow)
	inRange("attempts", int64(s.Attempts), 1, maxAttempts)
	inRange("item-attempts", int64(s.ItemAttempts), 1, maxAttempts)
	between := func(name string, d, lo, hi time.Duration, canBeNone bool) {
		if canBeNone && d == None {
			return
		}
		if d < lo || d > hi {
			bad("%s %v: use %v to %v", name, d, lo, hi)
		}
	}
	between("expiry", s.Expiry, minExpiry, 24*time.Hour, false)
	between("call-timeout", s.CallTimeout, time.Millisecond, maxDuration, true)
	between("batch-timeout", s.BatchTimeout, 0, maxDuration, false)
	between("backoff", s.Backoff, time.Millisecond, MaxBackoff, false)
	between("grace", s.Grace, time.Millisecond, 30*24*time.Hour, true)
	errs = append(errs, s.validateEnds()...)
	return errors.Join(errs...)
}

// validateEnds checks what the spec says of failed items, stops and hooks.
func (s Spec) validateEnds() []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch s.OnError {
	case OnErrorRecord, OnErrorDrop, OnErrorStop:
	default:
		bad("on-error %q: use record, drop or stop", s.OnError)
	}
	if s.JobRate < 0 || s.JobRate > MaxRate {
		bad("job-rate %v: use 0.001 to %d items a second, 0 for no limit", s.JobRate, MaxRate/1000)
	}
	errs = append(errs, s.MaxFailed.Validate())
	for _, hooks := range [][]string{s.Init, s.Shutdown, s.Cleanup} {
		if len(hooks) > maxHooks {
			bad("%d hooks of one stage: use at most %d", len(hooks), maxHooks)
		}
		for _, name := range hooks {
			errs = append(errs, checkHook(name))
		}
	}
	return errs
}

// checkInputs refuses a spec without inputs, or with more than it can carry around by name.
func (s Spec) checkInputs() error {
	if len(s.Input) == 0 {
		return errors.New("no input: name at least one file, directory, glob or bucket URL")
	}
	names := 0
	for _, input := range s.Input {
		names += len(input)
	}
	if names > maxInputNames {
		return fmt.Errorf("the names of the %s inputs take %s bytes: at most %s are allowed; name a directory or a prefix, or quote the pattern so that workers expand it",
			Thousands(int64(len(s.Input))), Thousands(int64(names)), Thousands(maxInputNames))
	}
	return nil
}
