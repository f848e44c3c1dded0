package job

import "fmt"

// FieldError says that a field of a [Spec], or of options, has a value that cannot be used. Validate
// joins one for each such field; errors.As finds the first.
type FieldError struct {
	Field   string // as Go names it: "Window"
	Problem string // the value, if there is one, and what to use: "50000: use 1 to 10000, or auto"
}

func (e *FieldError) Error() string { return e.Field + " " + e.Problem }

func fieldError(field, format string, args ...any) error {
	return &FieldError{Field: field, Problem: fmt.Sprintf(format, args...)}
}
