package page

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/data/failures"
	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/job"
)

// Failures are the failed items of a job by kind, type and pattern of their messages, the largest groups first.
type Failures struct {
	Groups []Group `json:"groups"`
	// Partial: these are groups of the first failures only, or they are not all of now.
	Partial bool `json:"partial,omitempty"`
	// Trouble is why examples could not be read; empty: they could.
	Trouble string `json:"trouble,omitempty"`
}

// Group is a group of failures, with some of them.
type Group struct {
	job.FailureGroup
	// Where is the expression that selects the group; left out: there is none.
	Where    job.Where `json:"where,omitempty"`
	Examples []Example `json:"examples,omitempty"`
}

// Example is a failed item. Long texts are cut.
type Example struct {
	Item     int64     `json:"item"`
	Source   string    `json:"source"`
	Input    string    `json:"input"` // its beginning
	Error    job.Error `json:"error"`
	Attempts int       `json:"attempts"`
}

const (
	// shownGroups is how many groups are shown, and examples how many of each.
	shownGroups, examples = 20, 3
	// maxRecords is how many error records are read at most, and readLimit for how long.
	maxRecords = 20_000
	readLimit  = 2 * time.Second
	// readEvery is how often those of a running job are read at most, and readShare how much longer than reading that is.
	readEvery = 10 * time.Second
	readShare = 20

	maxInput, maxMessage, maxStack = 300, 2000, 8000 // bytes
)

// errEnough ends the reading of records.
var errEnough = errors.New("enough")

// failures returns those of a job: of one that runs what has been committed a while ago.
func (p *Page) failures(ctx context.Context, known *memory, r job.Report) Failures {
	if r.Failed == 0 {
		return Failures{Groups: []Group{}}
	}
	of := fmt.Sprint(r.State.Final(), r.Failed, len(r.Failures))
	known.reading.Lock()
	defer known.reading.Unlock()
	fresh := time.Now().Before(known.failuresAt)
	if known.failuresOf == of || fresh && (!r.State.Final() || known.failuresTried == of) {
		return known.failures
	}
	began := time.Now()
	found, whole := p.readFailures(ctx, r)
	if !whole && ctx.Err() != nil {
		return found // nobody waits for it any more: the next one who asks reads them
	}
	known.failures, known.failuresTried = found, of
	known.failuresAt = time.Now().Add(max(readEvery, readShare*time.Since(began)))
	if whole {
		known.failuresOf = of
	}
	return found
}

// readFailures reads error records, and groups them if the report has no groups. It reports whether it has read all that
// it wants.
func (p *Page) readFailures(ctx context.Context, r job.Report) (found Failures, whole bool) {
	c := collected{examples: map[string][]Example{}}
	whole = true
	if p.options.Access != nil {
		ctx, cancel := context.WithTimeout(ctx, readLimit)
		defer cancel()
		_, err := outputs.Results(ctx, p.options.Access, r, outputs.Selection{Errors: true}, &failures.Records{Each: c.add})
		whole = err == nil || errors.Is(err, errEnough)
		found.Partial = err != nil
		if !whole && ctx.Err() == nil {
			found.Trouble = text.Cut(err.Error(), maxMessage)
		}
	}
	groups := r.Failures
	if len(groups) == 0 {
		groups = c.groups.Largest(shownGroups)
	} else {
		found.Partial = false // the report counts all
	}
	found.Groups = make([]Group, len(groups))
	for i, g := range groups {
		found.Groups[i] = Group{FailureGroup: g, Where: g.Where(), Examples: c.examples[keyOf(g)]}
	}
	return found, whole
}

// collected are the error records that have been read.
type collected struct {
	groups   failures.Groups
	examples map[string][]Example
	records  int
}

// add takes a record.
func (c *collected) add(line []byte, f *job.Failure) error {
	c.groups.Add(f)
	var alone failures.Groups
	alone.Add(f)
	if key := keyOf(alone.Largest(1)[0]); len(c.examples[key]) < examples && len(c.examples) < maxMemories {
		c.examples[key] = append(c.examples[key], exampleOf(line, f))
	}
	if c.records++; c.records == maxRecords {
		return errEnough
	}
	return nil
}

// keyOf is what the failures of a group have in common.
func keyOf(g job.FailureGroup) string {
	return strings.Join([]string{g.Stage, g.Kind, g.Type, g.Pattern}, "\x00")
}

func exampleOf(line []byte, f *job.Failure) Example {
	var record struct {
		Input json.RawMessage `json:"input"`
	}
	_ = json.Unmarshal(line, &record) // an example is worth having without it
	return Example{
		Item: f.Item, Source: strings.Clone(f.Source), Input: text.Cut(inputText(record.Input), maxInput), Attempts: f.Attempts,
		Error: job.Error{
			Type: strings.Clone(f.Error.Type), Message: text.Cut(strings.Clone(f.Error.Message), maxMessage),
			Stack: text.Cut(strings.Clone(f.Error.Stack), maxStack),
		},
	}
}

// inputText is an item as people read it: a text without its quotes.
func inputText(input json.RawMessage) string {
	var plain string
	if json.Unmarshal(input, &plain) == nil && len(input) > 0 && input[0] == '"' {
		return plain
	}
	return cmp.Or(string(input), "null")
}
