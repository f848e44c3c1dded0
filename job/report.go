package job

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/base/calltimes"
	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/samples"
	"github.com/stint-run/stint/internal/base/text"
)

// State is the state of a job.
type State string

// The states of a job. Completed, Stopped and Failed are final; the last two can be resumed.
const (
	Running   State = "running"
	Completed State = "completed"
	Stopping  State = "stopping"
	Stopped   State = "stopped"
	Failed    State = "failed"
)

// Final reports whether the state is one that a job ends in.
func (s State) Final() bool { return s == Completed || s == Stopped || s == Failed }

// Totals are counts over accepted batches. They add up.
type Totals struct {
	OK      int64 `json:"ok"`      // items with a result, dropped ones included
	Failed  int64 `json:"failed"`  // items with an error
	Dropped int64 `json:"dropped"` // items for which the handler returned no result
	// Skipped are items with a result that were done before: the file that their command makes was there.
	Skipped int64 `json:"skipped,omitempty"`
	// Reused are items whose result is that of an earlier run; Changed are those that it had with another content, and
	// Again those that it had as they are, and without a result. All others are new. See [Spec].Reuse.
	Reused  int64 `json:"reused,omitempty"`
	Changed int64 `json:"changed,omitempty"`
	Again   int64 `json:"again,omitempty"`
	// Equal are items that have the outcome of an equal one before them. Until the job completes all of them count in OK.
	// See [Spec].Unique.
	Equal int64 `json:"equal,omitempty"`
	// Lines are the result lines of a job that flattens results (see [Spec].Flatten); in any other job each result is
	// one line.
	Lines int64 `json:"lines,omitempty"`
	// Between are the items that have passed a stage of a pipeline, and have not come through the next one.
	Between int64 `json:"between,omitempty"`

	Batches    int64 `json:"batches"`    // accepted executions of batches
	Retries    int64 `json:"retries"`    // calls and batches that were retried
	Crashes    int64 `json:"crashes"`    // processes that ended in the middle of a call
	Expiries   int64 `json:"expiries"`   // timers that expired
	Isolations int64 `json:"isolations"` // calls and batches halved to find a failing item
	SlowDowns  int64 `json:"slow_downs"` // slow-down requests of the handler
	// Alone are items whose call of one item failed as a whole: the handler has not answered for them. One that is run
	// again may count twice.
	Alone int64 `json:"alone,omitempty"`
	// Summed are calls of several items that were answered with a single result.
	Summed int64 `json:"summed,omitempty"`
	// Repeated are items that were done and run again: one before them in their batch had no outcome yet when
	// the batch had to end.
	Repeated int64 `json:"repeated,omitempty"`

	Calls     int64 `json:"calls"`      // calls of the handler that were answered
	CallItems int64 `json:"call_items"` // items in them
	CallMin   int64 `json:"call_min"`   // smallest call, in items
	CallMax   int64 `json:"call_max"`   // largest call, in items
	// CallTimes is how long these calls took.
	CallTimes calltimes.Text `json:"call_times,omitempty"`

	// Usage is what calls have used of services that are paid for. LostUsage is that of executions which were lost with
	// their workers, so far as these had reported it: their calls are made again, and count in Usage then.
	Usage     Usage `json:"usage,omitzero"`
	LostUsage Usage `json:"lost_usage,omitzero"`

	InputBytes int64         `json:"input_bytes"` // bytes of input done
	Busy       time.Duration `json:"busy_ns"`     // time spent in Process, summed over slots, in nanoseconds
}

