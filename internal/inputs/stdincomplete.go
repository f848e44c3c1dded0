package inputs

import (
	"context"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
)

// StdinComplete reports whether a job has read its standard input to the end, so that it can continue
// without it. A job none of whose pages has been accepted cannot: it would list its sources anew.
func StdinComplete(ctx context.Context, access ledger.Access, report job.Report) (bool, error) {
	dir, err := access.Open(ctx, report.Store)
	if err != nil {
		return false, err
	}
	tables, err := acceptedTables(ctx, dir, report)
	if err != nil {
		return false, err
	}
	n := New(access, nil)
	found := false
	for _, key := range tables {
		table, err := n.Table(ctx, dir, key)
		if err != nil {
			return false, err
		}
		for i := range table.Sources {
			s := &table.Sources[i]
			if s.URL != stdinName {
				continue
			}
			if complete, err := spoolComplete(ctx, dir, s.Spool); err != nil || !complete {
				return false, err
			}
			found = true
		}
	}
	return found, nil
}

// Unchanged returns an error if an input of a job is not what it was when the job was planned, or is gone, or cannot be looked at.
func Unchanged(ctx context.Context, access ledger.Access, report job.Report) error {
	dir, err := access.Open(ctx, report.Store)
	if err != nil {
		return err
	}
	tables, err := acceptedTables(ctx, dir, report)
	if err != nil {
		return err
	}
	n := New(access, nil)
	for _, key := range tables {
		table, err := n.Table(ctx, dir, key)
		if err == nil {
			err = n.allUnchanged(ctx, table)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// acceptedTables returns the key of the source table that the job's manifests name, or else those of
// all that the run has written, one of which was accepted.
func acceptedTables(ctx context.Context, dir store.Dir, report job.Report) ([]string, error) {
	if len(report.Manifests) > 0 {
		head, err := ledger.ReadHead(ctx, dir, report.Manifests[0])
		return []string{head.Sources}, err
	}
	if report.Planned == 0 && !report.PlanDone {
		return nil, nil
	}
	var keys []string
	for info, err := range dir.List(ctx, report.Run+"/sources-") {
		if err != nil {
			return nil, err
		}
		keys = append(keys, info.Key)
	}
	return keys, nil
}
