package loops

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/internal/trap"
)

// sweepers is how many manifests are removed at once: there may be some hundred.
const sweepers = 4

// sweep removes manifests in the background. The zero value has nothing to remove.
type sweep struct {
	cancel context.CancelFunc
	lanes  []<-chan error
}

// startSweep removes the manifests that head, with which an execution begins, has replaced. The caller must call end.
func startSweep(ctx context.Context, dir store.Dir, head string) sweep {
	keys := replacedBy(head)
	if dir == nil || len(keys) == 0 {
		return sweep{}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := sweep{cancel: cancel}
	for first := range min(sweepers, len(keys)) {
		s.lanes = append(s.lanes, trap.Go("removing replaced manifests", func() error {
			for i := first; i < len(keys) && ctx.Err() == nil; i += sweepers {
				if dir.Delete(ctx, keys[i]) != nil {
					return nil // what stays does no harm: nothing names it
				}
			}
			return nil
		}))
	}
	return s
}

// finish waits until all have been removed. Only then does the execution write a manifest of its own: if it is lost before, the next
// one begins with the same head, and removes the others.
func (s *sweep) finish() error {
	for len(s.lanes) > 0 {
		err := <-s.lanes[0]
		s.lanes = s.lanes[1:]
		if err != nil {
			return err
		}
	}
	return nil
}

// end stops removing. It is idempotent.
func (s *sweep) end() {
	if s.cancel == nil {
		return
	}
	s.cancel()
	for _, lane := range s.lanes {
		<-lane
	}
	s.lanes = nil
}

const manifestEnd = ".jsonl"

// manifestKey is the key of manifest n, from 1, of an execution.
func manifestKey(prefix, series string, n int) string {
	return fmt.Sprintf("%s%s-%06d%s", prefix, series, n, manifestEnd)
}

// replacedBy returns the keys of the manifests that their execution has written before head.
func replacedBy(head string) []string {
	prefix, name := path.Split(head)
	series, number, _ := strings.Cut(strings.TrimSuffix(name, manifestEnd), "-")
	n, err := strconv.Atoi(number)
	if err != nil || head != manifestKey(prefix, series, n) {
		return nil
	}
	var keys []string
	for i := 1; i < n; i++ {
		keys = append(keys, manifestKey(prefix, series, i))
	}
	return keys
}
