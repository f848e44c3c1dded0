package job

import (
	"fmt"
	"strings"
)

// maxHooks is the most hooks of one stage.
const maxHooks = 20

// HookOf tells pool and name of a hook as a [Spec] names it: "NAME" is the job's own pool's,
// "POOL/NAME" another one's.
func (s Spec) HookOf(hook string) (pool, name string) {
	if pool, name, ok := strings.Cut(hook, "/"); ok {
		return pool, name
	}
	return s.Pool, hook
}

func checkHook(hook string) error {
	pool, name, ok := strings.Cut(hook, "/")
	if !ok {
		pool, name = "x", hook
	}
	if CheckName("pool", pool) != nil || CheckName("hook", name) != nil {
		return fmt.Errorf("hook %q: use NAME or POOL/NAME, both of lower-case letters, digits and dashes", hook)
	}
	return nil
}

// HookRun tells how a hook has ended.
type HookRun struct {
	Stage string `json:"stage"` // "init", "shutdown" or "cleanup"
	Hook  string `json:"hook"`  // as the spec names it
	Error *Error `json:"error,omitempty"`
	// Skipped says why it was not run.
	Skipped string `json:"skipped,omitempty"`
}

// The stages of hooks.
const (
	StageInit     = "init"
	StageShutdown = "shutdown"
	StageCleanup  = "cleanup"
)
