package workflows

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/calls"
	"github.com/stint-run/stint/internal/inputs"
	stored "github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/stages"
	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stint-run/stint/workflows/internal/execute"
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
		job.Error.Message job.Error.Stack job.Report.Reason activities.HookInput.Reason
		wire.StopNotice.Reason`},
	{foreign, execute.MaxErrorType, "job.Error.Type"},
	{foreign, execute.MaxErrorText + 500, `
		job.Report.LastFailure job.Report.Oldest job.Progress.LastFailure job.Progress.Oldest`},
	{foreign, 500, "job.Outage.Message"},
	{foreign, 300, "activities.ProcessResult.Unbegun"},
	{foreign, dispatch.MaxCause, "suspicion.Suspicion.Cause"},
	{foreign, dispatch.MaxStraggler, "job.Straggler.Batch job.Straggler.Worker job.Straggler.Why"},
	{foreign, 1000, "job.Noticed.Notes"},
	{foreign, 6 * 200, "wire.HeldTimer.Scope"},
	// Of job.Spec.
	{foreign, 2 << 10, `
		ledger.Ref.Store job.Report.Store job.Output.Location job.Output.Errors job.Output.Dropped
		job.Output.Split activities.ReportInput.Location`},
	// A host, a process and a pool: see worker.New.
	{foreign, 6*64 + 20 + job.MaxName, `
		wire.Place.Worker pool.Worker.Name job.WorkerShare.Worker job.ForcedEnd.Worker
		activities.ProcessResult.Worker inputs.PlanResult.Worker activities.PlanLoopResult.Worker`},

	{plain, job.MaxName, `
		ledger.Ref.Job job.Report.Job job.Report.Pool job.Report.UnservedPools job.StageReport.Stage
		job.StageReport.Pool dispatch.Task.Stage stagewindow.Bound.Stage activities.HookInput.Pool
		activities.HookInput.Name activities.ServedInput.Pools activities.ServedInput.Known
		activities.ServedResult.Unserved job.Settings.Windows`},
	{plain, 2*job.MaxName + 200, "job.HookRun.Hook job.ForcedEnd.Batch"},
	{plain, job.MaxName + 30, `
		job.Report.OpenLegs job.Report.Silent job.Report.Unsaved wire.Heard.Leg internal.WorkflowExecution.ID
		activities.LocateInput.Workflow`},
	{plain, 20, `
		job.Report.State activities.HookInput.State activities.HookInput.Stage job.HookRun.Stage
		job.ForcedEnd.Signal job.FirstError.Kind suspicion.Suspicion.Kind activities.Verdict.Kind
		ledger.Entry.Part wire.Part.Token wire.Part.Format activities.ProcessInput.OnError
		activities.ProcessInput.Format job.Output.Checksum job.LoopReport.CatchUp job.Settings.MaxFailed`},
	{plain, 40, `
		ledger.Ref.Run job.Report.Run ledger.Entry.Run wire.Parcel.Run wire.Part.Run
		activities.LocateInput.Run dispatch.FromLeg.Run internal.WorkflowExecution.RunID outputs.FinishInput.Earlier
		job.Redrive.Runs wire.StartInput.Earlier`},
	{plain, 100, `
		ledger.Ref.Sources inputs.PlanResult.Sources job.LoopSlot.Head
		activities.CommitResult.Manifest wire.Hint.Batch wire.Answered.Activity
		wire.ActivityPlace.Activity wire.CameBack.Activity job.HookRun.Skipped
		wire.Place.Process activities.HookInput.Key wire.Answer.Flying job.Progress.Flying
		activities.LocateInput.Processes activities.LocateInput.Silent activities.LocateResult.Ended
		workflows.LegResult.Manifests activities.CommitInput.Previous workflows.LegInput.Previous
		inputs.PlanInput.Resume outputs.FinishInput.Manifests outputs.FinishResult.Manifests
		activities.FailuresInput.Manifests wire.StartInput.Resume job.Report.LegManifests job.Report.Manifests
		job.Redrive.Manifests job.Redrive.Done workflows.jobState.Heads`},
	{plain, 900, "job.Totals.CallTimes"}, // 41 classes of 20 digits

	{list, 1, `
		workflows.LegResult.Loop job.Progress.Loop workflows.LegResult.Manifests
		activities.CommitInput.Previous`},
	{list, openLegs + 1, `
		workflows.LegInput.Previous inputs.PlanInput.Resume outputs.FinishInput.Manifests
		outputs.FinishResult.Manifests activities.FailuresInput.Manifests wire.StartInput.Resume
		job.Report.LegManifests job.Redrive.Manifests job.Redrive.Done workflows.jobState.Heads`},
	{list, feedLegs + 1, `
		job.Report.Manifests job.Report.OpenLegs job.Report.Silent job.Report.Unsaved wire.Answer.Heard`},
	{list, job.MaxSlots, "wire.StartInput.Loop workflows.loopState.Slots job.LoopReport.At"},
	{list, job.MaxStages, `
		job.Report.Stages job.Report.UnservedPools job.Progress.Stages dispatch.Outcomes.Stages
		dispatch.Limits.Stages job.Settings.Windows activities.ServedInput.Pools
		activities.ServedInput.Known activities.ServedResult.Unserved`},
	{list, job.MaxNotes, "job.Noticed.Notes"},
	{list, job.MaxLaterErrors, "job.Report.LaterErrors"},
	{list, job.MaxForced, `
		job.Report.Forced dispatch.ForcedEnds.Forced activities.ProcessResult.Forced
		activities.ProcessResult.Left`},
	{list, job.MaxStragglers, "job.Report.Stragglers dispatch.Outcomes.Stragglers"},
	{list, job.MaxWorkers, "job.Report.Workers job.Progress.Workers dispatch.Outcomes.Workers"},
	{list, pool.MaxWorkers, "dispatch.Outcomes.Pool dispatch.PoolNews.Workers pool.View.Workers"},
	{list, 60, "job.Report.Hooks"}, // 20 of each stage
	{list, 1000, "outputs.FinishInput.Earlier job.Redrive.Runs wire.StartInput.Earlier"}, // runs of one job
	{list, wire.PageBatches, `
		wire.Answer.Flying job.Progress.Flying activities.LocateInput.Processes activities.LocateInput.Silent
		activities.LocateResult.Ended`},
	{list, 2 * wire.PageBatches, "activities.LocateResult.Places"}, // of those that run, and of those that have expired
	{list, wire.MaxNews, "wire.Hint.News"},
	{list, wire.MaxHinted, "wire.Hint.Timers"},
	{list, wire.MaxCuts, "wire.Parcel.Cuts activities.ProcessResult.Cuts"},
	{list, calls.MaxTrials, `
		dispatch.Task.Trials activities.ProcessInput.Trials activities.ProcessResult.Trials`},
	{list, 18, "job.LoopStats.Lateness"},
}

// row is a message and its limit.
type row struct {
	what  string
	value any
	most  int
}

// jobRows are the largest messages of jobs of files, redrives, loops and schedules.
func jobRows(l *fullest) []row {
	spec := l.spec()
	salvage := make([]json.RawMessage, 4) // see jobs.Client.Resume
	for i := range salvage {
		salvage[i] = json.RawMessage(`"` + strings.Repeat("a", 256<<10) + `"`)
	}
	full := func(v any, without string) any { return l.fill(v, without) }
	const (
		kinds = "job.Report.Feed job.Report.Loop " // of other jobs than those of files
		// What only jobs and legs have that end.
		jobEnds = kinds + "job.Report.Stragglers job.Report.Forced job.Report.Hooks job.Report.Redrive job.Report.Ended "
		legEnds = "dispatch.Outcomes.Stragglers dispatch.ForcedEnds.Forced dispatch.Outcomes.Error workflows.LegResult.Loop "
		noLoop  = "wire.StartInput.Salvage wire.StartInput.Loop "
	)

	page := inputs.EncodePage(l.page(wire.PageBatches))
	leg := full(LegInput{}, legEnds+"dispatch.State.Tasks workflows.LegInput.Page").(LegInput)
	planned := full(inputs.PlanResult{}, "inputs.PlanResult.Page").(inputs.PlanResult)
	planned.Page = page
	start := full(wire.StartInput{}, noLoop).(wire.StartInput)
	resumed := start
	resumed.Salvage = salvage
	const otherWork = "workflows.jobState.Carried workflows.workState.Feed workflows.workState.Loop"
	again := full(JobInput{}, jobEnds+noLoop+otherWork).(JobInput)
	feedJob := again
	for range feedLegs {
		carried := full(carriedLeg{}, "workflows.carriedLeg.Sofar").(carriedLeg)
		carried.Sofar.Manifests = []string{strings.Repeat("m", 100)}
		state := *feedJob.State
		state.Carried = append(state.Carried, carried)
		feedJob.State = &state
	}
	loop := full(JobInput{}, jobEnds+"wire.StartInput.Salvage workflows.jobState.Carried workflows.workState.Feed").(JobInput)
	loop.Spec = l.loopSpec(1)
	const lists = "activities.CommitInput.Entries activities.CommitInput.Between"
	commit := full(activities.CommitInput{}, lists).(activities.CommitInput)
	for range (dispatch.MaxEvents+6*wire.PageBatches)/3 + 1 { // an execution has three events
		commit.Entries = append(commit.Entries, full(stored.Entry{}, "wire.Batch.From").(stored.Entry))
	}
	const inputsOfOthers = "wire.Batch.From activities.ProcessInput.Items activities.ProcessInput.Stage " +
		"activities.ProcessInput.Clock"
	process := full(activities.ProcessInput{}, inputsOfOthers).(activities.ProcessInput)
	usual := process
	usual.Verdict = nil // one suspected batch runs at a time
	report := full(job.Report{}, kinds)
	legResult := full(LegResult{}, "workflows.LegResult.Loop")

	kept := keptResult{Result: full(LegResult{}, legEnds).(LegResult)}
	const resultsOfOthers = "activities.ProcessResult.Inline wire.Batch.From activities.ProcessResult.Written"

	rows := []row{
		{"start of a job", start, mostSent},
		{"start of a resumed job", resumed, mostSent},
		{"start of a redrive of a job", full(wire.StartInput{}, noLoop), mostSent},
		{"continuation of a job", again, mostSent},
		{"continuation of a feed", feedJob, mostSent},
		{"continuation of a loop", loop, mostSent},
		{"result of a job", report, mostSent},
		{"result of a loop", full(job.Report{}, "job.Report.Feed job.Report.Stages"), mostSent},
		{"answer to the query of a job", full(wire.Answer{}, kinds), mostSent},
		{"executions that a query names", full(job.Progress{}, "job.Progress.Feed").(job.Progress).Flying, mostSent},
		{"answer to the query of a leg", full(job.Progress{}, "job.Progress.Feed"), mostSent},
		{"what a leg has not committed", []activities.CommitInput{commit}, mostSent},

		{"Plan", full(activities.PlanInput{}, ""), mostSent},
		{"page", planned, mostSent},
		{"PlanRedrive", full(activities.RedrivePlanInput{}, ""), mostSent},
		{"PlanLoop", full(activities.PlanLoopInput{}, ""), mostSent},
		{"begun loop", full(activities.PlanLoopResult{}, ""), mostSent},
		{"leg of a page", with(leg, func(in *LegInput) { in.Page = page }), mostSent},
		{"leg that continues as new", with(leg, func(in *LegInput) { in.Tasks = l.tasks(wire.PageBatches) }), mostSent},
		{"legs of all slots of a loop", l.loopLegs(), mostMessage},
		{"result of a leg", legResult, mostSent},
		{"what a leg has kept", dispatch.FromLeg[any]{Value: kept}, mostSent},
		{"an execution", process, mostSent},
		{"all executions of a page at once", repeated(usual, wire.PageBatches), mostMessage},
		{"result of an execution", full(activities.ProcessResult{}, resultsOfOthers), mostSent},
		{"heartbeat", full(wire.Hint{}, ""), mostSent},
		{"Commit", commit, mostSent},
		{"Finish", full(activities.FinishInput{}, ""), mostSent},
		{"FinishRedrive", full(activities.RedriveFinishInput{}, ""), mostSent},
		{"what is finished", full(activities.FinishResult{}, ""), mostSent},
		{"WriteReport", full(activities.ReportInput{}, kinds), mostSent},
		{"WriteFailures", full(activities.FailuresInput{}, ""), mostSent},
		{"hook", full(activities.HookInput{}, ""), mostSent},
		{"Locate", full(activities.LocateInput{}, ""), mostSent},
		{"places", full(activities.LocateResult{}, "wire.ActivityPlace.Clock"), mostSent},
		{"Served", full(activities.ServedInput{}, ""), mostSent},
		{"unserved pools", full(activities.ServedResult{}, ""), mostSent},

		{"stop of a leg", full(wire.StopNotice{}, ""), mostSent}, // also its memo
		{"failure of a leg", dispatch.FromLeg[any]{Value: full(job.Error{}, "")}, mostSent},
		{"counts of a leg", full(dispatch.FromLeg[dispatch.Counts]{}, ""), mostSent},
		{"news of the pool", full(dispatch.FromLeg[dispatch.PoolNews]{}, ""), mostSent},
		{"slow-down", full(dispatch.FromLeg[dispatch.SlowDownRequest]{}, ""), mostSent},
		{"places of a leg", full(dispatch.FromLeg[dispatch.PlacesBack]{}, ""), mostSent},
		{"limits of a leg", full(dispatch.Limits{}, ""), mostSent},
		{"worker that came back", full(wire.CameBack{}, ""), mostSent},
		{"settings", full(job.Settings{}, ""), mostSent},
		{"progress in a memo", full(job.Milestone{}, ""), mostSent},
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
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(1<<33, 123456789).UTC()))
	case job.Spec:
		v.Set(reflect.ValueOf(l.spec()))
	case job.FirstError:
		long := job.Error{Type: l.text, Message: l.text, Stack: l.text}
		v.Set(reflect.ValueOf(*stored.FirstError(job.Failure{Item: 1 << 60, Kind: job.KindExpired, Error: long})))
	default:
		return false
	}
	return true
}

// spec is as large as one may be: it has so many names that no other one is allowed.
func (l *fullest) spec() job.Spec {
	if l.specs != nil {
		return *l.specs
	}
	name := text.Fit(l.text, 1000)
	location := func(what string) string { return what + strings.ReplaceAll(text.Fit(l.text, 2000), "/", "") }
	named := func(inputs, columns int) job.Spec {
		s := job.Spec{
			Name: strings.Repeat("j", job.MaxName), Pool: strings.Repeat("p", job.MaxName),
			Output: location("o") + ".csv", Errors: location("e"), Dropped: location("d"), Report: location("r"),
			Store: location("s"),
		}
		for range inputs {
			s.Input = append(s.Input, name)
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
		s := job.Spec{Name: "loop", Pool: "p", Source: job.SourceClock, Slots: slots, Output: "out/"}
		for range n {
			s.CleanStop = append(s.CleanStop, text.Fit(l.text, 500))
		}
		return s.WithDefaults()
	}
	return named(sort.Search(2000, func(n int) bool { return named(n+1).Validate() != nil }))
}

// loopLegs are those of all slots of a loop, which are started at once.
func (l *fullest) loopLegs() []LoopLegInput {
	in := l.fill(LoopLegInput{}, "dispatch.State.Tasks workflows.LoopLegInput.Sofar").(LoopLegInput)
	in.Spec = l.loopSpec(job.MaxSlots)
	return repeated(in, job.MaxSlots)
}

// page is one of so many batches that do not follow from each other.
func (l *fullest) page(n int) []wire.Batch {
	var all []wire.Batch
	for i := range int64(n) {
		all = append(all, wire.Batch{
			Source: 1 << 30, Offset: 1<<60 + i*7, Length: job.MaxBatchBytes, First: 1<<59 + i*5, Count: job.MaxBatchItems, Digest: 1<<32 - 1,
		}.Sealed())
	}
	return all
}

// tasks are so many that have been through everything that leaves a trace, but for earlier stages.
func (l *fullest) tasks(n int) []dispatch.Task {
	t := l.fill(dispatch.Task{}, "wire.Batch.From").(dispatch.Task)
	t.Batch = l.page(1)[0]
	return repeated(t, n)
}

// pipelines are those whose batches carry the most: the results of many members, many cuts, and many values of cases.
func (l *fullest) pipelines() map[string][]job.Stage {
	pool := strings.Repeat("p", job.MaxName)
	var members []job.Stage
	var cases []job.Case
	for i := range job.MaxStages - 1 {
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
	shape string, leg LegInput, process activities.ProcessInput, commit activities.CommitInput,
) []row {
	program := stages.Compile(l.pipelines()[shape])
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
			require.Equal(l.t, step, stepOf(b))
			part.Number = step + 1
			next = append(next, program.Advance(b, nil, part.Run, part, 1<<31-1, cuts)...)
		}
		if at = next; encoded(l.t, at) > encoded(l.t, worst) {
			worst = at
		}
	}
	var tasks []dispatch.Task
	var batches []wire.Batch
	var executions []activities.ProcessInput
	for range page {
		for _, b := range worst {
			t := l.tasks(1)[0]
			t.Batch = b
			tasks, batches = append(tasks, t), append(batches, b)
		}
		process.Batch, process.Stage = worst[0], &program[stepOf(worst[0])].Stage // as many as the page has batches
		executions = append(executions, process)
	}
	commit.Entries, commit.Between = commit.Entries[:len(batches)], batches
	planned := activities.PlanResult{Page: inputs.EncodePage(batches[:page])}
	return []row{
		{shape + ": leg that continues as new", with(leg, func(in *LegInput) { in.Tasks = tasks }), mostSent},
		{shape + ": what a stop leaves between stages", commit, mostSent},
		{shape + ": page of a resumed job", planned, mostSent},
		{shape + ": leg of a resumed job", with(leg, func(in *LegInput) { in.Page = planned.Page }), mostSent},
		{shape + ": all executions of a page at once", executions, mostMessage},
	}
}
