package workflows

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/samples"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/data/failures"
	stored "github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/pipeline"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/coordinate"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stint-run/stint/workflows/internal/execute"
	"github.com/stint-run/stint/workflows/internal/pages"
	"github.com/stint-run/stint/workflows/internal/pool"
	"github.com/stretchr/testify/require"
)

const (
	// mostSent is the most bytes of a payload: a codec of the client's may add some to it.
	mostSent = wire.MaxPayload - 32<<10
	// mostMessage is the most bytes of what one workflow task sends: gRPC takes 4 MB.
	mostMessage = 4<<20 - 256<<10
)

// The kinds of bounded fields.
const (
	foreign = iota // a text with anything in it: bytes as JSON
	plain          // a text of letters and digits: bytes
	list           // elements
)

// bounds are those of the texts and lists that travel, by type and field. The code that fills a field keeps to its
// bound. A field that is not here fails the test.
var bounds = []struct {
	kind, most int
	fields     string
}{
	{foreign, execute.MaxErrorText, `
		job.Error.Message job.Error.Stack job.Report.Reason wire.HookInput.Reason
		wire.StopNotice.Reason`},
	{foreign, execute.MaxErrorType, "job.Error.Type"},
	{foreign, execute.MaxErrorText + 500, `
		job.Report.LastFailure job.Report.Oldest job.Progress.LastFailure job.Progress.Oldest`},
	{foreign, 500, "job.Outage.Message"},
	{foreign, 200, "wire.Share.By"},
	{foreign, 300, "wire.ProcessResult.Unbegun"},
	{foreign, dispatch.MaxCause, "wire.Suspicion.Cause"},
	{foreign, dispatch.MaxStraggler, "job.Straggler.Batch job.Straggler.Worker job.Straggler.Why"},
	{foreign, 1000, "job.Noticed.Notes"},
	{foreign, 6 * 200, "wire.HeldTimer.Scope"},
	{foreign, failures.MaxText, `
		job.FailureGroup.Stage job.FailureGroup.Type job.FailureGroup.Pattern job.FailureGroup.Message`},
	// Of job.Spec.
	{foreign, 2 << 10, `
		wire.Ref.Store job.Report.Store job.Output.Location job.Output.Errors job.Output.Dropped
		job.Output.Split wire.ReportInput.Location wire.FailuresResult.Location`},
	// A host, a process and a pool: see worker.New.
	{foreign, 6*64 + 20 + limits.MaxName, `
		wire.SlotRef.Worker wire.PoolWorker.Name job.WorkerShare.Worker job.SlowBatch.Worker job.ForcedEnd.Worker
		wire.ProcessResult.Worker wire.PlanResult.Worker wire.PlanLoopResult.Worker`},

	{plain, limits.MaxName, `
		wire.Ref.Job job.Report.Job job.Report.Pool job.Report.UnservedPools job.StageReport.Stage
		job.StageReport.Pool job.SlowBatch.Stage wire.Task.Stage wire.StageBound.Stage wire.HookInput.Pool
		wire.HookInput.Name wire.ServedInput.Pools wire.ServedInput.Known
		wire.ServedResult.Unserved job.Settings.Windows`},
	{plain, 2*limits.MaxName + 200, "job.HookRun.Hook job.ForcedEnd.Batch"},
	{plain, limits.MaxName + 30, `
		job.Report.OpenLegs job.Report.Silent job.Report.Unsaved wire.Heard.Leg wire.Execution.ID
		wire.LocateInput.Workflow`},
	{plain, 40, "job.Settings.Deadline"},
	{plain, limits.MaxVersion, `
		job.Report.Pinned wire.Entry.Version job.WorkerShare.Version wire.PlanLoopResult.Version
		wire.PlanResult.Version`},
	{plain, limits.MaxName, "job.WorkerShare.Stage"},
	{foreign, 1000, "job.Redrive.Where"},
	{foreign, 70, "wire.CallLimits.Final wire.CallLimits.Retry"}, // beside the longest store: see job.Spec.checkRetry
	{plain, 20, `
		job.Report.State wire.HookInput.State wire.HookInput.Stage job.HookRun.Stage
		job.ForcedEnd.Signal job.FirstError.Kind job.FailureGroup.Kind wire.Suspicion.Kind wire.Verdict.Kind
		wire.Entry.Part wire.Part.Token wire.Part.Format wire.ProcessInput.OnError
		wire.ProcessInput.Format job.Output.Checksum job.LoopReport.CatchUp job.Settings.MaxFailed`},
	{plain, 40, `
		wire.Ref.Run wire.Ref.Root wire.StartInput.Root job.Report.Run wire.Entry.Run wire.Parcel.Run wire.Part.Run
		wire.LocateInput.Run wire.FromLeg.Run wire.Execution.RunID wire.FinishInput.Earlier
		job.Redrive.Runs wire.StartInput.Earlier`},
	{plain, 100, `
		wire.Ref.Sources wire.PlanResult.Sources job.LoopSlot.Head
		wire.CommitResult.Manifest wire.Hint.Batch wire.Answered.Activity
		wire.ActivitySlot.Activity wire.CameBack.Activity wire.Begun.Activity job.HookRun.Skipped
		wire.SlotRef.Process wire.HookInput.Key wire.Answer.Flying job.Progress.Flying
		wire.LocateInput.Processes wire.LocateInput.Silent wire.LocateResult.Ended
		wire.LegResult.Manifests wire.CommitInput.Previous wire.LegInput.Previous
		wire.PlanInput.Resume wire.FinishInput.Manifests wire.FinishResult.Manifests
		wire.FailuresInput.Manifests wire.StartInput.Resume job.Report.LegManifests job.Report.Manifests
		job.Redrive.Manifests job.Redrive.Done wire.JobState.Heads`},
	{plain, 900, "job.Totals.CallTimes"},                       // 41 classes of 20 digits
	{plain, 250, "job.Report.ReusedFrom wire.ReuseOffer.From"}, // the ID of a run and the name of a job
	{plain, 500, "wire.ReuseOffer.Why"},

	{list, 1, `
		wire.LegResult.Loop job.Progress.Loop wire.LegResult.Manifests
		wire.CommitInput.Previous`},
	{list, coordinate.OpenLegs + 1, `
		wire.LegInput.Previous wire.PlanInput.Resume wire.FinishInput.Manifests
		wire.FinishResult.Manifests wire.FailuresInput.Manifests wire.StartInput.Resume
		job.Report.LegManifests job.Redrive.Manifests job.Redrive.Done wire.JobState.Heads`},
	{list, coordinate.FeedLegs + 1, `
		job.Report.Manifests job.Report.OpenLegs job.Report.Silent job.Report.Unsaved wire.Answer.Heard`},
	{list, wire.MaxKeyBytes, "wire.NextTurn.Keys"},
	{list, limits.MaxSlots, "wire.StartInput.Loop wire.LoopWorkState.Slots job.LoopReport.At"},
	{list, limits.MaxStages, `
		job.Outcomes.Stages job.Report.UnservedPools
		wire.LegLimits.Stages job.Settings.Windows wire.ServedInput.Pools
		wire.ServedInput.Known wire.ServedResult.Unserved`},
	{list, limits.MaxNotes, "job.Noticed.Notes"},
	{list, failures.MaxReported + 1, "job.Report.Failures wire.FinishResult.Failures wire.FailuresResult.Failures"},
	{list, limits.MaxLaterErrors, "job.Report.LaterErrors"},
	{list, limits.MaxForced, `
		job.Outcomes.Forced wire.ProcessResult.Forced
		wire.ProcessResult.Left`},
	{list, limits.MaxStragglers, "job.Outcomes.Stragglers"},
	{list, limits.MaxWorkers, "job.Outcomes.Workers"},
	{list, limits.MaxVersions, "job.Outcomes.Versions wire.StartInput.Versions"},
	{list, limits.MaxSlowest, "job.Outcomes.Slowest"},
	{list, samples.MaxBytes, "job.Outcomes.Life wire.StartInput.Life"},
	{list, pool.MaxWorkers, "wire.LegOutcomes.Pool wire.PoolReport.Workers wire.PoolView.Workers"},
	{list, 60, "job.Report.Hooks"},                                                    // 20 of each stage
	{list, 1000, "wire.FinishInput.Earlier job.Redrive.Runs wire.StartInput.Earlier"}, // runs of one job
	{list, wire.PageBatches, `
		wire.Answer.Flying job.Progress.Flying wire.LocateInput.Processes wire.LocateInput.Silent
		wire.LocateResult.Ended`},
	{list, 2 * wire.PageBatches, "wire.LocateResult.Places"}, // of those that run, and of those that have expired
	{list, wire.MaxProgress, "wire.Hint.Progress"},
	{list, wire.MaxHinted, "wire.Hint.Timers"},
	{list, wire.MaxCuts, "wire.Parcel.Cuts wire.ProcessResult.Cuts"},
	{list, calls.MaxTrials, `
		wire.Task.Trials wire.ProcessInput.Trials wire.ProcessResult.Trials`},
	{list, 18, "job.LoopStats.Lateness"},
	{list, 1, "wire.CallLimits.Retry"}, // together as long as one may be
}

