// Command mutants breaks the code at places that decide whether items are lost or counted twice, one after the other,
// and runs the quick tests that must notice. What it changes lies in an overlay: the files themselves stay as they are.
//
//	go run ./internal/test/mutants [-run REGEXP] [-list]
//
// It ends with 1 if a mutant survives, and with 2 if it cannot tell: a text that is not found exactly once in its file,
// a mutant that does not compile, or tests that are not there or fail without it. list.go has the mutants.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// mutant is a change that tests must notice.
type mutant struct {
	name     string // what is broken
	file     string // from the module's root
	old, new string // old is in the file exactly once
	tests    string // of the package, separated by '|': whole names
	pkg      string // where the tests are, such as ./internal/data/ledger
}

const (
	exitSurvived = 1
	exitUnknown  = 2
	// patience is for one run of tests, which take seconds, and for compiling them.
	patience = 10 * time.Minute
)

func main() {
	only := flag.String("run", "", "only mutants whose names match this `regexp`")
	list := flag.Bool("list", false, "print the mutants, and run nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code, err := run(ctx, os.Stdout, ".", *only, *list)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// run tries the mutants of the module at root.
func run(ctx context.Context, out io.Writer, root, only string, list bool) (code int, err error) {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return exitUnknown, fmt.Errorf("-run: %w", err)
	}
	chosen := slices.DeleteFunc(slices.Clone(mutants), func(m mutant) bool { return !wanted.MatchString(m.name) })
	var broken []error
	for _, m := range chosen {
		if _, err := m.change(root); err != nil {
			broken = append(broken, err)
		}
	}
	if err := errors.Join(broken...); err != nil {
		return exitUnknown, err
	}
	if list {
		for _, m := range chosen {
			fmt.Fprintf(out, "%s: %s\n", m.name, m.file)
		}
		return 0, nil
	}
	survived := 0
	sound := map[string]error{} // by package and tests: whether they pass without a mutant
	for _, m := range chosen {
		began := time.Now()
		killed, err := m.try(ctx, root, sound)
		switch {
		case ctx.Err() != nil:
			return exitUnknown, errors.New("interrupted")
		case err != nil:
			broken = append(broken, err)
			fmt.Fprintf(out, "?         %s: %v\n", m.name, err)
		case killed:
			fmt.Fprintf(out, "killed    %s (%.1fs)\n", m.name, time.Since(began).Seconds())
		default:
			survived++
			fmt.Fprintf(out, "SURVIVED  %s: %s -run '%s'\n", m.name, m.pkg, m.tests)
		}
	}
	fmt.Fprintf(out, "%d of %d mutants are killed\n", len(chosen)-survived-len(broken), len(chosen))
	switch {
	case len(broken) > 0:
		return exitUnknown, nil
	case survived > 0:
		return exitSurvived, nil
	}
	return 0, nil
}

// change returns the file with the change.
func (m *mutant) change(root string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.file)))
	if err != nil {
		return nil, fmt.Errorf("mutant %q: %w", m.name, err)
	}
	if n := bytes.Count(data, []byte(m.old)); n != 1 {
		return nil, fmt.Errorf("mutant %q: %s has the text %d times, not once: change the mutant in internal/test/mutants/list.go:\n%s", m.name, m.file, n, m.old)
	}
	return bytes.Replace(data, []byte(m.old), []byte(m.new), 1), nil
}

// try runs the mutant's tests, first without it if nobody has.
func (m *mutant) try(ctx context.Context, root string, sound map[string]error) (killed bool, err error) {
	key := m.pkg + " " + m.tests
	if _, tried := sound[key]; !tried {
		passed, output, err := m.test(ctx, root, "")
		if err == nil && !passed {
			err = fmt.Errorf("%s -run '%s' fails without the mutant:\n%s", m.pkg, m.tests, tail(output))
		}
		sound[key] = err
	}
	if err := sound[key]; err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return false, fmt.Errorf("making a directory: %w", err)
	}
	defer os.RemoveAll(dir)
	overlay, err := m.overlay(root, dir)
	if err != nil {
		return false, err
	}
	passed, output, err := m.test(ctx, root, overlay)
	if err == nil && !passed && !strings.Contains(output, "--- FAIL") && !strings.Contains(output, "panic:") {
		err = fmt.Errorf("it cannot be tested:\n%s", tail(output))
	}
	return !passed, err
}

// overlay writes the changed file, and the file that has go build use it.
func (m *mutant) overlay(root, dir string) (path string, err error) {
	data, err := m.change(root)
	if err != nil {
		return "", err
	}
	file, err := filepath.Abs(filepath.Join(root, filepath.FromSlash(m.file)))
	if err != nil {
		return "", fmt.Errorf("finding %s: %w", m.file, err)
	}
	changed := filepath.Join(dir, "changed.go")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
	if err != nil {
		return "", fmt.Errorf("writing the overlay: %w", err)
	}
	path = filepath.Join(dir, "overlay.json")
	return path, errors.Join(os.WriteFile(changed, data, 0o600), os.WriteFile(path, replace, 0o600))
}

// test runs the mutant's tests, with an overlay unless that is empty.
func (m *mutant) test(ctx context.Context, root, overlay string) (passed bool, output string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	args := []string{"test", "-count=1", "-failfast", "-timeout=2m", "-run", "^(" + m.tests + ")$"}
	if overlay != "" {
		args = append(args, "-vet=off", "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, m.pkg)...)
	cmd.Dir = root
	data, err := cmd.CombinedOutput()
	output = string(data)
	switch {
	case ctx.Err() != nil:
		return false, output, fmt.Errorf("running %s: %w", strings.Join(cmd.Args, " "), ctx.Err())
	case err != nil && !errors.As(err, new(*exec.ExitError)):
		return false, output, fmt.Errorf("running %s: %w", strings.Join(cmd.Args, " "), err)
	case strings.Contains(output, "no tests to run"):
		return false, output, fmt.Errorf("%s has no tests %s", m.pkg, m.tests)
	}
	return err == nil, output, nil
}

// tail returns the end of an output, for messages.
func tail(output string) string {
	const most = 2000
	return strings.TrimSpace(output[max(0, len(output)-most):])
}
