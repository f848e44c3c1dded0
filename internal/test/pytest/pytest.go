// Package pytest finds the system's Python for tests.
package pytest

import (
	"testing"

	"github.com/stint-run/stint/internal/test/programs"
)

// Find returns python3's path. stint itself does not need it: see [programs.Required].
func Find(t testing.TB) string {
	t.Helper()
	return programs.Find(t, "python3")
}
