package worker

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// runnable returns the absolute path of a command's program, which must be one that the system can start.
func (o Options) runnable(argv []string) (string, error) {
	path, err := findProgram(argv, o.Dir)
	if err != nil {
		return "", err
	}
	if err := o.checkScript(path); err != nil {
		return "", fmt.Errorf("command %q cannot be run: %w", argv[0], err)
	}
	return path, nil
}

// scriptHead is how much of a program is looked at: Linux reads 256 bytes for the name of an interpreter.
const scriptHead = 256

// checkScript refuses a script that no system would start: Linux says of a missing interpreter that the script is missing.
func (o Options) checkScript(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil //nolint:nilerr // it may be a program that can be run and not read
	}
	defer func() { _ = file.Close() }() // it was only read
	head := make([]byte, scriptHead)
	n, err := io.ReadFull(file, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil //nolint:nilerr // the same
	}
	head = head[:n]
	named, isScript := bytes.CutPrefix(head, []byte("#!"))
	switch {
	case n == 0:
		return fmt.Errorf("%s is an empty file", path)
	case !isScript && bytes.IndexByte(head, 0) < 0:
		return fmt.Errorf("%[1]s is no program, and as a script it lacks a first line that names its interpreter, such as #!/bin/sh: "+
			"add one, or name the interpreter in the command: sh %[1]s", path)
	case !isScript:
		return nil
	}
	line, _, whole := bytes.Cut(named, []byte("\n"))
	if bytes.HasSuffix(line, []byte("\r")) {
		return fmt.Errorf("the lines of the script %[1]s end in CR LF, as on Windows, so its interpreter is not found: remove the CRs: sed -i 's/\\r$//' %[1]s", path)
	}
	if !whole && n == scriptHead {
		return nil // the system decides how much of it counts
	}
	return o.checkInterpreter(path, strings.Fields(string(line)))
}

// checkInterpreter refuses a script whose interpreter does not exist.
func (o Options) checkInterpreter(script string, words []string) error {
	if len(words) == 0 {
		return fmt.Errorf("the first line of the script %s names no interpreter: write one after #!, such as #!/bin/sh", script)
	}
	interpreter := words[0]
	if !filepath.IsAbs(interpreter) && o.Dir != "" {
		interpreter = filepath.Join(o.Dir, interpreter)
	}
	if _, err := os.Stat(interpreter); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("the interpreter %s, which the first line of the script %s names, does not exist: install it, or correct that line", words[0], script)
	}
	if filepath.Base(interpreter) != "env" || len(words) < 2 || words[1][0] == '-' || strings.Contains(words[1], "=") || o.setsPath() {
		return nil
	}
	if _, err := exec.LookPath(words[1]); errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("the interpreter %s, which the first line of the script %s names, is not in $PATH: install it, or correct that line", words[1], script)
	}
	return nil
}

// setsPath reports whether the children's PATH is not the worker's.
func (o Options) setsPath() bool {
	own := "PATH=" + os.Getenv("PATH")
	return slices.ContainsFunc(o.Env, func(v string) bool { return strings.HasPrefix(v, "PATH=") && v != own })
}
