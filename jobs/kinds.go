package jobs

import (
	"fmt"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// kind is what clients have to know of one kind of job.
type kind struct {
	// items says where the items come from, for people.
	items func(job.Spec) string
	// memo is what the job's memo has at its start, besides what that of every job has.
	memo map[string]any
	// answer adds to an answer what only such jobs say.
	answer func(*givenInput, *wire.Answer)
	// files: the histories of the job and of its legs show all that has to be kept. Those of feeds and loops do not:
	// what a feed had accepted, and where the slots of a loop stood, only their workflows can say.
	files bool
	// asks: what a leg has not committed is too much for a client: the next run asks the leg for it, piece by piece.
	asks bool
	// rerun: if nothing has worked, its items run again. Those of a feed do not: its clients have the outcomes already.
	rerun bool
	// replaces: the next run takes the place of those before in the store.
	replaces bool
}

// kindOf returns the kind of a job by its spec.
func kindOf(spec job.Spec, redrive *job.Redrive) kind {
	switch {
	case redrive != nil:
		of := kindOf(spec, nil)
		items := of.items
		of.items = func(s job.Spec) string { return "redrive of " + items(s) }
		of.answer, of.replaces = redriveAnswer, false
		return of
	case spec.Feed != nil:
		return kind{asks: true, items: func(job.Spec) string { return "feed" }, answer: feedAnswer, memo: map[string]any{wire.MemoLeg: 0}}
	case spec.Loop != nil:
		return kind{rerun: true, items: ticksOf, answer: loopAnswer}
	}
	return kind{files: true, rerun: true, replaces: true, items: inputsOf, answer: func(*givenInput, *wire.Answer) {}}
}

// inputsOf names the inputs of a job of files.
func inputsOf(s job.Spec) string {
	inputs := s.Inputs()
	if len(inputs) == 1 {
		return inputs[0]
	}
	return fmt.Sprintf("%s and %d more", inputs[0], len(inputs)-1)
}

// ticksOf says how often a loop ticks.
func ticksOf(s job.Spec) string {
	slots := text.Count(s.Loop.Slots, "slot")
	if s.Loop.Every == 0 {
		return "loop back to back, " + slots
	}
	return fmt.Sprintf("loop every %v, %s", s.Loop.Every, slots)
}

func redriveAnswer(in *givenInput, a *wire.Answer) {
	redrive := *in.Redrive
	redrive.Done = a.Manifests
	a.Redrive, a.Output, a.Manifests = &redrive, &redrive.Output, redrive.Manifests
}

func feedAnswer(in *givenInput, a *wire.Answer) { a.Feed = in.feed(&a.Report) }

func loopAnswer(in *givenInput, a *wire.Answer) {
	a.Loop = in.Spec.Loop.Report(in.slots())
	a.Manifests = nil
	for _, slot := range a.Loop.At {
		if slot.Head != "" {
			a.Manifests = append(a.Manifests, slot.Head)
		}
	}
}
