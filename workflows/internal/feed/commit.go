package feed

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/execute"
	"go.temporal.io/sdk/workflow"
)

const (
	// Results are committed so long after the first of them, or when they have so many bytes: those of one commit's
	// input, about 1 MB in base64.
	commitEvery = 10 * time.Second
	commitBytes = 1400 << 10
	// entryBytes and rangeBytes are what an entry, and a list of items, have in it beside outcomes and items, at most.
	entryBytes = 500
	rangeBytes = 100
)

// entrySize returns the most bytes that an entry has in a commit's input.
func entrySize(e *wire.FeedEntry) int {
	if e.Inline == nil {
		return entryBytes
	}
	return entryBytes + e.Inline.Size()
}

// feedCommits records the results of a feed's leg: it gathers them, and has them committed now and then.
type feedCommits struct {
	leg      *feedLeg
	heads    []string // of the manifest chain
	entries  []wire.FeedEntry
	discards []wire.FeedRange
	size     int  // of entries, in bytes
	running  bool // a commit
	closing  bool
	done     bool // all is committed
}

// Accept is that of [dispatch.Recorder].
func (c *feedCommits) Accept(_ wire.Task, r wire.ProcessResult) {
	l, now := c.leg, workflow.Now(c.leg.ctx)
	entry := wire.FeedEntry{Entry: r.Entry, Inline: r.Inline}
	entry.Session = l.intake.SessionOf(r.Entry.First)
	l.supply.growth.add(l.intake.Size(r.Entry.Batch), r.Entry.Bytes+r.Entry.ErrBytes)
	l.Count(entry.Session, entry.OK, entry.Failed)
	c.entries = append(c.entries, entry)
	c.size += entrySize(&entry)
	if r.Inline == nil {
		l.intake.FinishStored(r.Entry.Batch, l.partOf(r.Entry), now)
		return
	}
	outcomes, err := r.Inline.Outcomes(r.Entry.Count)
	if err != nil {
		l.Fail(&job.Error{Type: job.ErrorCorrupt, Message: fmt.Sprintf("reading the results of %s: %v", r.Entry.Batch, err)})
		l.intake.FinishStored(r.Entry.Batch, nil, now)
		return
	}
	l.intake.Finish(r.Entry.Batch, outcomes, now)
}

// partOf returns the part of an entry, as clients find it.
func (l *feedLeg) partOf(e wire.Entry) *wire.StoredPart {
	return &wire.StoredPart{
		Store: l.in.Ref.Store, Run: cmp.Or(e.Run, l.in.Ref.Run), Part: e.Part, First: e.First, Count: e.Count,
		Bytes: e.Bytes, Sum: e.Sum, ErrBytes: e.ErrBytes, ErrSum: e.ErrSum,
	}
}

func (c *feedCommits) empty() bool {
	return len(c.entries) == 0 && len(c.discards) == 0 && len(c.leg.intake.Discarded()) == 0
}

// run commits until finish is called. It belongs to a coroutine of its own.
func (c *feedCommits) run(ctx workflow.Context) {
	for !c.closing {
		_ = workflow.Await(ctx, func() bool { return c.closing || !c.empty() })
		if c.closing {
			return
		}
		_, _ = workflow.AwaitWithTimeout(ctx, commitEvery, func() bool { return c.closing || c.size >= commitBytes })
		if c.closing {
			return
		}
		c.running = true
		err := c.commit(ctx, nil)
		c.running = false
		if err != nil {
			c.leg.Fail(err)
			return
		}
		c.reportKept(ctx)
	}
}

// reportKept reports to the job what is committed. If there is no job any more, the leg stops.
func (c *feedCommits) reportKept(ctx workflow.Context) {
	kept := wire.KeptResult{Leg: c.leg.in.Number, Result: wire.LegResult{Manifests: c.heads, Accepted: c.leg.intake.Next()}}
	if sent := c.leg.link.Signal(wire.SignalKept, kept); sent != nil && sent.Get(ctx, nil) != nil {
		c.leg.checkJob(ctx)
	}
}