// row is a message and its limit.
type row struct {
	what  string
	value any
	most  int
}

// jobRows are the largest messages of jobs of files, redrives, loops and schedules.
func jobRows(l *fullest) []row {
	spec := l.Spec()
	salvage := make([]json.RawMessage, 4) // see jobs.Client.Resume
	for i := range salvage {
		salvage[i] = json.RawMessage(`"` + strings.Repeat("a", 256<<10) + `"`)
	}
	full := func(v any, without string) any { return l.fill(v, without) }
	const (
		kinds = "job.Report.Feed job.Report.Loop " // of other jobs than those of files
		// What only jobs and legs have that end.
		jobEnds = kinds + "job.Outcomes.Stragglers job.Outcomes.Forced job.Report.Hooks job.Report.Redrive job.Report.Ended job.Report.Failures "
		legEnds = "job.Outcomes.Stragglers job.Outcomes.Forced wire.LegOutcomes.Error wire.LegResult.Loop "
		noLoop  = "wire.StartInput.Salvage wire.StartInput.Loop "
	)

	page := wire.EncodePage(l.page(wire.PageBatches))
	leg := full(wire.LegInput{}, legEnds+"wire.LegState.Tasks wire.LegInput.Page").(wire.LegInput)
	planned := full(wire.PlanResult{}, "wire.PlanResult.Page").(wire.PlanResult)
	planned.Page = page
	start := full(wire.StartInput{}, noLoop).(wire.StartInput)
	resumed := start
	resumed.Salvage = salvage
	const otherWork = "wire.JobState.Carried wire.WorkState.Feed wire.WorkState.Loop"
	again := full(wire.JobInput{}, jobEnds+noLoop+otherWork).(wire.JobInput)
	feedJob := again
	for range coordinate.FeedLegs {
		carried := full(wire.CarriedLeg{}, "wire.CarriedLeg.Sofar").(wire.CarriedLeg)
		carried.Sofar.Manifests = []string{strings.Repeat("m", 100)}
		state := *feedJob.State
		state.Carried = append(state.Carried, carried)
		feedJob.State = &state
	}
	loop := full(wire.JobInput{}, jobEnds+"wire.StartInput.Salvage wire.JobState.Carried wire.WorkState.Feed").(wire.JobInput)
	loop.Spec = l.loopSpec(1)
	const lists = "wire.CommitInput.Entries wire.CommitInput.Between"
	commit := full(wire.CommitInput{}, lists).(wire.CommitInput)
	for range (dispatch.MaxEvents+6*wire.PageBatches)/3 + 1 { // an execution has three events
		commit.Entries = append(commit.Entries, full(wire.Entry{}, "wire.Batch.From").(wire.Entry))
	}
	const inputsOfOthers = "wire.Batch.From wire.ProcessInput.Items wire.ProcessInput.Stage " +
		"wire.ProcessInput.Clock"
	process := full(wire.ProcessInput{}, inputsOfOthers).(wire.ProcessInput)
	usual := process
	usual.Verdict = nil // one suspected batch runs at a time
	usual.Share = new(*process.Share)
	usual.Share.First.Keys = usual.Share.First.Keys[:wire.LeastKeyBytes] // all at once have MaxKeyBytes more at most
	report := full(job.Report{}, kinds)
	legResult := full(wire.LegResult{}, "wire.LegResult.Loop")

	kept := wire.KeptResult{Result: full(wire.LegResult{}, legEnds).(wire.LegResult)}
	const resultsOfOthers = "wire.ProcessResult.Inline wire.Batch.From wire.ProcessResult.Written"

	rows := []row{
		{"start of a job", start, mostSent},
		{"start of a resumed job", resumed, mostSent},
		{"start of a redrive of a job", full(wire.StartInput{}, noLoop), mostSent},
		{"continuation of a job", again, mostSent},
		{"continuation of a feed", feedJob, mostSent},
		{"continuation of a loop", loop, mostSent},
		{"result of a job", report, mostSent},
		{"result of a loop", full(job.Report{}, "job.Report.Feed job.Outcomes.Stages"), mostSent},
		{"answer to the query of a job", full(wire.Answer{}, kinds+"job.Report.Failures"), mostSent},
		{"executions that a query names", full(job.Progress{}, "job.Progress.Feed").(job.Progress).Flying, mostSent},
		{"answer to the query of a leg", full(job.Progress{}, "job.Progress.Feed"), mostSent},
		{"what a leg has not committed", []wire.CommitInput{commit}, mostSent},

		{"Plan", full(wire.PlanInput{}, ""), mostSent},
		{"page", planned, mostSent},
		{"PlanRedrive", full(wire.PlanRedriveInput{}, ""), mostSent},
		{"PlanLoop", full(wire.PlanLoopInput{}, ""), mostSent},
		{"begun loop", full(wire.PlanLoopResult{}, ""), mostSent},
		{"leg of a page", with(leg, func(in *wire.LegInput) { in.Page = page }), mostSent},
		{"leg that continues as new", with(leg, func(in *wire.LegInput) { in.Tasks = l.tasks(wire.PageBatches) }), mostSent},
		{"legs of all slots of a loop", l.loopLegs(), mostMessage},
		{"result of a leg", legResult, mostSent},
		{"what a leg has kept", wire.FromLeg[any]{Value: kept}, mostSent},
		{"an execution", process, mostSent},
		{"all executions of a page at once", repeated(usual, wire.PageBatches), mostMessage - text.Base64Size(wire.MaxKeyBytes)},
		{"result of an execution", full(wire.ProcessResult{}, resultsOfOthers), mostSent},
		{"heartbeat", full(wire.Hint{}, ""), mostSent},
		{"Commit", commit, mostSent},
		{"Finish", full(wire.FinishInput{}, ""), mostSent},
		{"FinishRedrive", full(wire.FinishRedriveInput{}, ""), mostSent},
		{"what is finished", full(wire.FinishResult{}, ""), mostSent},
		{"WriteReport", full(wire.ReportInput{}, kinds), mostSent},
		{"WriteFailures", full(wire.FailuresInput{}, ""), mostSent},
		{"written failures", full(wire.FailuresResult{}, ""), mostSent},
		{"hook", full(wire.HookInput{}, ""), mostSent},
		{"Locate", full(wire.LocateInput{}, ""), mostSent},
		{"places", full(wire.LocateResult{}, "wire.ActivitySlot.Clock"), mostSent},
		{"Served", full(wire.ServedInput{}, ""), mostSent},
		{"unserved pools", full(wire.ServedResult{}, ""), mostSent},

		{"stop of a leg", full(wire.StopNotice{}, ""), mostSent}, // also its memo
		{"failure of a leg", wire.FromLeg[any]{Value: full(job.Error{}, "")}, mostSent},
		{"counts of a leg", full(wire.FromLeg[wire.Counts]{}, ""), mostSent},
		{"news of the pool", full(wire.FromLeg[wire.PoolReport]{}, ""), mostSent},
		{"slow-down", full(wire.FromLeg[wire.SlowDownRequest]{}, ""), mostSent},
		{"places of a leg", full(wire.FromLeg[wire.PlacesBack]{}, ""), mostSent},
		{"limits of a leg", full(wire.LegLimits{}, ""), mostSent},
		{"worker that came back", full(wire.CameBack{}, ""), mostSent},
		{"settings", full(job.Settings{}, ""), mostSent},
		{"progress in a memo", full(job.Counted{}, ""), mostSent},
		{"output in a memo", spec.Output, 3 << 10},
		{"spec", spec, 512 << 10},
	}
	for shape := range l.pipelines() {
		rows = append(rows, l.pipelineRows(shape, leg, usual, commit)...)
	}
	return rows
}

