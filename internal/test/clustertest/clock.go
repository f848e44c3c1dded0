//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// skewVariable, in the environment of a program that buildLate has made, is by how many seconds its clock is wrong.
const skewVariable = "STINT_TEST_CLOCK"

// buildLate builds stint with a clock that can be wrong. Go programs ask the kernel without a library, and namespaces of
// time change only clocks that count from the start of the machine: so the package time is changed.
func buildLate(ctx context.Context, dir string) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	const reads = "sec, nsec, mono := runtimeNow()\n"
	head, rest, found := strings.Cut(string(text), "func Now() Time {")
	if !found || !strings.Contains(rest, reads) {
		return "", errors.New("package time of this Go is another one than expected: see " + original)
	}
	late := strings.Replace(head, "import (", "import (\n\t\"syscall\"", 1) +
		"func Now() Time {" + strings.Replace(rest, reads, reads+"\tsec += skew\n", 1) + skewText
	overlay := filepath.Join(dir, "overlay.json")
	changed := filepath.Join(dir, "time.go")
	program := filepath.Join(dir, "stint-late")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	if err != nil {
		return "", err
	}
	return program, errors.Join(os.WriteFile(changed, []byte(late), 0o600), os.WriteFile(overlay, replace, 0o600),
		run(ctx, "go", "build", "-overlay", overlay, "-o", program, "github.com/stint-run/stint"))
}

const skewText = `
var skew = func() int64 {
	text, _ := syscall.Getenv("` + skewVariable + `")
	seconds, sign := int64(0), int64(1)
	for _, c := range text {
		if c == '-' {
			sign = -1
		} else {
			seconds = 10*seconds + int64(c-'0')
		}
	}
	return sign * seconds
}()
`
