// Package programs finds programs of this machine for tests.
package programs

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Required, in the environment, names programs, with spaces between them. A test that needs one of them fails where that
// is missing, instead of leaving something out.
const Required = "STINT_TEST_PROGRAMS"

// Find returns a program's path. Where there is none the test is skipped.
func Find(t testing.TB, name string) string {
	t.Helper()
	path := look(t, name)
	if path == "" {
		t.Skipf("there is no %s on this machine", name)
	}
	return path
}

// Has reports whether there is a program.
func Has(t testing.TB, name string) bool {
	t.Helper()
	return look(t, name) != ""
}

// look returns a program's path, "" if there is none. The test fails then if it is required.
func look(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if slices.Contains(strings.Fields(os.Getenv(Required)), name) {
		t.Fatalf("%s names %s, which is missing: %v", Required, name, err)
	}
	return ""
}