// The largest value of each message of a job of files, a redrive, a loop or a schedule fits, with the texts that take
// the most bytes as JSON.
func TestLargest_OfJobs(t *testing.T) {
	t.Parallel()
	for name, worst := range worstTexts(8 << 10) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newFullest(t, worst)
			for _, r := range jobRows(l) {
				require.LessOrEqual(t, encoded(t, r.value), r.most, r.what)
			}
			require.Empty(t, l.unbounded(), "texts and lists without a bound: add them to bounds, and have the code keep to it")
		})
	}
}

func with[T any](v T, change func(*T)) T {
	change(&v)
	return v
}

func repeated[T any](v T, n int) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = v
	}
	return all
}

// fullest makes values that are as large as they get, with one text in all places that take any.
type fullest struct {
	t       *testing.T
	text    string
	most    map[string][3]int // by field and kind; 0: it has no such bound
	missing map[string]bool
	without map[string]bool // fields that are left out
	specs   *job.Spec
}

func newFullest(t *testing.T, worst string) *fullest {
	l := &fullest{t: t, most: map[string][3]int{}, missing: map[string]bool{}}
	l.text = strings.ReplaceAll(worst, "\xff", "\uFFFD")
	for _, b := range bounds {
		for field := range strings.FieldsSeq(b.fields) {
			of := l.most[field]
			require.Zero(t, of[b.kind], "two bounds of %s", field)
			of[b.kind] = b.most
			l.most[field] = of
		}
	}
	return l
}

