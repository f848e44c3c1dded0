package wire

import (
	"cmp"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/job"
)

// LegState is what a dispatcher begins with, at the leg's start or after continue-as-new.
type LegState struct {
	// Number is the leg's, from 1; 0 is the leg that runs inside the job.
	Number int `json:"number"`
	// Tasks are batches that an earlier run of the leg, or the leg inside the job, has left.
	Tasks  []Task    `json:"tasks,omitempty"`
	Window int       `json:"window"`         // places in the window to begin with
	Last   bool      `json:"last,omitempty"` // no leg comes after it
	Limits LegLimits `json:"limits,omitzero"`
	// Grain is that of the life of the job (see [samples.Packed.Grain]).
	Grain int `json:"grain,omitempty"`
	// SlowDowns is how many requests to slow down the job has heard of from this leg.
	SlowDowns int `json:"slow_downs,omitempty"`
	// Known is how many calls the workers that the job knows of make at once, Reports how often it has heard of others
	// from this leg.
	Known   int64 `json:"known,omitempty"`
	Reports int   `json:"reports,omitempty"`
	// SpeedAwaited: the job waits for what the first batches show of the handler's speed.
	SpeedAwaited bool `json:"speed_awaited,omitempty"`
}

// LegOutcomes are the results of a leg's batches. Stages of a pipeline are without what waits and runs.
type LegOutcomes struct {
	job.Outcomes
	// Error is what has ended the leg early.
	Error  *job.Error   `json:"error,omitempty"`
	Speed  Speed        `json:"speed"`            // of the handler
	Pool   []PoolWorker `json:"pool,omitempty"`   // what is known of these workers
	Outage *job.Outage  `json:"outage,omitempty"` // that batches wait out
}

// ReportThresholds says when a leg reports to the job how many of its items have failed.
type ReportThresholds struct {
	Step int64 `json:"step,omitempty"` // after so many further failures; 0: never
	// Hopeless is how many further outcomes decide that nothing works, as long as not one item of the job
	// has succeeded; 0: one has.
	Hopeless int64 `json:"hopeless,omitempty"`
	// Alone is how many further items that fail alone in their calls decide the same; 0: none do.
	Alone int64 `json:"alone,omitempty"`
}

// Counts are what a leg reports of its items: the argument of SignalCounts.
type Counts struct {
	Leg    int   `json:"leg"`
	OK     int64 `json:"ok"`
	Failed int64 `json:"failed"`
	// Between are items that have come through a stage of a pipeline, and not yet through the next. Barren: there is a
	// stage that has failed items and passed none.
	Between int64 `json:"between,omitempty"`
	Barren  bool  `json:"barren,omitempty"`
	// Session is that of a feed whose items they are; 0: all items.
	Session int64 `json:"session,omitempty"`
	Alone   int64 `json:"alone,omitempty"` // of those that failed, in calls of themselves alone
	// Sofar is the leg's progress, for people.
	Sofar job.Counted `json:"sofar,omitzero"`
	// Short says that the leg has spent its part of the budget, and that the job should see whether another has one.
	Short bool `json:"short,omitempty"`
	// Answer says that the job has asked for them, Final that they do not change any more.
	Answer bool `json:"answer,omitempty"`
	Final  bool `json:"final,omitempty"`
}

// Passed returns the items that show that something works: also those between two stages of a pipeline, unless a stage,
// of whichever leg, has only failed items so far. That one may have those of the other legs still before it.
func (c Counts) Passed() int64 {
	if c.Barren {
		return c.OK
	}
	return c.OK + c.Between
}

// Add adds the outcomes of another leg.
func (c *Counts) Add(o Counts) {
	c.OK += o.OK
	c.Failed += o.Failed
	c.Alone += o.Alone
	c.Between += o.Between
	c.Barren = c.Barren || o.Barren
}

// PoolReport is what a leg reports of its pool: the argument of SignalPool.
type PoolReport struct {
	Workers []PoolWorker `json:"workers,omitempty"`
	// Since is from when on slots have waited for batches; zero: they have not.
	Since time.Time `json:"since,omitzero"`
	Speed Speed     `json:"speed,omitzero"` // of the handler; zero: not asked for
}

// FromLeg is a leg's signal to its job. A job that is resumed has the workflow ID of the one that has ended, and a leg
// of that one may not have heard of its end: so each signal says whose leg has sent it.
type FromLeg[T any] struct {
	Run   string    `json:"run,omitempty"` // of the job, as in its Ref; "": not a leg's, but a person's
	Leg   Execution `json:"leg,omitzero"`
	Value T         `json:"value,omitempty"`
}

