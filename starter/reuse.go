package starter

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/predict"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/local"
	"github.com/stint-run/stint/worker"
)

// reuseFlags are the flags about results of an earlier run.
type reuseFlags struct {
	of        ofFlag
	spec      job.Reuse
	versionOf []string
	// handler: this command runs the handler, too, so its version is the one that manifests and reports name.
	handler bool
}

// ofFlag is whether results are used again, and of which job.
type ofFlag struct {
	on  bool
	job string // "": the last run of the job's own name
}

// ofLast is what --reuse alone means.
const ofLast = "last"

func (f *ofFlag) String() string { return f.job }
func (f *ofFlag) Type() string   { return "JOB" }
func (f *ofFlag) Set(text string) error {
	*f = ofFlag{on: true}
	if on, err := strconv.ParseBool(text); err == nil { // of a job file
		f.on = on
	} else if text != ofLast {
		f.job = text
	}
	return nil
}

// reuseNames are the flags that say more about --reuse.
var reuseNames = []string{"key", "changed", "version", "version-of", "reuse-store"}

func (o *reuseFlags) addFlags(fs *pflag.FlagSet) {
	fs.Var(&o.of, "reuse", "take the results of the last completed run for items that have not changed (--reuse=JOB: of another job), and keep those of this run")
	fs.Lookup("reuse").NoOptDefVal = ofLast
	fs.StringVar(&o.spec.Key, "key", "", "of --reuse: `FIELD` by which an item is known again (default: by all that is in it)")
	fs.StringVar(&o.spec.Changed, "changed", "", "of --reuse: the one `FIELD` that shows whether an item has changed (default: all of them)")
	fs.StringVar(&o.spec.Version, "version", "", "`VERSION` of the handler, any text: with --reuse, results of another one are not taken")
	fs.StringSliceVar(&o.versionOf, "version-of", nil, "`FILES` whose content is a part of the version")
	fs.StringVar(&o.spec.Store, "reuse-store", "", "of --reuse: `DIRECTORY` or bucket prefix that keeps the results for the next run (default: where the job keeps its parts)")
}

// complete sets what the flags say in the spec.
func (o *reuseFlags) complete(fs *pflag.FlagSet, s *job.Spec, dir string) error {
	if !o.of.on {
		for _, name := range reuseNames {
			if fs.Changed(name) && !(o.handler && strings.HasPrefix(name, "version")) {
				return usageError("--%s: it is about --reuse: give that as well, or leave this out", name)
			}
		}
		return nil
	}
	r := o.spec
	r.Of = o.of.job
	if err := store.MakeAbsolute(dir, &r.Store); err != nil {
		return usageError("%w", err)
	}
	var err error
	r.Version, err = o.version(dir)
	s.Reuse = &r
	return err
}

// version returns what --version says, and the content of the files of --version-of.
func (o *reuseFlags) version(dir string) (string, error) {
	version := o.spec.Version
	for _, name := range o.versionOf {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, name)
		}
		sum, err := contentOf(path)
		if err != nil {
			return "", usageError("--version-of %s: %v", name, err)
		}
		version = strings.TrimSpace(version + " " + sum)
	}
	return version, nil
}

// handlerVersion returns the version of the handler that this command runs: that of the flags, or a hash of it if it
// cannot be one; "": the flags give none.
func (o *reuseFlags) handlerVersion(dir string) (string, error) {
	version, err := o.version(dir)
	if err != nil || version == "" || limits.CheckVersion(version) == nil {
		return version, err
	}
	sum := sha256.Sum256([]byte(version))
	return hex.EncodeToString(sum[:6]), nil
}

// describeReuse says how many items have the results of an earlier run, and what the others are.
func describeReuse(r job.Report) string {
	s := fmt.Sprintf("%s of %s, %s new, %s changed", text.Thousands(r.Reused), text.Count(r.Offered, "result"), text.Thousands(r.New()), text.Thousands(r.Changed))
	if r.Again > 0 {
		s += fmt.Sprintf(", %s had no result", text.Thousands(r.Again))
	}
	if r.State == job.Completed {
		s += fmt.Sprintf(", %s gone", text.Thousands(r.Gone))
	}
	return s
}

// contentOf returns a short text that is another one if the content of a file is.
func contentOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s:%s", filepath.Base(path), hex.EncodeToString(sum.Sum(nil)[:8])), nil
}

// findReuse says in the spec which job it is, and where the results lie that it would take: where 'stint run' keeps them.
func (o *planOptions) findReuse(p *Program, spec *job.Spec) (err error) {
	r := *spec.Reuse
	if r.Of == "" && spec.Name == "" {
		if spec.Name, err = o.nameOfRun(p, *spec); err != nil {
			return err
		}
	}
	name := cmp.Or(r.Of, spec.Name)
	switch {
	case r.Of == "" && r.Store != "":
		r.From = r.Store
	case r.Of == "" && store.IsPrefix(spec.Output) && spec.Split == "":
		r.From = spec.Output
	default:
		r.From = local.StoreDir(stateOf(p.path(o.state), name), name)
	}
	r.Store, spec.Reuse = r.From, &r
	return nil
}

// nameOfRun returns the name that 'stint run' makes up for the job.
func (o *planOptions) nameOfRun(p *Program, spec job.Spec) (string, error) {
	pools, err := o.job.localPools(p, &o.worker, spec)
	if err != nil {
		return "", err
	}
	var handler worker.Handler
	if pools == nil {
		if len(o.worker.named()) == 0 {
			return "", usageError("--reuse: which job? Give the flags of its 'stint run', with the handler, or --name or --reuse=JOB")
		}
		if handler, err = o.worker.handler(p); err != nil {
			return "", err
		}
	}
	run := runOptions{job: o.job, worker: o.worker}
	return run.named(spec, whatRuns(p, spec, handler, pools), p).Name, nil
}

func (o *planOptions) planReuse(ctx context.Context, p *Program, spec job.Spec) error {
	var access store.Access
	defer access.Close()
	plan, err := predict.PlanReuse(ctx, &access, spec, p.Stdin)
	if err != nil {
		return err
	}
	return printEither(p, o.json, plan, printReuse)
}

// printReuse prints how many items are of each kind, with an example.
func printReuse(out io.Writer, r predict.ReusePlan) error {
	if r.Of.From == "" {
		fmt.Fprintln(out, r.Of.Why)
	} else {
		fmt.Fprintf(out, "%s of run %s\n", text.Count(r.Of.Items, "result"), r.Of.From)
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	row := func(n int64, kind, why string) {
		fmt.Fprintf(w, "%s\t %s\n", text.Thousands(n), kind+why)
		if e := r.Examples[kind]; n > 0 && e != "" {
			fmt.Fprintf(w, "\t   such as %s\n", e)
		}
	}
	row(r.Items, "items", "")
	row(r.Reused, predict.KindReused, ": they are as they were, and have a result")
	row(r.New, predict.KindNew, ": that run did not have them")
	row(r.Changed, predict.KindChanged, ": that run had them with another content")
	row(r.Again, predict.KindAgain, ": that run had them, and they failed or have no result")
	if r.Invalid > 0 {
		row(r.Invalid, predict.KindInvalid, ": they are not in their format")
	}
	if r.Equal > 0 {
		row(r.Equal, "equal", ": of those that are not reused, they equal one before them, and are not called")
	}
	row(r.Gone, predict.KindGone, ": results of that run whose items are not there any more")
	return w.Flush()
}
