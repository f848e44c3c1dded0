package worker

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stint-run/stint/internal/calls"
	"github.com/stint-run/stint/internal/embedded"
	"github.com/stint-run/stint/internal/outputs"
	"github.com/stint-run/stint/internal/store"
)

// AllowAll, as the only element of Options.Allow, lets the worker read and write everything that its account and its credentials reach.
const AllowAll = "all"

func init() {
	embedded.SetAlone = func(options any, reads []string) {
		o := options.(*Options)
		o.alone, o.reads = true, reads
	}
	embedded.SetSampler = func(options, sampler any) { options.(*Options).sampler = sampler.(calls.Sampler) }
	embedded.SetAmong = func(options any, label string) { options.(*Options).label = label }
}

// joiner joins the parts of outputs as they come, if no other worker makes parts of these outputs.
func (o Options) joiner(access *store.Access) outputs.Joiner {
	if o.alone {
		return outputs.NewJoiner(access)
	}
	return outputs.NoJoiner{}
}

// access is what the jobs of a worker with the handler may reach.
func (o Options) access(h Handler) *store.Access {
	access := &store.Access{Protect: slices.Concat(o.Protect, ownFiles(), CommandFiles(h.argv, o.Dir))}
	if !slices.Contains(o.Allow, AllowAll) {
		access.Allow, access.AllowRead = o.Allow, o.reads
	}
	return access
}

// checkAllow returns an error for roots that could never allow anything.
func (o Options) checkAllow() error {
	if len(o.Allow) > 1 && slices.Contains(o.Allow, AllowAll) {
		return fieldError("Allow", "%s makes the other roots useless: use it alone, or write ./%s for a directory of that name", AllowAll, AllowAll)
	}
	var errs []error
	for _, root := range o.Allow {
		if _, err := store.Absolute(root, string(filepath.Separator)); err != nil {
			errs = append(errs, fieldError("Allow", "%q: %v", root, err))
		}
	}
	return errors.Join(errs...)
}

// ownFiles are this program's file, and the name by which it was started.
func ownFiles() (files []string) {
	if path, err := os.Executable(); err == nil {
		files = append(files, path)
	}
	if path, err := exec.LookPath(os.Args[0]); err == nil {
		files = append(files, path)
	}
	return files
}

// Files returns the files that the handler's command line names, as [CommandFiles] does; none if it has no command line.
func (h Handler) Files(dir string) []string { return CommandFiles(h.argv, dir) }

// CommandFiles returns the files that a command line names, with dir as the command's working directory ("":
// this process's): the program itself, and each argument, or its part after a '=', that is a file now.
// For [Options].Protect.
func CommandFiles(argv []string, dir string) (files []string) {
	if len(argv) == 0 {
		return nil
	}
	if path, err := findProgram(argv, dir); err == nil {
		files = append(files, path)
	}
	for _, arg := range argv[1:] {
		_, value, _ := strings.Cut(arg, "=")
		for _, name := range []string{arg, value} {
			if name != "" && !filepath.IsAbs(name) {
				name = filepath.Join(dir, name)
			}
			if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
				files = append(files, name)
			}
		}
	}
	return files
}