// Add adds o to t.
func (t *Totals) Add(o Totals) {
	t.OK += o.OK
	t.Failed += o.Failed
	t.Dropped += o.Dropped
	t.Skipped += o.Skipped
	t.Reused += o.Reused
	t.Changed += o.Changed
	t.Again += o.Again
	t.Equal += o.Equal
	t.Lines += o.Lines
	t.Between += o.Between
	t.Batches += o.Batches
	t.Retries += o.Retries
	t.Crashes += o.Crashes
	t.Expiries += o.Expiries
	t.Isolations += o.Isolations
	t.SlowDowns += o.SlowDowns
	t.Alone += o.Alone
	t.Summed += o.Summed
	t.Repeated += o.Repeated
	if o.Calls > 0 && (t.Calls == 0 || o.CallMin < t.CallMin) {
		t.CallMin = o.CallMin
	}
	t.CallMax = max(t.CallMax, o.CallMax)
	t.Calls += o.Calls
	t.CallItems += o.CallItems
	t.CallTimes = t.CallTimes.Plus(o.CallTimes)
	t.Usage.Add(o.Usage)
	t.LostUsage.Add(o.LostUsage)
	t.InputBytes += o.InputBytes
	t.Busy += o.Busy
}

// Spent returns all that calls have used, that of lost executions included.
func (t Totals) Spent() Usage {
	spent := t.Usage
	spent.Add(t.LostUsage)
	return spent
}

// OnlySums reports whether the handler seems to sum its items up, as the filter 'wc -l' does: calls of several items
// were answered with one result, and no call of several items was answered as it should be.
func (t Totals) OnlySums() bool { return t.Summed > 0 && t.CallMax <= 1 }

// Done returns the number of items with an outcome.
func (t Totals) Done() int64 { return t.OK + t.Failed }

// Outcomes are what a job, or one leg of it, has come to.
type Outcomes struct {
	Totals
	FirstError *FirstError `json:"first_error,omitempty"`
	// Stragglers are batches that a stop has left behind: at most [limits.MaxStragglers]; StragglersOmitted counts the
	// others.
	Stragglers        []Straggler `json:"stragglers,omitempty"`
	StragglersOmitted int         `json:"stragglers_omitted,omitempty"`
	// Forced are processes that a stop has ended by signals: at most [limits.MaxForced]; ForcedOmitted counts the
	// others.
	Forced        []ForcedEnd `json:"forced,omitempty"`
	ForcedOmitted int         `json:"forced_omitted,omitempty"`
	// Workers are those that have done batches, by items done, the most first: at most [limits.MaxWorkers].
	Workers []WorkerShare `json:"workers,omitempty"`
	// Slowest are the batches that took longest, the slowest first: at most [limits.MaxSlowest]. Loops have none.
	Slowest []SlowBatch `json:"slowest,omitempty"`
	// Stages are those of a pipeline that pools run, in the order in which items reach them.
	Stages []StageReport `json:"stages,omitempty"`
	// Versions are those of the handlers that have done batches, by stage, the most items first: at most
	// [limits.MaxVersions].
	Versions []WorkerShare `json:"versions,omitempty"`
	// Life is what Samples are made of, as it travels and adds up. Reports that clients return have Samples instead.
	Life samples.Packed `json:"life,omitempty"`
}

// Add adds those of another leg. Stages are added to those of the same names, whose pools and windows stay; others are
// left out, unless there are none.
func (o *Outcomes) Add(more Outcomes) {
	o.Totals.Add(more.Totals)
	o.FirstError = o.FirstError.First(more.FirstError)
	var omitted int
	o.Stragglers, omitted = atMost(limits.MaxStragglers, o.Stragglers, more.Stragglers)
	o.StragglersOmitted += omitted + more.StragglersOmitted
	o.Forced, omitted = atMost(limits.MaxForced, o.Forced, more.Forced)
	o.ForcedOmitted += omitted + more.ForcedOmitted
	o.Workers = addWorkers(o.Workers, more.Workers)
	o.NoteSlow(more.Slowest...)
	o.Stages = addStages(o.Stages, more.Stages)
	o.Versions = addVersions(o.Versions, more.Versions)
	o.Life = o.Life.Plus(more.Life)
}

// atMost appends one list to another, up to a length, and returns how many are left out.
func atMost[T any](most int, list, more []T) ([]T, int) {
	n := min(len(more), max(0, most-len(list)))
	return append(slices.Clip(list), more[:n]...), len(more) - n
}

