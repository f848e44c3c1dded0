package job

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/base/formats"
	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/location"
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
	if _, ok := formats.Named(s.Format); !ok && s.Format != formats.Auto {
		errs = append(errs, fieldError("Format", "%q: use %s", s.Format, formats.Names(formats.Auto)))
	}
	return append(errs, s.checkColumns()...)
}

func (s Spec) checkColumns() []error {
	switch {
	case len(s.Columns) == 0:
		return nil
	case location.Table(s.Output) == "":
		return []error{fieldError("Columns", "are for tables: use an output that ends in %s", strings.Join(location.Tables, ", "))}
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

// maxHooks is the most hooks of one stage.
const maxHooks = 20

// HookOf returns the pool and the name of a hook as a [Spec] names it: "NAME" is of the job's own pool, "POOL/NAME" of
// another one.
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
