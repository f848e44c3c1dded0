package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/store"
	"go.temporal.io/api/serviceerror"
)

// cleared reports whether somebody has removed what a job had done from its store: one of the manifests that it would continue
// from, or what that needs.
func (r *run) cleared(ctx context.Context, heads []string) (cleared bool, err error) {
	err = r.throughOutage(ctx, func() error {
		cleared, err = r.lacks(ctx, heads)
		return err
	})
	return cleared, err
}

// lacks is cleared, without waiting for a store that cannot be used for now.
func (r *run) lacks(ctx context.Context, heads []string) (bool, error) {
	var access store.Access
	defer access.Close()
	dir, err := access.Open(ctx, r.spec.WithDefaults().Store)
	if err != nil {
		return false, err
	}
	for _, key := range heads {
		head, err := ledger.ReadHead(ctx, dir, key)
		if err == nil && head.Sources != "" {
			_, err = dir.Stat(ctx, head.Sources)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// errCleared is about a job that cannot be continued by its name.
func (r *run) errCleared() error {
	return fmt.Errorf("what job %s had done is gone from its store, %s: give its own command again, which starts it afresh", r.spec.Name, r.spec.WithDefaults().Store)
}

// explain says what to do about the error of asking a job that another version of stint has begun, and this one cannot read.
func (r *run) explain(err error) error {
	if _, failing := errors.AsType[*serviceerror.WorkflowNotReady](err); !failing {
		return err
	}
	return fmt.Errorf("job %s was begun by another version of stint, which this one cannot continue: use that version, or start the job anew with --fresh, or name another --state: %w",
		r.spec.Name, err)
}