// LegLimits are those of a leg: the argument of SignalLimits.
//
// A leg is sent new ones now and then, in signals. Temporal may deliver these in another order, so they are numbered.
type LegLimits struct {
	Number int      `json:"n,omitempty"`    // of those that the job has sent the leg; 0: those that it began with
	Rate   job.Rate `json:"rate,omitempty"` // of the settings; 0: none
	// Requests and Tokens are rates of the settings, too; 0: none.
	Requests job.Rate         `json:"requests,omitempty"`
	Tokens   job.Rate         `json:"tokens,omitempty"`
	Budget   *Budget          `json:"budget,omitempty"` // nil: there is none
	Slowed   Slowed           `json:"slowed,omitzero"`
	Legs     int              `json:"legs,omitempty"` // that share them
	Report   ReportThresholds `json:"report,omitzero"`
	// Stages are the windows of stages of a pipeline that have one, and the leg's share of them.
	Stages []StageBound `json:"stages,omitempty"`
	// Priority is that of its batches; 0: that of the spec.
	Priority int `json:"priority,omitempty"`
	// Paused has the leg dispatch nothing.
	Paused bool `json:"paused,omitempty"`
	// Ask has the leg report its counts at once.
	Ask bool `json:"ask,omitempty"`
}

// Budget is what a leg may still use of its job's.
type Budget struct {
	Cost   job.Money `json:"c,omitempty"` // from its beginning on, in all; 0: any amount
	Tokens int64     `json:"t,omitempty"` // the same; 0: any number
	// None says that the leg has nothing of it, and may ask.
	None bool `json:"no,omitempty"`
}

// SlowDownRequest is what a leg reports of a handler's request to slow down: the argument of SignalSlow.
type SlowDownRequest struct {
	Delay    time.Duration `json:"delay"`
	Began    time.Time     `json:"began,omitzero"` // the batch whose handler it is
	Observed job.Rate      `json:"observed"`       // of the leg
}

// OfAll estimates the rate of a job of so many legs from that of the one leg.
func (r SlowDownRequest) OfAll(legs int) job.Rate {
	return min(r.Observed, limits.MaxRate) * job.Rate(max(1, legs))
}

// PlacesBack is what a leg hands back: the argument of SignalPlaces.
type PlacesBack struct {
	Leg    int `json:"leg"`
	Places int `json:"places"`
}

// Task is a batch that waits, or one that a leg hands to its next run. A leg has at most [PageBatches] and what is in
// flight.
type Task struct {
	Batch
	Number    int64  `json:"b"`           // of the batch, from 1, for people
	Stage     string `json:"g,omitempty"` // of a pipeline, in which it runs
	Tries     int    `json:"t,omitempty"` // executions that have failed with an error, since the task last got on
	Rests     int    `json:"r,omitempty"` // executions that ended early
	Runs      int    `json:"x,omitempty"` // executions, the one in flight included
	Orphaned  int    `json:"d,omitempty"` // executions that ended with their process, since the last item with an outcome
	Portion   int64  `json:"p,omitempty"` // most items of an execution, because the handler could not do more; 0: all
	Suspicion `json:"q,omitzero"`
	Returns   int       `json:"v,omitempty"` // executions that have expired, and whose workers came back, since the last item with an outcome
	Outages   int       `json:"u,omitempty"` // executions in a row that have met an outage
	After     time.Time `json:"w,omitzero"`  // because of that, the next one is not before
	// Trials are what items of the batch have behind them: see [ProcessInput].
	Trials []byte `json:"tr,omitempty"`
}

// Suspicion is what is suspected of a batch's first items. Its zero value suspects nothing.
type Suspicion struct {
	Suspects int64 `json:"s,omitempty"` // how many of the first items hold a bad one; 0: no suspicion
	// Ahead is how many items the worker had done before those that it had in hand at its last
	// heartbeat; InHand is how many those were. Once Ahead are done, they are the suspects.
	Ahead  int64 `json:"a,omitempty"`
	InHand int64 `json:"h,omitempty"`
	// Hinted: the suspects come from a heartbeat. If they turn out to be good, the heartbeat was out of
	// date, and the other items are suspected.
	Hinted    bool `json:"hd,omitempty"`
	Single    int  `json:"si,omitempty"` // deaths of workers that had the first item alone
	Ended     int  `json:"e,omitempty"`  // ends of processes that had the first item alone
	Condemned bool `json:"c,omitempty"`  // the first item is recorded as failed
	Unwritten int  `json:"u,omitempty"`  // deaths of workers that were to record that
	Deaths    int  `json:"d,omitempty"`  // of workers, since the last item with an outcome
	// Kind and Cause describe the last death.
	Kind  string `json:"k,omitempty"`
	Cause string `json:"ca,omitempty"`
}

