// Package pytest finds the system's Python for tests.
package pytest

import (
	"os"
	"os/exec"
	"testing"
)

// Required, in the environment, makes a missing Python fail tests that would otherwise be skipped:
// stint itself does not need it.
const Required = "STINT_TEST_PYTHON"

// Find returns python3's path.
func Find(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err == nil {
		return path
	}
	if os.Getenv(Required) != "" {
		t.Fatalf("%s is set, but python3 is missing: %v", Required, err)
	}
	t.Skip("there is no python3 on this machine")
	return ""
}