// commit has what has gathered written to a manifest, with items that have no outcome. After an error nothing of it
// counts, and it can be tried again.
func (c *feedCommits) commit(ctx workflow.Context, unfinished []wire.FeedItems) *job.Error {
	c.discards = append(c.discards, c.leg.intake.TakeDiscarded()...)
	entries, discards := c.entries[:c.fitting(0)], c.discards
	in := c.input()
	in.Accepted = c.leg.intake.Next()
	in.Entries, in.Discarded, in.Unfinished = entries, discards, unfinished
	_ = c.leg.load.Await(ctx, func() int { return commitBytes })
	ctx = execute.IOOptions(ctx, c.leg.in.Spec, "commit "+text.Count(len(entries), "batch"))
	committed, err := execute.IO(ctx, wire.ActivityCommitFeed, in)
	if err != nil {
		return execute.JobError(err)
	}
	c.heads = []string{committed.Manifest}
	c.entries, c.discards = c.entries[len(entries):], c.discards[len(discards):]
	for i := range entries {
		c.size -= entrySize(&entries[i])
	}
	return nil
}

// fitting returns the end of the entries, from one on, that one commit takes: at most commitBytes, and at least one.
func (c *feedCommits) fitting(from int) int {
	size := 0
	for i := range c.entries[from:] {
		if size += entrySize(&c.entries[from+i]); size > commitBytes && i > 0 {
			return from + i
		}
	}
	return len(c.entries)
}

func (c *feedCommits) input() wire.CommitFeedInput {
	in := c.leg.in
	return wire.CommitFeedInput{Ref: in.Ref, Leg: in.Number, Previous: c.heads, Format: wire.Format(in.Spec.Format)}
}

// Finish commits the rest, with the items that have no outcome if the feed is stopped. A stop does not hold it up.
func (c *feedCommits) Finish(ctx workflow.Context) *job.Error {
	c.closing = true
	_ = workflow.Await(ctx, func() bool { return !c.running })
	for !c.empty() {
		if err := c.commit(ctx, nil); err != nil {
			return err
		}
	}
	for _, some := range c.unfinished() {
		if err := c.commit(ctx, some); err != nil {
			return err
		}
	}
	c.done = true
	return nil
}

// unfinished returns the items without an outcome, in lists that fit into one commit each.
func (c *feedCommits) unfinished() [][]wire.FeedItems {
	var lists [][]wire.FeedItems
	size := commitBytes
	for _, u := range c.leg.intake.Unfinished() {
		for i, data := range u.Items {
			first := u.First + int64(i)
			if size += rangeBytes + wire.ItemSize(data); size > commitBytes {
				lists, size = append(lists, nil), rangeBytes+wire.ItemSize(data)
			}
			list := &lists[len(lists)-1]
			if n := len(*list); i > 0 && n > 0 && (*list)[n-1].First+int64(len((*list)[n-1].Items)) == first {
				(*list)[n-1].Items = append((*list)[n-1].Items, data)
				size -= rangeBytes
				continue
			}
			*list = append(*list, wire.FeedItems{First: first, Items: []json.RawMessage{data}, Session: u.Session})
		}
	}
	return lists
}

// Pending returns what is not committed, for a job that goes on after Temporal has ended this one.
func (c *feedCommits) Pending() []wire.CommitFeedInput {
	all := []wire.CommitFeedInput{c.input()}
	all[0].Discarded = append(slices.Clone(c.discards), c.leg.intake.Discarded()...)
	for from := 0; from < len(c.entries); {
		to := c.fitting(from)
		next := c.input()
		next.Previous, next.Entries = nil, c.entries[from:to]
		all = append(all, next)
		from = to
	}
	if !c.done {
		for _, some := range c.unfinished() {
			next := c.input()
			next.Previous, next.Unfinished = nil, some
			all = append(all, next)
		}
	}
	return all
}
