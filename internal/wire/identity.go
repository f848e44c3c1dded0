package wire

import (
	"strconv"
	"strings"
)

// Identity is what a worker says of itself to the server when it polls. What it does not say is empty.
type Identity struct {
	Worker  string // its name
	Pool    string // of a worker that coordinates jobs: one that is idle is found by it
	Slots   int    // how many batches make calls at once
	Program string // the version of stint
	Version string // that of its handler
	Process string // as procs.Own names it
}

// identityMark separates the parts of an identity. All but the name begin with a word of their own.
const identityMark = " · "

// String returns the identity as the server gets it.
func (i Identity) String() string {
	parts := []string{i.Worker}
	add := func(word, value string) {
		if value != "" {
			parts = append(parts, word+" "+value)
		}
	}
	add("pool", i.Pool)
	if i.Slots > 0 {
		add("slots", strconv.Itoa(i.Slots))
	}
	add("program", i.Program)
	add("version", i.Version)
	add("process", i.Process)
	return strings.Join(parts, identityMark)
}

// ParseIdentity reads one. Of an identity that no worker of stint has, all is the name.
func ParseIdentity(text string) Identity {
	parts := strings.Split(text, identityMark)
	i := Identity{Worker: parts[0]}
	for _, part := range parts[1:] {
		switch word, value, _ := strings.Cut(part, " "); word {
		case "pool":
			i.Pool = value
		case "slots":
			i.Slots, _ = strconv.Atoi(value) // 0 after an error
		case "program":
			i.Program = value
		case "version":
			i.Version = value
		case "process":
			i.Process = value
		}
	}
	return i
}