// add adds what the same worker, or workers of the same version, have done.
func (s *WorkerShare) add(w WorkerShare) {
	s.Batches += w.Batches
	s.Items += w.Items
	s.Busy += w.Busy
	if w.Last.After(s.Last) {
		s.Last = w.Last
	}
	if w.Concurrency > 0 && !w.Last.Before(s.Last) {
		s.Concurrency = w.Concurrency
	}
}

// addWorkers adds the shares of two lists by worker, and keeps [limits.MaxWorkers] with the most items.
func addWorkers(a, b []WorkerShare) []WorkerShare {
	sum := slices.Clone(a)
	for _, w := range b {
		i := slices.IndexFunc(sum, func(s WorkerShare) bool { return s.Worker == w.Worker })
		if i < 0 {
			sum = append(sum, w)
			continue
		}
		sum[i].add(w)
	}
	slices.SortFunc(sum, func(a, b WorkerShare) int {
		return cmp.Or(cmp.Compare(b.Items, a.Items), cmp.Compare(a.Worker, b.Worker))
	})
	return sum[:min(len(sum), limits.MaxWorkers)]
}

// addStages adds the numbers of stages to those of the same names in a list, whose pools and windows stay. Others are
// left out, unless the list is empty.
func addStages(sum, more []StageReport) []StageReport {
	if len(sum) == 0 {
		return slices.Clone(more)
	}
	sum = slices.Clone(sum)
	for _, m := range more {
		if i := slices.IndexFunc(sum, func(s StageReport) bool { return s.Stage == m.Stage }); i >= 0 {
			s := &sum[i]
			s.Waiting += m.Waiting
			s.InFlight += m.InFlight
			s.Batches += m.Batches
			s.Done += m.Done
			s.Failed += m.Failed
			s.Busy += m.Busy
			s.Usage.Add(m.Usage)
		}
	}
	return sum
}

// Progress is the state of one leg of a job.
type Progress struct {
	Outcomes
	Waiting  int `json:"waiting"` // batches not yet dispatched
	InFlight int `json:"in_flight"`
	// LastFailure is why a batch was last retried, for people.
	LastFailure string `json:"last_failure,omitempty"`
	// Oldest is the batch that has been in flight for longest, for people.
	Oldest string      `json:"oldest,omitempty"`
	Outage *Outage     `json:"outage,omitempty"` // that the leg waits out
	Feed   *FeedReport `json:"feed,omitempty"`   // of a leg of a feed
	Loop   []LoopSlot  `json:"loop,omitempty"`   // of a leg of a loop: where its slots stand
	// Flying are the executions in flight, of those that the query has named.
	Flying []string `json:"flying,omitempty"`
}

// Output says where a finished job's results are. That of a failed job has no results, only errors.
type Output struct {
	Location string `json:"location"`           // file, or directory or bucket prefix with parts; with {} for a value if the results are split
	Bytes    int64  `json:"bytes"`              // of all results
	Checksum string `json:"checksum,omitempty"` // "crc32c:…" of all results
	Errors   string `json:"errors,omitempty"`   // file of error records; empty: there are none
	Dropped  string `json:"dropped,omitempty"`  // file of dropped items; empty: there are none, or no file was requested
	// Split is the field by which the results are split into Files files; the parts are in the store, too. Empty: they
	// are not.
	Split string `json:"split,omitempty"`
	Files int    `json:"files,omitempty"`
}

// HasResults reports whether there are results, and not only errors of a job that has failed.
func (o Output) HasResults() bool { return o.Location != "" || o.Checksum != "" }

// Throttle is a rate that slow-down requests of the handler have lowered. It recovers automatically.
type Throttle struct {
	Rate  Rate      `json:"rate"`  // of the whole job, at present; 0: not known, there is a pause only
	Until time.Time `json:"until"` // no call is begun before
}

// String describes the lowered rate: "to 250 items/s".
func (t Throttle) String() string {
	if t.Rate == 0 {
		return "to a pause until " + t.Until.UTC().Format(time.TimeOnly)
	}
	return fmt.Sprintf("to %s items/s", t.Rate)
}