func (l *fullest) unbounded() []string {
	var all []string
	for field := range l.missing {
		all = append(all, field)
	}
	sort.Strings(all)
	return all
}

// fill returns a value of the type of v that is as large as it gets, but for the fields that are named.
func (l *fullest) fill(v any, without string) any {
	l.without = map[string]bool{}
	for field := range strings.FieldsSeq(without) {
		l.without[field] = true
	}
	value := reflect.New(reflect.TypeOf(v)).Elem()
	l.set(value, "")
	return value.Interface()
}

// bound is one of the bounds of a field.
func (l *fullest) bound(field string, kind int) int {
	most := l.most[field][kind]
	if most == 0 {
		l.missing[field] = true
	}
	return most
}

// set fills a value that is the field of a struct.
func (l *fullest) set(v reflect.Value, field string) {
	if l.without[field] || l.special(v) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		l.set(v.Elem(), field)
	case reflect.Slice:
		n := l.bound(field, list)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			if i > 0 {
				v.Index(i).Set(v.Index(0))
				continue
			}
			l.set(v.Index(i), field)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for i := range l.bound(field, list) {
			key := reflect.ValueOf(fmt.Sprintf("%0*d", l.bound(field, plain), i))
			element := reflect.New(v.Type().Elem()).Elem()
			l.set(element, field)
			v.SetMapIndex(key, element)
		}
	case reflect.Struct:
		name, _, _ := strings.Cut(v.Type().String(), "[") // of a generic type
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
				l.set(v.Field(i), name+"."+f.Name)
			}
		}
	case reflect.String:
		if n := l.most[field][foreign]; n > 0 {
			v.SetString(text.Fit(l.text, n))
			return
		}
		v.SetString(strings.Repeat("x", l.bound(field, plain)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1<<min(60, 8*v.Type().Size()-2) + 1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1<<(8*v.Type().Size()) - 1)
	}
}

