package job

import (
	"fmt"
	"slices"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/text"
)

// FailureGroup are failures of one kind, type and stage whose messages have one pattern: they differ in numbers, names
// in quotes, paths and the like at most.
type FailureGroup struct {
	Stage string `json:"stage,omitempty"`
	// Kind is empty in the last group of some: it counts the failures that are in none of the others.
	Kind string `json:"kind,omitempty"`
	Type string `json:"type,omitempty"`
	// Pattern is the first line of the messages, or its beginning, with * in the place of what differs, as [Where] has it.
	Pattern string `json:"pattern,omitempty"`
	Count   int64  `json:"count"`
	// Item is the first one's ordinal, Message the first line of its message, or its beginning.
	Item    int64  `json:"item"`
	Message string `json:"message,omitempty"`
}

// Where returns the expression that selects the failures of the group; empty: there is none.
func (g FailureGroup) Where() Where {
	if g.Kind == "" {
		return ""
	}
	w := "kind=" + g.Kind
	for _, c := range []struct{ key, value string }{{"type", g.Type}, {"stage", g.Stage}, {"message", g.Pattern}} {
		if c.value != "" {
			w += " " + c.key + "=" + quoted(c.value)
		}
	}
	return Where(w)
}

// String describes the group by its first failure: "error ValueError: record 0 has no name (item 0)".
func (g FailureGroup) String() string {
	if g.Kind == "" {
		return "others"
	}
	stage := ""
	if g.Stage != "" {
		stage = "stage " + g.Stage + ": "
	}
	return fmt.Sprintf("%s%s%s (item %s)", stage, g.Label(), g.Message, text.Thousands(g.Item))
}

// Label returns the kind, and the type if that says more: "error ValueError: ". It is empty for an exit status, which
// begins the message.
func (g FailureGroup) Label() string {
	switch kind := limits.FailureKindOf(g.Kind); {
	case kind.Said:
		return ""
	case kind.Typed && g.Type != "" && !slices.Contains(goTypes, g.Type):
		return g.Kind + " " + g.Type + ": "
	}
	return g.Kind + ": "
}

// goTypes are error types of Go's standard library. Their names add nothing to the messages; the records keep them.
var goTypes = []string{
	"error", "Error", "PathError", "LinkError", "SyscallError", "Errno", "NumError", "SyntaxError", "UnmarshalTypeError", "OpError", "DNSError",
	"AddrError", "ParseError", "deadlineExceededError",
}
