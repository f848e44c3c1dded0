package job

import (
	"fmt"
	"strings"
)

// maxHooks is the most hooks of one stage.
const maxHooks = 20

// HookOf returns the pool and the name of a hook as a [Spec] names it: "NAME" is of the job's own pool,
// "POOL/NAME" of another one.
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

// HookRun is the outcome of a hook.
type HookRun struct {
	Stage string `json:"stage"` // "init", "shutdown" or "cleanup"
	Hook  string `json:"hook"`  // as the spec names it
	Error *Error `json:"error,omitempty"`
	// Skipped is why it was not run; empty: it was run.
	Skipped string `json:"skipped,omitempty"`
}

// The stages of hooks.
const (
	StageInit     = "init"
	StageShutdown = "shutdown"
	StageCleanup  = "cleanup"
)
