// Package pytest finds the system's Python for tests.
package pytest

import (
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stint-run/stint/internal/test/programs"
)

// Find returns python3's path: of the program itself, if what PATH has is a script that looks for it each time. stint
// itself does not need it: see [programs.Required].
func Find(t testing.TB) string {
	t.Helper()
	programs.Find(t, "python3")
	path, err := itself()
	if err != nil {
		t.Fatal("asking python3 for its path: ", err)
	}
	return path
}

var itself = sync.OnceValues(func() (string, error) {
	path, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	return strings.TrimSpace(string(path)), err
})
