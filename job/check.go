package job

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/limits"
	"github.com/stint-run/stint/internal/location"
)

// FieldError reports that a field of a [Spec], or of options, has a value that cannot be used. Validate
// joins one for each such field; errors.As finds the first.
type FieldError struct {
	Field   string // as Go names it: "Window", of a stage "Stage.Window"
	Problem string // the value, if there is one, and what to use: "50000: use 1 to 10000, or auto". It names other fields with their type
}

func (e *FieldError) Error() string { return e.Field + " " + e.Problem }

func fieldError(field, format string, args ...any) error {
	return &FieldError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// checkFormats checks what the spec says about the form of inputs and output.
func (s Spec) checkFormats() []error {
	var errs []error
	mayBeCSV := false
	switch s.Format {
	case "auto", "csv", "tsv":
		mayBeCSV = true
	case "jsonl", "json", "text":
	default:
		errs = append(errs, fieldError("Format", "%q: use jsonl, json, csv, tsv, text or auto", s.Format))
	}
	switch d := s.Delimiter; {
	case d == "":
	case len(d) > 1 || d[0] >= utf8.RuneSelf || d == `"` || d == "\n" || d == "\r" || d == "\x00":
		errs = append(errs, fieldError("Delimiter", `%q: use one ASCII character, such as ; or | or \t, and no quote or line end`, d))
	case !mayBeCSV:
		errs = append(errs, fieldError("Delimiter", "%q: it is for csv, and the format is %s: leave one of them out", d, s.Format))
	}
	switch q := s.Quote; {
	case q == "":
	case q != `"` && q != "none":
		errs = append(errs, fieldError("Quote", `%q: use '"' if fields may be quoted, or none`, q))
	case !mayBeCSV:
		errs = append(errs, fieldError("Quote", "%s: it is for csv and tsv, and the format is %s: leave one of them out", q, s.Format))
	}
	return append(errs, s.checkColumns()...)
}

func (s Spec) checkColumns() []error {
	switch {
	case len(s.Columns) == 0:
		return nil
	case location.Delimiter(s.Output) == 0:
		return []error{fieldError("Columns", "are for tables: use an output that ends in .csv or .tsv")}
	case len(s.Columns) > limits.MaxColumns:
		return []error{fieldError("Columns", "are %d: use at most %d", len(s.Columns), limits.MaxColumns)}
	}
	var errs []error
	for i, name := range s.Columns {
		switch {
		case name == "" || !utf8.ValidString(name):
			errs = append(errs, fieldError("Columns", "%q, the name of column %d: use a text in UTF-8", name, i+1))
		case slices.Contains(s.Columns[:i], name):
			errs = append(errs, fieldError("Columns", "name %q twice", name))
		}
	}
	return errs
}

// checkFeed checks the fields of a feed, and refuses those of files.
func (s Spec) checkFeed() error {
	var errs []error
	if len(s.Input) > 0 {
		errs = append(errs, fieldError("Input", "must be empty: a feed has no inputs, its items are put by clients"))
	}
	switch s.Format {
	case "jsonl", "text":
	default:
		errs = append(errs, fieldError("Format", "%q: use jsonl or text for a feed", s.Format))
	}
	if s.Capacity < 1 || s.Capacity > limits.MaxCapacity {
		errs = append(errs, fieldError("Capacity", "%d: use 1 to %d items", s.Capacity, limits.MaxCapacity))
	}
	if s.CapacityBytes < minCapacityBytes || s.CapacityBytes > limits.MaxCapacityBytes {
		errs = append(errs, fieldError("CapacityBytes", "%d: use %d to %d bytes", s.CapacityBytes, minCapacityBytes, limits.MaxCapacityBytes))
	}
	if s.BatchWait != 0 && (s.BatchWait < minBatchWait || s.BatchWait > maxBatchWait) {
		errs = append(errs, fieldError("BatchWait", "%v: use %v to %v, or 0; shorter waits are the client's (FeedOptions.Linger)", s.BatchWait, minBatchWait, maxBatchWait))
	}
	if s.Keep < time.Second || s.Keep > 24*time.Hour {
		errs = append(errs, fieldError("Keep", "%v: use %v to %v", s.Keep, time.Second, 24*time.Hour))
	}
	return errors.Join(errs...)
}

// checkNoFeed refuses what only a feed has.
func (s Spec) checkNoFeed() error {
	var errs []error
	for _, f := range []struct {
		field string
		set   bool
	}{
		{"Capacity", s.Capacity != 0}, {"CapacityBytes", s.CapacityBytes != 0}, {"BatchWait", s.BatchWait != 0}, {"Keep", s.Keep != 0},
	} {
		if f.set {
			errs = append(errs, fieldError(f.field, "is for feeds only: leave it out, or make the job a feed"))
		}
	}
	return errors.Join(errs...)
}

// maxHooks is the most hooks of one stage.
const maxHooks = 20

// HookOf returns the pool and the name of a hook as a [Spec] names it: "NAME" is of the job's own pool, "POOL/NAME" of another one.
func (s Spec) HookOf(hook string) (pool, name string) {
	if pool, name, ok := strings.Cut(hook, "/"); ok {
		return pool, name
	}
	return s.Pool, hook
}

func checkHook(hook string) error {
	pool, name, ok := strings.Cut(hook, "/")
	if !ok {
		pool, name = "x", hook
	}
	if limits.CheckName("pool", pool) != nil || limits.CheckName("hook", name) != nil {
		return fmt.Errorf("hook %q: use NAME or POOL/NAME, both of lower-case letters, digits and dashes", hook)
	}
	return nil
}
