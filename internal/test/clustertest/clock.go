//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	original, err := timeSource(ctx)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	late, err := skewed(string(text))
	if err != nil {
		return "", fmt.Errorf("%s: %w", original, err)
	}
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

// timeSource returns where this Go has the clock.
func timeSource(ctx context.Context) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	return filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go"), err
}

// skewed returns the text of the file time.go of package time, with a clock that can be wrong.
func skewed(text string) (string, error) {
	const imports, now, reads = "import (\n", "func Now() Time {", "sec, nsec, mono := runtimeNow()\n"
	head, rest, found := strings.Cut(text, now)
	if !found || !strings.Contains(head, imports) || !strings.Contains(rest, reads) {
		return "", errors.New("package time of this Go is another one than expected")
	}
	return strings.Replace(head, imports, imports+"\t\"syscall\"\n", 1) + now + strings.Replace(rest, reads, reads+"\tsec += skew\n", 1) + skewText, nil
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
