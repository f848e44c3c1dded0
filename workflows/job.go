package workflows

import (
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/coordinate"
	"github.com/stint-run/stint/workflows/internal/feed"
	"github.com/stint-run/stint/workflows/internal/files"
	"github.com/stint-run/stint/workflows/internal/loop"
	"github.com/stint-run/stint/workflows/internal/pages"
	"github.com/stint-run/stint/workflows/internal/redrive"
	"go.temporal.io/sdk/workflow"
)

// Job runs a job to its end. If the job fails, it returns an application error whose details are the
// job's report, otherwise the report.
//
// It has no largest input. A run spends on each leg, so on 600 batches: Plan 3 events, the child 3, at most four
// signals with places that come back and as many that grant them, 12, and at most 3 for a workflow task for each of the
// 11 events that cause one: 51. In bytes: the page in Plan's result and in the leg's input, 6 KB each (24 KB if no
// batch follows from the one before), twice the spec, 500 bytes, and 150 for each event: 20 KB, at most 57 KB. So
// Temporal suggests continue-as-new (4,096 events or 4 MB) after some 80 legs, 48,000 batches, and no sooner than after
// 70. The run then starts nothing, waits for its open legs, at most 24, and ends with at most 4,096 + 24·51 = 5,320
// events. A leg inside the job adds 1,300 events at most, and there is one at a time: more than one only if the input
// is still being written, and then each takes about 20 events and a run some 200 of them. News of the pool (see
// wire.PoolReport) are 4 events each, and 5 more for a window that grows: some ten in the life of a job.
//
// The next run gets the spec, the state of the work, counts, what is known of 64 workers (6 KB) and the heads of the
// manifest chain: one for each leg that was open, at most 25 (2 KB), however many manifests there are. These are at
// most 20 KB and the spec, and a chain of runs has no limit. 10^12 items in batches of 100,000 are 10^7 batches, 17,000
// legs and 210 runs; in batches of one item they are 1.7·10^9 legs and 20 million runs.
func Job(ctx workflow.Context, in wire.JobInput) (job.Report, error) {
	begin(ctx, in.Version)
	return coordinate.Run(ctx, in, workOf)
}

// Leg runs a page of a job's batches: see package pages.
func Leg(ctx workflow.Context, in wire.LegInput) (wire.LegResult, error) {
	begin(ctx, in.Version)
	return pages.RunLeg(ctx, in)
}

// FeedLeg runs a leg of a feed, which takes items from clients: see package feed.
func FeedLeg(ctx workflow.Context, in wire.FeedLegInput) (wire.LegResult, error) {
	begin(ctx, in.Version)
	return feed.RunLeg(ctx, in)
}

// LoopLeg runs a slot of a loop until it is stopped: see package loop.
func LoopLeg(ctx workflow.Context, in wire.LoopLegInput) (wire.LegResult, error) {
	begin(ctx, in.Version)
	return loop.RunLeg(ctx, in)
}

// workOf chooses what a job does.
func workOf(in wire.JobInput, state *wire.WorkState) coordinate.Work {
	switch {
	case in.Redrive != nil:
		return redrive.New(*in.Redrive, state)
	case in.Spec.Feed != nil:
		return feed.New(state)
	case in.Spec.Loop != nil:
		return loop.New(in, state)
	}
	return files.New(state)
}

// A running job must follow the logic that it has started with, or its history would not replay. Its input
// carries the wire.LogicVersion of the client that has started it, over all its runs and in all its legs, and its task
// queues are those of that version: only workers that know it poll them.
//
// To change what workflows do, or what they give to activities, raise wire.LogicVersion to n, name the gate below with
// the number n and what it changes, and branch with hasLogic(in.Version, gate): the old way stays for jobs that run
// already. Then record histories (go test -run TestHistory_Jobs -record). A gate may go once no job that was started
// before it can still run. docs/upgrading.md has the steps; nextlogic_on.go shows one.
//
// A change that must reach running jobs needs workflow.GetVersion, which costs two events a run.

// logicFirst is the gate of the first version: every job has it.
const logicFirst = 1

// hasLogic reports whether a job that was started with a version of the logic follows what a gate names.
func hasLogic(version, gate int) bool { return version >= gate }