// Execution is a workflow's run.
type Execution struct {
	ID    string
	RunID string
}

// PoolWorker is what is known of a worker.
type PoolWorker struct {
	Name string `json:"w"`
	Capacity
	Last int64 `json:"t"` // when it was heard of, in Unix seconds
}

// PoolView is what a job knows of its pool.
type PoolView struct {
	Workers []PoolWorker `json:"workers,omitempty"` // by name, at most 64: those heard of last
	// Items is how many items a batch has, on average, of the page found last.
	Items int64 `json:"items,omitempty"`
	// Grown is the window that waiting slots have led to; 0: they have not waited.
	Grown int `json:"grown,omitempty"`
	// Changed is when the window in force was set, or has changed.
	Changed time.Time `json:"changed,omitzero"`
}

// Slowed is the limit that follows a handler's request to slow down.
type Slowed struct {
	Base job.Rate  `json:"base,omitempty"` // at From; 0: no limit
	From time.Time `json:"from,omitzero"`  // nothing starts before
	// Known says that the rate was a limit when it was lowered, so one that is too high is known. Otherwise it was only
	// what had been observed.
	Known bool `json:"known,omitempty"`
	// Halved is when the rate was last lowered.
	Halved time.Time `json:"halved,omitzero"`
	// First is when the first request came.
	First time.Time `json:"first,omitzero"`
}

// StageBound is the window of a stage.
type StageBound struct {
	Stage  string `json:"s"`
	Window int    `json:"w"` // of all legs; at least 1
	Share  int    `json:"n"` // of one leg, at most Window
}

// Speed is what batches have shown of the handler's speed. Large batches show it best, because every
// batch has its own cost: batches of less than about half the size of the largest do not count.
type Speed struct {
	Items   int64         `json:"items"`
	Busy    time.Duration `json:"busy"` // of one slot, for these items
	Largest int64         `json:"largest"`
}

// Add counts a batch of so many items that has kept a slot busy for so long.
func (s *Speed) Add(items int64, busy time.Duration) {
	if items >= 2*s.Largest {
		*s = Speed{Largest: items}
	}
	if 2*items < s.Largest {
		return
	}
	s.Largest = max(s.Largest, items)
	s.Items += items
	s.Busy += busy
}

// Rate returns how many items one slot handles in 1,000 seconds; 0 if nothing is known.
func (s Speed) Rate() int64 { return s.Items * 1_000_000 / max(1, s.Busy.Milliseconds()) }

// Count returns how many items one slot handles in a time; 0 if nothing is known.
func (s Speed) Count(d time.Duration) int64 {
	return s.Items * d.Microseconds() / max(1, s.Busy.Microseconds())
}

// Each returns how long one item takes; 0 if nothing is known.
func (s Speed) Each() time.Duration { return s.Busy / time.Duration(max(1, s.Items)) }

// How many batches a job gives to a leg.
const (
	// PageBatches is the most batches of a page. A leg with so many, each of which takes six events of
	// history, stays below the 4,096 at which Temporal suggests to continue as new.
	PageBatches = 600
	// FirstPage is the most batches of a job's first page, unless more of them occupy the slots of the worker
	// that plans it.
	FirstPage = 16
	// InsideBatches is the most batches of a first page for the job to run it in the leg inside it, and of a second
	// and last page: some 600 events each.
	InsideBatches = 100
)

// Capacity is what one worker of a pool runs at once. The zero value is one that is not known.
type Capacity struct {
	Slots       int `json:"s,omitempty"`
	Concurrency int `json:"c,omitempty"` // calls that a slot makes at once; 0: not known, taken for 1
	// Found is the number that the worker has found out, if it does: Concurrency is then what it is growing to.
	Found int `json:"f,omitempty"`
}

// Present returns how many calls a slot makes at once now; 0: not known.
func (c Capacity) Present() int { return cmp.Or(c.Found, c.Concurrency) }

// Batches returns how many batches of so many items (at least 1) keep all slots busy: one for each slot, or more if a
// batch has fewer items than a slot makes calls at once.
func (c Capacity) Batches(items int64) int64 {
	calls := int64(max(1, c.Concurrency))
	items = max(1, items)
	return int64(c.Slots) * ((calls + items - 1) / items)
}
