package main

// mutants are tried in this order. Each has the tests that notice it in seconds.
var mutants = []mutant{
	// fences
	{
		name: "fence: publishing does not look whose the store is", file: "internal/data/store/object/dir.go",
		old: `if err != nil || string(have) != want {`, new: `if err != nil {`,
		pkg: "./internal/data/ledger", tests: "TestClaim_OfAnOlderRunThatIsLate",
	},
	{
		name: "fence: an older run takes the store from a newer one", file: "internal/data/ledger/ref.go",
		old: `if compare(r, held) < 0 {`, new: `if held == "" && compare(r, held) < 0 {`,
		pkg: "./internal/data/ledger", tests: "TestD9_ALateClaimDoesNotReplaceANewerOne",
	},
	{
		name: "fence: WhileCurrent runs without a look", file: "internal/data/ledger/ref.go",
		old: `		err := dir.Guard(ctx, CurrentKey, current(r), func(ctx context.Context) error {
			began = true
			return fn(ctx)
		})`,
		new: `		began = true
		err := fn(ctx)`,
		pkg: "./internal/data/ledger", tests: "TestWhileCurrent_NoRunIsNamed|TestClaim_OfAnOlderRunThatIsLate",
	},
	{
		name: "fence: the joined output has no condition", file: "internal/data/store/join.go",
		old: `Scratch: opts.Scratch, Unchanged: true})`, new: `Scratch: opts.Scratch})`,
		pkg: "./internal/data/outputs", tests: "TestD9_AFrozenRunDoesNotReplaceANewerOutput",
	},
	{
		name: "fence: the list of parts has no condition", file: "internal/data/outputs/publish.go",
		old: `store.CreateUnchanged(ctx, p.Dir, PartsList)`, new: `store.CreateBulk(ctx, p.Dir, PartsList)`,
		pkg: "./internal/data/outputs", tests: "TestD9_AFrozenRunDoesNotReplaceANewerOutput",
	},

	// sweeps
	{
		name: "sweep: a redrive that was overtaken sweeps what it has merged", file: "internal/data/redrive/finish.go",
		old: `if err := ledger.WhileCurrent(ctx, f.Ref, f.Dir, func(context.Context) error { return nil }); err != nil {`,
		new: `if err := ctx.Err(); err != nil {`,
		pkg: "./internal/data/redrive", tests: "TestSweepMerged_LeavesAllToANewerRun",
	},
	{
		name: "sweep: Finish removes parts that count", file: "internal/data/outputs/sweep.go",
		old: `return kept.has(key) || parts.Has(key)`, new: `return kept.has(key)`,
		pkg: "./activities", tests: "TestFinish_KeepsParts|TestFinish_Sweeps",
	},
	{
		name: "sweep: a run that was overtaken sweeps those before it", file: "internal/data/outputs/sweep.go",
		old: `	err = ledger.WhileCurrent(ctx, p.Ref, p.Dir, func(context.Context) error { return nil })
`, new: `	err = ctx.Err()
`,
		pkg: "./activities", tests: "TestFinish_SweepsRunsOutsideTheChain",
	},

	// order of writes
	{
		name: "order: the output is there before DONE says what it is", file: "internal/data/outputs/publish.go",
		old: `		if err := p.WriteDone(ctx); err != nil {
			return err
		}
		return ledger.WhileCurrent`,
		new: `		defer func() { _ = p.WriteDone(ctx) }()
		return ledger.WhileCurrent`,
		pkg: "./internal/data/outputs", tests: "TestPublish_DoneComesBeforeTheOutput",
	},

	// books
	{
		name: "books: ranges may overlap", file: "internal/data/ledger/books.go",
		old: `case e.First < b.Items:`, new: `case e.First < 0:`,
		pkg: "./internal/data/ledger", tests: "TestCheckBooks",
	},
	{
		name: "books: ranges may have gaps", file: "internal/data/ledger/books.go",
		old: `case e.First > b.Items:`, new: `case e.First < 0:`,
		pkg: "./internal/data/ledger", tests: "TestCheckBooks",
	},
	{
		name: "books: outcomes are not counted", file: "internal/data/ledger/books.go",
		old: `case e.OK+e.Failed+e.Discarded != e.Count:`, new: `case e.Count < 0:`,
		pkg: "./internal/data/ledger", tests: "TestCheckBooks",
	},
	{
		name: "books: a commit of a feed may have an item twice", file: "internal/data/feeds/commit.go",
		old: `if i > 0 && s.first < spans[i-1].end {`, new: `if i > 0 && s.first < 0 {`,
		pkg: "./internal/data/feeds", tests: "TestCheckRanges_OverlapsAreRefused",
	},
	{
		name: "books: a resumed feed may have an item twice", file: "internal/data/feeds/plan.go",
		old: `if e.First < at {`, new: `if e.First < 0 {`,
		pkg: "./internal/data/feeds", tests: "TestFindGaps_ItemsInTwoParts",
	},
	{
		name: "books: a manifest that nobody knew of counts beside what is known", file: "internal/data/feeds/lost.go",
		old: `return some && all, err`, new: `return some, err`,
		pkg: "./internal/data/feeds", tests: "TestFillsGaps_WithNothingElse",
	},
	{
		name: "books: an index leaves out what comes before it", file: "internal/data/ledger/index.go",
		old: `		previous = before
`, new: `		previous = before[:0]
`,
		pkg: "./internal/data/ledger", tests: "TestD19_ALongChainIsReadByItsIndex",
	},

	// hand-over of a leg
	{
		name: "hand-over: a leg forgets what it has committed", file: "workflows/internal/pages/leg.go",
		old: `again.Page, again.LegState, again.Sofar, again.Previous = nil, l.Handover(), result, result.Manifests`,
		new: `again.Page, again.LegState, again.Sofar = nil, l.Handover(), result`,
		pkg: "./workflows", tests: "TestLeg_ContinuesAsNew",
	},
	{
		name: "hand-over: a leg forgets batches that wait to be tried again", file: "workflows/internal/dispatch/dispatcher.go",
		old: `Tasks: append(end(d.returned), drain(d.Supply)...)`, new: `Tasks: drain(d.Supply)`,
		pkg: "./workflows", tests: "TestLeg_ContinuesAsNew|TestLeg_ContinuesAsNewWithAttempts",
	},
	{
		name: "hand-over: in JSON a field of a task has the name of its batch's offset", file: "internal/wire/dispatch.go",
		old: "Orphaned  int    `json:\"d,omitempty\"`", new: "Orphaned  int    `json:\"o,omitempty\"`",
		pkg: "./workflows", tests: "TestD1_NoFieldHidesAnother|TestD1_FilledValuesComeBackEqual",
	},
	{
		name: "hand-over: a batch that was changed on the way counts as whole", file: "internal/wire/batch.go",
		old: `	if b.Check != b.sum() {
		return fmt.Errorf`, new: `	if b.Check == 0 {
		return fmt.Errorf`,
		pkg: "./internal/wire", tests: "TestD1_BatchCheck",
	},
	{
		name: "hand-over: the digest of a batch is not compared", file: "internal/data/inputs/identity.go",
		old: `if max(1, digest) == r.batch.Digest {`, new: `if max(1, digest) != 0 {`,
		pkg: "./internal/data/inputs", tests: "TestD49_OtherBytesInTheMiddle",
	},
	{
		name: "hand-over: what items have behind them does not go on with the rest", file: "workflows/internal/dispatch/outcome.go",
		old: `		t.Batch, t.Trials = *r.Rest, r.Trials
		if t.suspicion().Suspected() {`, new: `		t.Batch, t.Trials = *r.Rest, nil
		if t.suspicion().Suspected() {`,
		pkg: "./workflows", tests: "TestD5_TriesGoOnWithTheRest",
	},
	{
		name: "hand-over: the next leg of a feed does not know what the one before holds", file: "workflows/internal/intake/intake.go",
		old: `Unfinished: in.elsewhere + len(in.items), Bytes`, new: `Unfinished: in.elsewhere, Bytes`,
		pkg: "./workflows/internal/intake", tests: "TestIntake_Seal",
	},

	// acknowledgements of feeds, Freed, discards
	{
		name: "acknowledgement: results are kept although they were taken", file: "workflows/internal/intake/results.go",
		old: `	out.taken(c, n)
	return results, parts, len(c.results) > 0`,
		new: `	return results, parts, len(c.results) > n`,
		pkg: "./workflows/internal/intake", tests: "TestIntake_F2_IdleAndUnclaimed|TestIntake_Keep",
	},
	{
		name: "acknowledgement: more results are forgotten than fit into an answer", file: "workflows/internal/intake/results.go",
		old: `	out.taken(c, n)
	return results, parts, len(c.results) > 0`,
		new: `	out.taken(c, len(c.results))
	return results, parts, len(c.results) > 0`,
		pkg: "./workflows/internal/intake", tests: "TestIntake_KeepsWhatFitsTheCapacity|TestIntake_Property",
	},
	{
		name: "freed: a sealed leg does not say what it has freed", file: "workflows/internal/intake/intake.go",
		old: `if in.state == sealed { //`, new: `if in.state == early { //`,
		pkg: "./workflows/internal/intake", tests: "TestIntake_Seal",
	},
	{
		name: "freed: an older total takes back a later one", file: "internal/wire/feedstore.go",
		old: `max(0, total.Items-f.Items)`, new: `total.Items-f.Items`,
		pkg: "./workflows/internal/intake", tests: "TestIntake_FreedInAnyOrder|TestIntake_FreedBeforeItIsOpen",
	},
	{
		name: "discards: a reset forgets what it has removed", file: "workflows/internal/intake/capacity.go",
		old: `	if n > 0 {
		in.discarded`,
		new: `	if n < 0 {
		in.discarded`,
		pkg: "./workflows/internal/intake", tests: "TestIntake_F4_Reset",
	},

	// pending, last spill
	{
		name: "pending: without discarded ranges", file: "workflows/internal/feed/commit.go",
		old: `all[0].Discarded = append(slices.Clone(c.discards), c.leg.intake.Discarded()...)`,
		new: `all[0].Discarded = slices.Clone(all[0].Discarded)`,
		pkg: "./workflows", tests: "TestFeedLeg_PendingHasWhatWasDiscarded",
	},
	{
		name: "pending: without what a commit that has failed had discarded", file: "workflows/internal/feed/commit.go",
		old: `append(slices.Clone(c.discards), c.leg.intake.Discarded()...)`,
		new: `slices.Clone(c.leg.intake.Discarded())`,
		pkg: "./workflows", tests: "TestFeedLeg_PendingHasWhatWasDiscarded",
	},
	{
		name: "pending: without the items that have no outcome", file: "workflows/internal/feed/commit.go",
		old: `	if !c.done {
		for`,
		new: `	if c.done {
		for`,
		pkg: "./workflows", tests: "TestFeedLeg_G1_CommitFails",
	},
	{
		name: "last spill: a leg that stops drops what it has not run", file: "workflows/internal/feed/commit.go",
		old: `	for _, some := range c.unfinished() {
		if err`,
		new: `	for _, some := range c.unfinished()[:0] {
		if err`,
		pkg: "./workflows", tests: "TestFeedLeg_G1_CommitFails",
	},

	// stops of feeds
	{
		name: "stop: a leg that is barred takes items", file: "workflows/internal/intake/intake.go",
		old: `func (in *Intake) Bar() { in.barred = true }`, new: `func (in *Intake) Bar() { in.barred = false }`,
		pkg: "./workflows", tests: "TestD7_NothingIsAcceptedAfterAStop",
	},

	// carried failures of pipelines
	{
		name: "carried: a failure of an earlier stage is no outcome of the last one", file: "activities/stage.go",
		old: `	e.entry.Failed++
	if !o.Line.IsRecord()`,
		new: `	if !o.Line.IsRecord()`,
		pkg: "./activities", tests: "TestPipeline_P1_AnyOrder",
	},

	// places of the window
	{
		name: "places: a leg that has ended keeps what it was granted after its report", file: "workflows/internal/coordinate/window.go",
		old: `	c.Places += l.Places
	l.Places, l.gone = 0, true
`, new: "\tl.gone = true\n",
		pkg: "./workflows/internal/coordinate", tests: "TestShare_LosesNoPlace",
	},
	{
		name: "places: what goes on with the rest of a leg comes after those that take new items", file: "workflows/internal/coordinate/openlegs.go",
		old: `	c.Legs = slices.Insert(c.Legs[:last], slices.Index(c.Legs, ends), c.Legs[last])
`, new: "\t_ = last\n",
		pkg: "./workflows/internal/coordinate", tests: "TestShare_LosesNoPlace",
	},
	{
		name: "places: what goes on with the rest of a leg has none", file: "workflows/internal/coordinate/openlegs.go",
		old: `	c.regain(ends)
	start()`, new: `	start()`,
		pkg: "./workflows", tests: "TestFeed_S12_EarlierItemsComeFirst",
	},
	{
		name: "places: each leg of a feed has the whole window of a stage", file: "workflows/internal/coordinate/openlegs.go",
		old: `	s.Limits.Legs, s.Limits.Stages = len(c.Legs)+1, c.nextBounds(c.Legs)
`, new: "\ts.Limits.Legs = len(c.Legs) + 1\n",
		pkg: "./workflows", tests: "TestFeed_P3_SharesOfTheWindowOfAStage",
	},
	{
		name: "places: legs that outlive a run of the job leave the next one the whole window of a stage", file: "workflows/internal/coordinate/coordinator.go",
		old: "\tc.rebound() // legs that an earlier run of the workflow has opened\n", new: "",
		pkg: "./workflows", tests: "TestFeed_P3_SharesOfTheWindowOfAStage",
	},

	// signals on their way
	{
		name: "signals: a leg of a feed ends before its successor has been told to take items", file: "workflows/internal/feed/leg.go",
		old: `workflow.AllHandlersFinished(ctx) && l.link.Empty()`, new: `workflow.AllHandlersFinished(ctx)`,
		pkg: "./workflows", tests: "TestFeedLeg_F11_IdleLegIsSealed",
	},

	// legs of another run
	{
		name: "disowned: a leg whose workflow ID one of an earlier run still has fails its job", file: "workflows/internal/coordinate/openlegs.go",
		old: `try == startTries`, new: `try > 0`,
		pkg: "./workflows", tests: "TestJob_LegWaitsForOneOfAnEarlierRun",
	},
	{
		name: "disowned: a leg of a feed ends when its own run's word to one that had its workflow ID before comes late", file: "workflows/internal/feed/leg.go",
		old: `if by == l.in.Ref.Run {`, new: `if by == "" {`,
		pkg: "./workflows", tests: "TestFeedLeg_F11_Disowned",
	},
	{
		name: "disowned: a leg of a feed that only keeps results keeps its workflow ID, too", file: "workflows/internal/feed/leg.go",
		old: "\tl.disowned = true\n", new: "",
		pkg: "./workflows", tests: "TestFeedLeg_F11_Disowned",
	},

	// outcomes before a call
	{
		name: "outcomes: those behind an item without one are recorded", file: "internal/run/calls/answer.go",
		old: `	known(nil)
`,
		new: `	for ; next < len(items); next++ {
		known(nil)
	}
`,
		pkg: "./internal/run/calls", tests: "TestAnswer_Fill",
	},

	// awaitStops
	{
		name: "awaitStops: a worker serves before its jobs have taken in their stops", file: "worker/stopping.go",
		old: `			w.awaitStopOf(ctx, w.stoppingLegs(asking, j.Name))
`,
		new: "\t\t\t_ = j\n",
		pkg: "./worker", tests: "TestWorker_AwaitStopsAsksAllRunning",
	},

	// items that are tried alone
	{
		name: "alone: an item is tried alone beside another job's batch", file: "worker/slots.go",
		old: `if best == nil || o.Alone && used && !beside {`, new: `if best == nil {`,
		pkg: "./worker", tests: "TestPlaces_Alone",
	},

	// losses while a batch waits for a place
	{
		name: "waiting: a worker that is lost while a batch waits in it counts against the batch's items", file: "workflows/internal/dispatch/outcome.go",
		old: `hint.Waiting && t.Returns < maxReturns`, new: `hint.Waiting && t.Returns < 0`,
		pkg: "./workflows", tests: "TestSuspects_Waiting",
	},
	{
		name: "waiting: the server does not hear of the end of the wait", file: "activities/process.go",
		old: "!beaten ||", new: "beaten ||",
		pkg: "./activities", tests: "TestProcess_BeatsWhileItWaitsForAPlace",
	},

	// batches that end while the server is away
	{
		name: "away: the result of a batch is reported once", file: "activities/cameback.go",
		old: "!lookup.Away(err) ||", new: "lookup.Away(err) ||",
		pkg: "./activities", tests: "TestProcess_AnswersAServerThatWasAway",
	},
	{
		name: "away: nobody hears of a batch that has ended and that the server has given up", file: "activities/cameback.go",
		old: `gone {
		e.cameBack()
`, new: "gone {\n",
		pkg: "./activities", tests: "TestProcess_AnswersAServerThatWasAway",
	},

	// budgets
	{
		name: "budget: what batches in flight have is shared out again", file: "workflows/internal/dispatch/share.go",
		old: "b.Cost, b.Tokens = b.Cost-t.share.Cost, b.Tokens-t.share.Tokens", new: "_ = t",
		pkg: "./workflows", tests: "TestBudget_IsShared",
	},
	{
		name: "budget: what a lost execution has used is forgotten", file: "workflows/internal/dispatch/outcome.go",
		old: "	d.lost(err)\n", new: "",
		pkg: "./workflows", tests: "TestBudget_IsShared",
	},
	{
		name: "budget: a share is no limit of requests under way", file: "internal/run/calls/allowance.go",
		old: "case used+reserved+more > most && result > 0:", new: "case used+more > most && result > 0:",
		pkg: "./internal/run/calls", tests: "TestAllowance_CountsRequestsUnderWay",
	},
	{
		name: "budget: requests of earlier items are not made any more", file: "internal/run/calls/allowance.go",
		old: "	if item < a.furthest {\n		return false\n	}\n	a.givenUp", new: "	a.givenUp",
		pkg: "./internal/run/calls", tests: "TestAllowance_Budget",
	},
	{
		name: "limits: turns of values that no batch takes are left to later ones", file: "workflows/internal/dispatch/share.go",
		old: "	d.mergeTurns(batches - held)\n", new: "",
		pkg: "./workflows", tests: "TestLimits_OfValues",
	},
	{
		name: "limits: a stage that makes no requests takes a turn", file: "workflows/internal/dispatch/share.go",
		old: "case d.rate.turnless[stage]:", new: "case false:",
		pkg: "./workflows", tests: "TestLimits_OfOtherStages",
	},
	{
		name: "calls: one that fails for good is made again", file: "internal/run/calls/caller.go",
		old: "rule != nil || fault.Final || try ==", new: "rule != nil || try ==",
		pkg: "./internal/run/calls", tests: "TestCaller_FinalFault",
	},

	// results of an earlier run
	{
		name: "reuse: what is in an item does not count", file: "internal/data/reuse/cursor.go",
		old: "	case got.Content != d.Content:\n		return Changed, nil, nil\n", new: "",
		pkg: "./activities", tests: "TestReuse_RandomRuns",
	},
	{
		name: "reuse: items that had failed are done", file: "internal/data/reuse/cursor.go",
		old: "	case h.block.none[i]:\n		return Again, nil, nil\n", new: "",
		pkg: "./activities", tests: "TestReuse_RandomRuns",
	},
	{
		name: "reuse: a result is not compared with its checksum", file: "internal/data/reuse/cursor.go",
		old: "if h.bad = crc32.Checksum(results, wire.CRC32C) != h.block.sum; !h.bad {", new: "if _ = crc32.Checksum(results, wire.CRC32C); !h.bad {",
		pkg: "./activities", tests: "TestReuse_DamagedIndex",
	},
	{
		name: "unique: a failure is that of the item that was called", file: "internal/data/unique/fill.go",
		old: "own.Failure.Item, own.Failure.Source, own.Failure.Offset = line.Failure.Item, line.Failure.Source, line.Failure.Offset", new: "",
		pkg: "./activities", tests: "TestReuse_RandomRuns",
	},
	{
		name: "unique: items without a result are not noted", file: "activities/outcomes.go",
		old: "return e.in.PassesOn() || e.awaited ||", new: "return e.in.PassesOn() ||",
		pkg: "./activities", tests: "TestReuse_RandomRuns",
	},
	{
		name: "unique: a damaged list counts", file: "internal/data/unique/list.go",
		old: "if err != nil || body < 0 || crc32", new: "if err != nil || body < 0 || false && crc32",
		pkg: "./internal/data/unique", tests: "TestList_Random",
	},
	{
		name: "reuse: another version takes results", file: "internal/data/reuse/current.go",
		old: "case r.Version != of.Version:", new: "case false:",
		pkg: "./internal/data/reuse", tests: "TestOffer_Begin",
	},
	{
		name: "reuse: another job takes results", file: "internal/data/reuse/current.go",
		old: "case jobOf(of) != name:", new: "case false:",
		pkg: "./internal/data/reuse", tests: "TestOffer_Begin",
	},
}
