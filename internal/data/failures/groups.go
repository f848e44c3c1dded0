// Package failures groups error records by kind, type and the pattern of their messages, and selects some of them.
package failures

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/job"
)

const (
	// maxGroups bounds the memory: messages that would begin a further group go into one of all patterns of their kind
	// and type, and there are at most maxRests of these.
	maxGroups = 1000
	maxRests  = 100
	// MaxReported is the most groups in a report. Those that are in none of them are the last group.
	MaxReported = 20
	// MaxText bounds the texts of a group, in bytes as JSON without quotes.
	MaxText = 200
)

// Groups groups failures, in a bounded memory. The zero value has none.
type Groups struct {
	groups map[key]*job.FailureGroup
	rests  map[key]*job.FailureGroup // of messages of all patterns
	others int64                     // in no group
	plain  patterns
}

// key is what the failures of a group have in common.
type key struct{ stage, kind, typ, pattern string }

// Add adds a failure. Failures come in the order of their items.
func (g *Groups) Add(f *job.Failure) {
	if g.groups == nil {
		g.groups, g.rests = map[key]*job.FailureGroup{}, map[key]*job.FailureGroup{}
	}
	k := key{f.Stage, f.Kind, fit(f.Error.Type), g.plain.of(f)}
	if add(g.groups, k, f, maxGroups) {
		return
	}
	k.pattern = "*"
	if !add(g.groups, k, f, 0) && !add(g.rests, k, f, maxRests) {
		g.others++
	}
}

// Writer returns a writer of error records, one a line, that adds them.
func (g *Groups) Writer() *Records {
	return &Records{Each: func(_ []byte, f *job.Failure) error {
		g.Add(f)
		return nil
	}}
}

// add counts a failure in its group, and adds a missing group if there are fewer than most. It returns false if it counted none.
func add(groups map[key]*job.FailureGroup, k key, f *job.Failure, most int) bool {
	group := groups[k]
	if group == nil && len(groups) >= most {
		return false
	}
	if group == nil {
		group = &job.FailureGroup{
			Stage: strings.Clone(k.stage), Kind: strings.Clone(k.kind), Type: strings.Clone(k.typ), Pattern: strings.Clone(k.pattern),
			Item: f.Item, Message: text.Fit(firstLine(f.Error.Message), MaxText),
		}
		groups[key{group.Stage, group.Kind, group.Type, group.Pattern}] = group
	}
	group.Count++
	return true
}

// Largest returns the groups with the most failures, at most so many, and then, if there is any, one without a kind that
// counts the failures in none of these. Nil: there are no failures.
func (g *Groups) Largest(most int) []job.FailureGroup {
	all := slices.Concat(slices.Collect(maps.Values(g.groups)), slices.Collect(maps.Values(g.rests)))
	slices.SortFunc(all, func(a, b *job.FailureGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Item, b.Item), cmp.Compare(a.Pattern, b.Pattern))
	})
	var shown []job.FailureGroup
	others := g.others
	for i, group := range all {
		if i < most {
			shown = append(shown, *group)
		} else {
			others += group.Count
		}
	}
	if others > 0 {
		shown = append(shown, job.FailureGroup{Count: others})
	}
	return shown
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return strings.TrimSuffix(s, "\r")
}