// Outage is a fault of the store, or of the host of an input: out of reach, overloaded, full. It is waited out,
// with up to a minute between two tries, costs no batch an attempt, and fails the job after about a day of trying.
type Outage struct {
	Since   time.Time `json:"since,omitzero"` // zero if it is not known
	Tries   int       `json:"tries"`          // that have failed in a row
	Next    time.Time `json:"next,omitzero"`  // not before this is the next one; zero while it runs
	Message string    `json:"message"`
}

// String describes the outage: "since 14:02:31 UTC, 5 tries, the next at 14:03:02 UTC: reading …".
func (o Outage) String() string {
	s := text.Count(o.Tries, "try")
	if !o.Since.IsZero() {
		s = "since " + o.Since.UTC().Format(time.TimeOnly) + " UTC, " + s
	}
	if !o.Next.IsZero() {
		s += ", the next at " + o.Next.UTC().Format(time.TimeOnly) + " UTC"
	}
	return s + ": " + o.Message
}

// Earlier returns the outage that began first; either may be nil.
func (o *Outage) Earlier(other *Outage) *Outage {
	if o == nil || other != nil && other.Since.Before(o.Since) {
		return other
	}
	return o
}

// WorkerShare is what one worker, or all those with the same version of the handler, have done for a job.
type WorkerShare struct {
	Worker  string        `json:"worker,omitempty"`  // empty: all those with the version
	Version string        `json:"version,omitempty"` // of the handler; empty: of one worker
	Stage   string        `json:"stage,omitempty"`   // of a pipeline, with Version
	Batches int64         `json:"batches"`
	Items   int64         `json:"items"`
	Busy    time.Duration `json:"busy_ns"` // summed over its slots, in nanoseconds
	Last    time.Time     `json:"last"`    // when its last batch was accepted
	// Concurrency is how many calls each of its slots made at once when it ended its last batch; 0: not known.
	Concurrency int `json:"concurrency,omitempty"`
}