// special fills values of types that have their own bounds.
func (l *fullest) special(v reflect.Value) bool {
	switch v.Interface().(type) {
	case []job.Sample: // they are made where a report arrives
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(1<<33, 123456789).UTC()))
	case job.Spec:
		v.Set(reflect.ValueOf(l.Spec()))
	case job.FirstError:
		long := job.Error{Type: l.text, Message: l.text, Stack: l.text}
		v.Set(reflect.ValueOf(*stored.FirstError(job.Failure{Item: 1 << 60, Kind: job.KindExpired, Error: long})))
	default:
		return false
	}
	return true
}

// Spec is as large as one may be: it has so many names that no other one is allowed.
func (l *fullest) Spec() job.Spec {
	if l.specs != nil {
		return *l.specs
	}
	name := text.Fit(l.text, 1000)
	location := func(what string) string { return what + strings.ReplaceAll(text.Fit(l.text, 2000), "/", "") }
	named := func(inputs, columns int) job.Spec {
		s := job.Spec{
			Name: strings.Repeat("j", limits.MaxName), Pool: strings.Repeat("p", limits.MaxName),
			Output: location("o") + ".csv", Errors: location("e"), Dropped: location("d"), Report: location("r"),
			Store: location("s"), Files: &job.Files{},
		}
		for range inputs {
			s.Files.Input = append(s.Files.Input, name)
		}
		for i := range columns {
			s.Columns = append(s.Columns, fmt.Sprint(i, name))
		}
		return s.WithDefaults()
	}
	most := func(spec func(n int) job.Spec) int {
		return sort.Search(600, func(n int) bool { return spec(n+1).Validate() != nil })
	}
	inputs := most(func(n int) job.Spec { return named(max(1, n), 0) })
	columns := most(func(n int) job.Spec { return named(inputs, n) })
	s := named(inputs, columns)
	require.NoError(l.t, s.Validate())
	require.Greater(l.t, encoded(l.t, s), 500<<10)
	l.specs = &s
	return s
}

