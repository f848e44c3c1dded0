package worker

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-run/stint/internal/run/child"
	"github.com/stint-run/stint/python"
)

// passedOn are the variables of its own environment that a worker gives to its children; those
// that end in '*' are prefixes.
var passedOn = []string{"PATH", "HOME", "USER", "LANG", "LC_*", "TZ", "TMPDIR"}

// childEnv returns the environment of child processes.
func (o Options) childEnv() []string {
	var env []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		for _, pass := range passedOn {
			if prefix, ok := strings.CutSuffix(pass, "*"); name == pass || ok && strings.HasPrefix(name, prefix) {
				env = append(env, v)
			}
		}
	}
	for _, v := range o.Env {
		if !strings.Contains(v, "=") {
			value, ok := os.LookupEnv(v)
			if !ok {
				continue
			}
			v += "=" + value
		}
		env = append(env, v)
	}
	return env
}

// slotInfo describes the worker's slots.
func (o Options) slotInfo(worker string) func(slot, incarnation int) SlotInfo {
	return func(slot, incarnation int) SlotInfo {
		return SlotInfo{Worker: worker, Slot: slot, Incarnation: incarnation, MaxRestarts: o.Restarts, Seed: o.Seed + int64(slot)}
	}
}

// slotEnv returns the environment that describes a slot to its process.
func (o Options) slotEnv(worker string, slot, incarnation int) []string {
	return []string{
		"STINT_WORKER=" + worker,
		"STINT_SLOT=" + strconv.Itoa(slot),
		"STINT_INCARNATION=" + strconv.Itoa(incarnation),
		"STINT_MAX_RESTARTS=" + strconv.Itoa(o.Restarts),
		"STINT_SEED=" + strconv.FormatInt(o.Seed+int64(slot), 10),
	}
}

// threads are the variables that set how many threads numeric libraries use. As every slot has its
// own process, each gets one.
var threads = []string{
	"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
	"VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS",
}

// oneThread returns the environment that keeps libraries to one thread, unless env says otherwise.
func oneThread(env []string) []string {
	var out []string
	for _, name := range threads {
		if !slices.ContainsFunc(env, func(v string) bool { return v == name || strings.HasPrefix(v, name+"=") }) {
			out = append(out, name+"=1")
		}
	}
	return out
}

// cpusOf returns the CPUs that a slot's process may run on; nil: all.
func (o Options) cpusOf(slot int) []int {
	switch len(o.CPUs) {
	case 0:
		return nil
	case 1:
		return o.CPUs[0]
	}
	return o.CPUs[slot]
}

// checkCPUs returns an error for CPUs that do not exist or that the worker may not use.
func (o Options) checkCPUs() error {
	if len(o.CPUs) == 0 {
		return nil
	}
	usable, err := child.UsableCPUs()
	if err != nil {
		return fieldError("CPUs", "cannot be checked: %v", err)
	}
	for _, list := range o.CPUs {
		if len(list) == 0 {
			return fieldError("CPUs", "has an empty list")
		}
		for _, cpu := range list {
			if cpu < 0 || cpu >= maxCPUs || !usable(cpu) {
				return fieldError("CPUs", "%d: this process may not use that CPU", cpu)
			}
		}
	}
	return nil
}

// maxCPUs is the size of the kernel's CPU sets.
const maxCPUs = 1024

// pythonHelper is a directory that has the module stint of Python, for programs that serve.
type pythonHelper struct {
	dir       string
	temporary bool
}

// openPythonHelper returns a directory with the helper: one in the user's cache, which all workers of this version
// share, or, if there is no cache, a temporary one, which Close removes.
func openPythonHelper() (pythonHelper, error) {
	sum := sha256.Sum256(python.Helper)
	if cache, err := os.UserCacheDir(); err == nil {
		dir := filepath.Join(cache, "stint", "python-"+hex.EncodeToString(sum[:8]))
		if writeHelper(dir) == nil {
			return pythonHelper{dir: dir}, nil
		}
	}
	dir, err := os.MkdirTemp("", "stint-python-")
	if err != nil {
		return pythonHelper{}, fmt.Errorf("making a directory for Python's module stint: %w", err)
	}
	h := pythonHelper{dir: dir, temporary: true}
	if err := writeHelper(dir); err != nil {
		h.Close()
		return pythonHelper{}, err
	}
	return h, nil
}

// writeHelper has the helper in a directory, whole, whatever other workers do there.
func writeHelper(dir string) error {
	path := filepath.Join(dir, "stint.py")
	if there, err := os.ReadFile(path); err == nil && bytes.Equal(there, python.Helper) {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making a directory for Python's module stint: %w", err)
	}
	file, err := os.CreateTemp(dir, ".stint-*.py")
	if err != nil {
		return fmt.Errorf("writing Python's module stint: %w", err)
	}
	_, err = file.Write(python.Helper)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name()) // it is of no use
		return fmt.Errorf("writing Python's module stint: %w", err)
	}
	return nil
}

// Close removes a temporary directory. It can be repeated.
func (h pythonHelper) Close() {
	if h.temporary {
		_ = os.RemoveAll(h.dir) // a rest does no harm
	}
}

// setsPythonPath reports whether the worker's options say what the PYTHONPATH of its programs is.
func (o Options) setsPythonPath() bool {
	return slices.ContainsFunc(o.Env, func(v string) bool { return v == "PYTHONPATH" || strings.HasPrefix(v, "PYTHONPATH=") })
}

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

// checkScript refuses a script that no system would start: Linux says of a missing interpreter that the script is
// missing.
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