// Report is the state of a job. Its JSON form is stable.
type Report struct {
	Job   string `json:"job"`
	Run   string `json:"run"` // run ID of the first run, the key of its data in the store
	Pool  string `json:"pool"`
	State State  `json:"state"`
	// Reason is why the job was stopped, Error why it failed; in the states stopping and stopped Error
	// says what was still running.
	Reason string `json:"reason,omitempty"`
	Error  *Error `json:"error,omitempty"`
	// LaterErrors were reported when the job was already ending; they do not change its state. At most
	// [limits.MaxLaterErrors]; LaterErrorsOmitted counts the others.
	LaterErrors        []Error `json:"later_errors,omitempty"`
	LaterErrorsOmitted int     `json:"later_errors_omitted,omitempty"`
	// PausedSince is since when the running job is paused: nothing new is dispatched. Nil: it is not.
	PausedSince *time.Time `json:"paused_since,omitempty"`
	// PausedFor is how long earlier pauses of this run took, in nanoseconds.
	PausedFor time.Duration `json:"paused_ns,omitempty"`
	// StopDeadline is when the grace period of the stop ends.
	StopDeadline *time.Time `json:"stop_deadline,omitempty"`

	// Pinned is the version of the handler that the job is pinned to; empty: to none.
	Pinned string `json:"pinned,omitempty"`
	// Unserved: no worker took the job's first activity within seconds.
	Unserved bool `json:"unserved,omitempty"`
	// UnservedPools are pools of a pipeline's further stages that no worker serves: their items wait.
	UnservedPools []string `json:"unserved_pools,omitempty"`
	// AsOf is set if not all of the job's workflows have answered, so that some numbers are the last known ones: the
	// time of the oldest. Silent are the workflows that have not answered.
	AsOf   time.Time `json:"as_of,omitzero"`
	Silent []string  `json:"silent,omitempty"`
	// Outage is set while the job waits for its store, or for the host of an input.
	Outage *Outage `json:"outage,omitempty"`

	Planned    int64 `json:"planned"`     // items found so far
	Discarded  int64 `json:"discarded"`   // items removed at the user's request
	PlanDone   bool  `json:"plan_done"`   // all items have been found
	TotalBytes int64 `json:"total_bytes"` // size of the input; 0: not known
	Outcomes
	// InHand is how many of the items done are in batches that run: workers have reported them with heartbeats. They
	// are done again if their batch is lost.
	InHand int64 `json:"in_hand,omitempty"`
	// LeftOut is how many files among the inputs were left out, because stint wrote them.
	LeftOut int `json:"left_out,omitempty"`
	// OldFiles is how many files among the inputs were left out, because earlier runs of the job's name have completed
	// them: see [Files].NewFiles.
	OldFiles int `json:"old_files,omitempty"`
	// Noticed is what reading the inputs has shown.
	Noticed Noticed `json:"noticed,omitzero"`
	// ReusedFrom names the run whose results the job takes (see [Spec].Reuse), "RUN of JOB", and Offered is how many that
	// has: of these, no item has matched Gone, once the job has completed. Empty: it takes none.
	ReusedFrom string `json:"reused_from,omitempty"`
	Offered    int64  `json:"offered,omitempty"`
	Gone       int64  `json:"gone,omitempty"`
	// Resumed is how many of the items done came from an earlier, stopped or failed run.
	Resumed int64 `json:"resumed,omitempty"`
	// Redriven is how many failed items a redrive has run again.
	Redriven int64 `json:"redriven,omitempty"`

	// Feed is the part of a report that only feeds have; nil for other jobs.
	Feed *FeedReport `json:"feed,omitempty"`
	// Loop is the part of a report that only loops have; nil for other jobs.
	Loop *LoopReport `json:"loop,omitempty"`

	Legs        int      `json:"legs"`                   // legs started
	OpenLegs    []string `json:"open_legs,omitempty"`    // workflow IDs of running legs
	Waiting     int      `json:"waiting"`                // batches planned and not dispatched
	InFlight    int      `json:"in_flight"`              // batches dispatched and not finished
	LastFailure string   `json:"last_failure,omitempty"` // why a batch was last retried
	Oldest      string   `json:"oldest,omitempty"`       // batch that has been in flight for longest

	// Grace is how long running calls may take after a stop without its own grace, Expiry how long a worker may be
	// silent, both in nanoseconds; Attempts is how often a batch, or a call, is tried before it is halved.
	Grace    time.Duration `json:"grace_ns"`
	Expiry   time.Duration `json:"expiry_ns"`
	Attempts int           `json:"attempts"`
	// Window is how many batches may be in flight at once now; it is automatic if Settings.Window is 0.
	Window int `json:"window,omitempty"`
	// Settings are those in force now, after any jobs.Run.Set.
	Settings Settings `json:"settings"`
	// Throttle is set while slow-down requests of the handler lower the rate.
	Throttle *Throttle `json:"throttle,omitempty"`
	// SlowedSince is when the handler first asked this run to slow down; zero: it has not.
	SlowedSince time.Time `json:"slowed_since,omitzero"`
	Hooks       []HookRun `json:"hooks,omitempty"`

	// Failures are the failed items whose records are in the errors file, by kind, type and pattern of their messages: the
	// 20 largest groups, and one for all others, if there are any. Of a job that has completed, or has failed.
	Failures []FailureGroup `json:"failures,omitempty"`
	// Samples are what the job was at moments of its life, the oldest first: at most [samples.Most], evenly over all the
	// time in which something was done. They begin with the first run of a job that was resumed, and with this run of a
	// redrive; what was done at times that are not known is in the first one. The last one has all items that are done.
	Samples []Sample `json:"samples,omitempty"`

	Started time.Time  `json:"started"`
	Ended   *time.Time `json:"ended,omitempty"`
	Output  *Output    `json:"output,omitempty"`

	Store     string   `json:"store"`               // where parts and manifests are
	Manifests []string `json:"manifests,omitempty"` // heads of the manifest chain
	// LegManifests are further heads while the job runs: those given to its open legs, whose manifests will name them.
	LegManifests []string `json:"leg_manifests,omitempty"`
	// Salvage is how many pieces of what an earlier run, ended by Temporal, had accepted this run has still to commit:
	// at most one for each leg that was open then. Nothing else begins before.
	Salvage int `json:"salvage,omitempty"`
	// Unsaved are workflow IDs of legs of a feed that have ended with something that could not be written to the store:
	// the resumed job asks them for it.
	Unsaved []string `json:"unsaved,omitempty"`
	// Redrive is set while failed items are run again, and if that was stopped or has failed. The counts
	// are then those of these items; Output and Manifests are still the completed job's.
	Redrive *Redrive `json:"redrive,omitempty"`
}