// loopSpec is the largest of a loop with so many slots.
func (l *fullest) loopSpec(slots int) job.Spec {
	named := func(n int) job.Spec {
		s := job.Spec{Name: "loop", Pool: "p", Loop: &job.Loop{Slots: slots}, Output: "out/"}
		for range n {
			s.CleanStop = append(s.CleanStop, text.Fit(l.text, 500))
		}
		return s.WithDefaults()
	}
	return named(sort.Search(2000, func(n int) bool { return named(n+1).Validate() != nil }))
}

// loopLegs are those of all slots of a loop, which are started at once.
func (l *fullest) loopLegs() []wire.LoopLegInput {
	in := l.fill(wire.LoopLegInput{}, "wire.LegState.Tasks wire.LoopLegInput.Sofar").(wire.LoopLegInput)
	in.Spec = l.loopSpec(limits.MaxSlots)
	return repeated(in, limits.MaxSlots)
}

// page is one of so many batches that do not follow from each other.
func (l *fullest) page(n int) []wire.Batch {
	var all []wire.Batch
	for i := range int64(n) {
		all = append(all, wire.Batch{
			Source: 1 << 30, Offset: 1<<60 + i*7, Length: limits.MaxBatchBytes, First: 1<<59 + i*5, Count: limits.MaxBatchItems, Digest: 1<<32 - 1,
		}.Sealed())
	}
	return all
}

