//go:build unix

package standard

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestD31_Child reports which of its standard files it finds closed.
func TestD31_Child(t *testing.T) {
	report := os.Getenv("STINT_TEST_CLOSED")
	if report == "" {
		t.Skip("it is for TestD31_ClosedStandardFiles")
	}
	text := ""
	if isClosed(0, unix.O_RDONLY) {
		text += " stdin"
	}
	if isClosed(1, unix.O_WRONLY) {
		text += " stdout"
	}
	require.NoError(t, os.WriteFile(report, []byte(text), 0o600))
}

// isClosed tells a standard file that was closed (Go opens /dev/null in its place) from one that a shell opened as /dev/null.
func TestD31_ClosedStandardFiles(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	for redirections, want := range map[string]string{
		"":                           "",
		"< /dev/null > /dev/null":    "",
		"<&-":                        " stdin",
		">&-":                        " stdout",
		"<&- >&- 2>&-":               " stdin stdout",
		"<> /dev/null >&0 2>&0":      "",
		"1<> /dev/null 2>&1":         "",
		"> /dev/null 0>&1":           " stdin",
		"< /dev/null 1<&0":           " stdout",
		"1<> /dev/zero":              "",
		"1<> /dev/null 2> /dev/null": " stdout",
	} {
		report := t.TempDir() + "/report"
		cmd := exec.Command("sh", "-c", `"$0" -test.run='^TestD31_Child$' `+redirections, self)
		cmd.Env = append(os.Environ(), "STINT_TEST_CLOSED="+report)
		cmd.Stdin = strings.NewReader("")
		_ = cmd.Run() // a closed output is an error to the test's own report
		got, err := os.ReadFile(report)
		require.NoError(t, err, redirections)
		require.Equal(t, want, string(got), redirections)
	}
}