// StageReport is the state of a stage that a pool runs. An item may go through several stages; in each of them it
// counts once.
type StageReport struct {
	Stage string `json:"stage"` // its name, with those of the stages around it: "score.a"
	Pool  string `json:"pool"`
	// Window is how many batches may be in flight in it at once; 0: as many as the job's window allows.
	Window int `json:"window,omitempty"`
	// Waiting is how many batches it has still to begin: of the first stage those that are planned, of others those
	// that the stages before have passed on. InFlight are those that it has begun.
	Waiting  int `json:"waiting"`
	InFlight int `json:"in_flight"`

	// Of the present run of the job: accepted executions of batches, the items in them that the stage has had, failed
	// ones included, and how many of these have failed in it.
	Batches int64 `json:"batches"`
	Done    int64 `json:"done"`
	Failed  int64 `json:"failed"`
	// Busy is the time spent in it, summed over slots, in nanoseconds.
	Busy time.Duration `json:"busy"`
	// Usage is what its calls have used of services that are paid for.
	Usage Usage `json:"usage,omitzero"`
}

// String describes the stage: "stage score (pool scorers): 3 batches waiting · 2 in flight · 1,200 items done · 7
// failed".
func (s StageReport) String() string {
	window := ""
	if s.Window > 0 {
		window = fmt.Sprintf(" of at most %d", s.Window)
	}
	return fmt.Sprintf("stage %s (pool %s): %d batches waiting · %d in flight%s · %s items done · %s failed",
		s.Stage, s.Pool, s.Waiting, s.InFlight, window, text.Thousands(s.Done), text.Thousands(s.Failed))
}

// StageReports returns the stages of a pipeline that pools run, before anything has happened in them.
func (s Spec) StageReports() []StageReport {
	var all []StageReport
	for _, stage := range s.StagePools() {
		all = append(all, StageReport{Stage: stage.Name, Pool: stage.Pool, Window: stage.Window})
	}
	return all
}

// StageSpeed returns how many items a second a stage has done on average until now, and which part of the time spent in
// all stages, from 0 to 1, was spent in it.
func (r Report) StageSpeed(s StageReport, now time.Time) (items, share float64) {
	if r.Ended != nil {
		now = *r.Ended
	}
	if seconds := now.Sub(r.Started).Seconds(); seconds > 0 {
		items = float64(s.Done) / seconds
	}
	var all time.Duration
	for _, other := range r.Stages {
		all += other.Busy
	}
	if all > 0 {
		share = float64(s.Busy) / float64(all)
	}
	return items, share
}

// FeedState is the state of a feed, as known to its leg that takes items.
type FeedState struct {
	Leg           int           `json:"leg"`
	Open          bool          `json:"open"` // it takes items
	Session       int64         `json:"session"`
	Accepted      int64         `json:"accepted"` // items of the feed, in all sessions
	Capacity      int           `json:"capacity"`
	CapacityBytes int64         `json:"capacity_bytes"`
	Backlog       int           `json:"backlog"` // accepted and unfinished
	BacklogBytes  int64         `json:"backlog_bytes"`
	Waiting       int           `json:"waiting"`   // of these, items of this leg in no batch yet
	Unclaimed     int           `json:"unclaimed"` // results that their clients have not taken: not yet, or not in time
	Oldest        time.Duration `json:"oldest"`    // age of the oldest unfinished item of this leg
	Discarded     int64         `json:"discarded"` // items that resets have removed from this leg
	Queued        time.Duration `json:"queued"`    // time in queue, summed over the items of this leg that have left it
	QueuedMax     time.Duration `json:"queued_max"`
	Left          int64         `json:"left"` // items that have left the queue
}