// tasks are so many that have been through everything that leaves a trace, but for earlier stages.
func (l *fullest) tasks(n int) []wire.Task {
	t := l.fill(wire.Task{}, "wire.Batch.From").(wire.Task)
	t.Batch = l.page(1)[0]
	return repeated(t, n)
}

// pipelines are those whose batches carry the most: the results of many members, many cuts, and many values of cases.
func (l *fullest) pipelines() map[string][]job.Stage {
	pool := strings.Repeat("p", limits.MaxName)
	var members []job.Stage
	var cases []job.Case
	for i := range limits.MaxStages - 1 {
		members = append(members, job.Stage{Name: fmt.Sprint("m", i), Pool: pool})
		stage := job.Stage{Name: fmt.Sprint("c", i), Pool: pool}
		cases = append(cases, job.Case{Value: fmt.Sprint(i, text.Fit(l.text, 490)), Stage: stage})
	}
	first := job.Stage{Name: "first", Pool: pool}
	return map[string][]job.Stage{
		"ensemble": {first, {Name: "all", Ensemble: members}},
		"switch":   {first, {Name: "one", Switch: ".kind", Cases: cases}},
		"pieces":   {first, {Name: "second", Pool: pool, BatchItems: 1}},
		"two":      {first, {Name: "second", Pool: pool}},
	}
}

// pipelineRows are the messages of a leg whose batches have all come to the step at which they carry the most.
func (l *fullest) pipelineRows(
	shape string, leg wire.LegInput, process wire.ProcessInput, commit wire.CommitInput,
) []row {
	program := pipeline.Compile(l.pipelines()[shape])
	page := program.Page(0)
	part := l.fill(wire.Part{}, "wire.Part.Inline").(wire.Part)
	var cuts []wire.Cut
	if program[0].Cut > 0 {
		for i := range int64(wire.MaxCuts) {
			cuts = append(cuts, wire.Cut{Item: 1<<59 + 1 + i, Offset: 1<<60 + 1 + i})
		}
	}
	var worst []wire.Batch
	at := []wire.Batch{l.page(1)[0]}
	for step := range program[:len(program)-1] {
		var next []wire.Batch
		for _, b := range at {
			require.Equal(l.t, step, pages.StepOf(b))
			part.Number = step + 1
			next = append(next, program.Advance(b, nil, part.Run, part, 1<<31-1, cuts)...)
		}
		if at = next; encoded(l.t, at) > encoded(l.t, worst) {
			worst = at
		}
	}
	var tasks []wire.Task
	var batches []wire.Batch
	var executions []wire.ProcessInput
	for range page {
		for _, b := range worst {
			t := l.tasks(1)[0]
			t.Batch = b
			tasks, batches = append(tasks, t), append(batches, b)
		}
		process.Batch, process.Stage = worst[0], &program[pages.StepOf(worst[0])].Stage // as many as the page has batches
		executions = append(executions, process)
	}
	commit.Entries, commit.Between = commit.Entries[:len(batches)], batches
	planned := wire.PlanResult{Page: wire.EncodePage(batches[:page])}
	return []row{
		{shape + ": leg that continues as new", with(leg, func(in *wire.LegInput) { in.Tasks = tasks }), mostSent},
		{shape + ": what a stop leaves between stages", commit, mostSent},
		{shape + ": page of a resumed job", planned, mostSent},
		{shape + ": leg of a resumed job", with(leg, func(in *wire.LegInput) { in.Page = planned.Page }), mostSent},
		{shape + ": all executions of a page at once", executions, mostMessage},
	}
}
