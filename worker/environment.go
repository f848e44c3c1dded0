package worker

import (
	"os"
	"slices"
	"strconv"
	"strings"
)

// passedOn are the variables of its own environment that a worker gives to its children; those
// that end in '*' are prefixes.
var passedOn = []string{"PATH", "HOME", "USER", "LANG", "LC_*", "TZ", "TMPDIR"}

// childEnv is the environment of child processes.
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

// slotEnv is the environment that describes a slot to its process.
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

// oneThread is the environment that keeps libraries to one thread, unless env says otherwise.
func oneThread(env []string) []string {
	var out []string
	for _, name := range threads {
		if !slices.ContainsFunc(env, func(v string) bool { return v == name || strings.HasPrefix(v, name+"=") }) {
			out = append(out, name+"=1")
		}
	}
	return out
}
