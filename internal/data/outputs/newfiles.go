package outputs

import (
	"context"
	"fmt"

	"github.com/stint-run/stint/internal/base/location"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/newfiles"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/job"
)

// CheckKept returns an error if a new run with new files only would replace the output of an earlier run, which has
// results of files that are not run again.
func CheckKept(ctx context.Context, access ledger.Access, spec job.Spec) error {
	where := spec.NewFilesList()
	if where == "" || spec.Output == "" {
		return nil
	}
	if list, err := newfiles.Read(ctx, access, where); err != nil || list.Len() == 0 {
		return err
	}
	there, err := hasResults(ctx, access, spec)
	if !there || err != nil {
		return err
	}
	return ledger.Permanent(job.ErrorOutput, fmt.Errorf(
		"output %s has the results of files that an earlier run has completed, and would be replaced by those of the new files: "+
			"give each run an output of its own, such as one with the date in its name, or move this one away; without %s all files are run again",
		spec.Output, where))
}

// hasResults reports whether there is an output that has results.
func hasResults(ctx context.Context, access ledger.Access, spec job.Spec) (bool, error) {
	where := spec.Output
	if !formOf(spec.Output, spec.Split).file {
		if where = spec.Store; !store.IsPrefix(where) {
			where = location.Append(where, "/")
		}
		where = location.Append(where, PartsList)
	}
	dir, name, err := OpenTarget(ctx, access, where, 0)
	if err != nil {
		return false, err
	}
	if sink, err := store.Sink(dir, name); sink || err != nil {
		return false, ledger.StoreError(job.ErrorOutput, err)
	}
	info, err := dir.Stat(ctx, name)
	if err != nil && missing(dir, err) {
		return false, nil
	}
	return info.Size > 0, ledger.StoreError(job.ErrorOutput, err)
}

// CompleteFiles adds the files of the run to those that need not run again, if the job runs new files only.
func (p *Publication) CompleteFiles(ctx context.Context) error {
	where := p.Spec.NewFilesList()
	if where == "" {
		return nil
	}
	return newfiles.Complete(ctx, p.Access, p.Dir, p.Ref, where)
}
