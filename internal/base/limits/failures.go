package limits

import "slices"

// FailureKind is what there is to know of a kind of failure. Package job has its name as a constant.
type FailureKind struct {
	Name    string
	Meaning string // in docs/failures.md
	// Said: the message says the kind itself.
	Said bool
	// Typed: the type of the error says more than the kind.
	Typed bool
	// Misused: commands that are no filters fail so.
	Misused bool
}

// FailureKinds are all kinds, in the order of the docs. Metrics count each, and people are shown them as the fields
// say.
var FailureKinds = []FailureKind{
	{Name: "error", Typed: true, Meaning: "the handler returned an error for the item"},
	{Name: "exit", Said: true, Misused: true, Meaning: "the filter ended with a status other than 0, which the message begins with"},
	{Name: "crash", Misused: true, Meaning: "the item's process was killed, or, if it should have stayed, ended during the call"},
	{Name: "expired", Meaning: "a timer around the item's call expired"},
	{Name: "invalid", Meaning: "the bytes are not an item in their format"},
	{Name: "length", Misused: true, Meaning: "the call did not answer with one result per item"},
	{Name: "lost", Meaning: "a feed has accepted the item, and its outcome cannot be found any more"},
}

// FailureKindOf returns the kind of that name; one that is not known has nothing but its name.
func FailureKindOf(name string) FailureKind {
	if i := slices.IndexFunc(FailureKinds, func(k FailureKind) bool { return k.Name == name }); i >= 0 {
		return FailureKinds[i]
	}
	return FailureKind{Name: name}
}