// FeedReport is the state of a feed.
type FeedReport struct {
	Session       int64 `json:"session"`  // that is open
	Accepted      int64 `json:"accepted"` // items, in all sessions
	Backlog       int   `json:"backlog"`  // items accepted and unfinished
	BacklogBytes  int64 `json:"backlog_bytes"`
	Capacity      int   `json:"capacity"` // most items accepted and unfinished
	CapacityBytes int64 `json:"capacity_bytes"`
	Waiting       int   `json:"waiting"`   // of the backlog, items that are in no batch yet
	Unclaimed     int   `json:"unclaimed"` // results that their clients have not taken: not yet, or not in time
	Discarded     int64 `json:"discarded"` // items that resets have removed, in legs that run
	// OldestSince is when the oldest unfinished item of the legs that run was accepted; zero: there is none.
	OldestSince time.Time `json:"oldest_since,omitzero"`
	// QueueMean and QueueMax are how long items of the legs that run have waited for their batch, in nanoseconds.
	QueueMean time.Duration `json:"queue_mean_ns"`
	QueueMax  time.Duration `json:"queue_max_ns"`
	Segments  int           `json:"segments"` // legs that have taken items
	// StalledSince is when an item last finished, if the feed has unfinished items and none has finished for 30 s;
	// zero: it is not stalled.
	StalledSince time.Time `json:"stalled_since,omitzero"`
	// Earlier is how many items of the backlog were accepted before the feed was resumed.
	Earlier int `json:"earlier,omitempty"`
	// Lost is how many items were accepted before the feed was resumed, and cannot be found: the store and the
	// histories of legs have neither an outcome nor a copy of them. They count as failed, with the kind [KindLost].
	Lost int64 `json:"lost,omitempty"`
	// Gone are the workflow IDs of legs whose history the server had removed before the feed was resumed. Of the items
	// that were put to them last, Lost counts those that the feed's job knew of. At most [limits.MaxGone].
	Gone []string `json:"gone,omitempty"`
}

// Idle reports whether everything accepted is finished.
func (r FeedReport) Idle() bool { return r.Backlog == 0 }

// Full reports whether no further item would be accepted.
func (r FeedReport) Full() bool { return r.Backlog >= r.Capacity || r.BacklogBytes >= r.CapacityBytes }

// HookRun is the outcome of a hook.
type HookRun struct {
	Stage string `json:"stage"` // "init", "shutdown" or "cleanup"
	Hook  string `json:"hook"`  // as the spec names it
	Error *Error `json:"error,omitempty"`
	// Skipped is why it was not run; empty: it was run.
	Skipped string `json:"skipped,omitempty"`
}

// String describes the report in a line: "nightly: running, 1,200 items ok, 3 failed".
func (r Report) String() string {
	return fmt.Sprintf("%s: %s, %s ok, %s failed", r.Job, r.State, text.Count(r.OK, "item"), text.Thousands(r.Failed))
}

// Counted is how far a leg of a job, or a job, had come at a time.
type Counted struct {
	OK      int64     `json:"ok"`
	Failed  int64     `json:"failed,omitempty"`
	Dropped int64     `json:"dropped,omitempty"`
	Batches int64     `json:"batches,omitempty"`
	Bytes   int64     `json:"bytes,omitempty"` // of input
	Spent   Usage     `json:"spent,omitzero"`  // that of lost executions included
	At      time.Time `json:"at"`

	// Of a job only:
	Planned    int64 `json:"planned,omitempty"`     // items found
	PlanDone   bool  `json:"plan_done,omitempty"`   // all items have been found
	TotalBytes int64 `json:"total_bytes,omitempty"` // of input; 0: not known
}

// Done returns the number of items with an outcome.
func (c Counted) Done() int64 { return c.OK + c.Failed }
