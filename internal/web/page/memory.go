package page

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/run/pace"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

// memories are what is kept of runs of jobs from one look to the next. The zero value has none.
type memories struct {
	mu   sync.Mutex
	runs map[string]*memory
}

// maxMemories is how many runs are remembered, those looked at last.
const maxMemories = 1000

// memory is what is kept of a run.
type memory struct {
	mu      sync.Mutex
	used    time.Time // guarded by that of all memories
	pace    pace.Pace
	rates   []job.Sample // of looks at the job, if it keeps no samples
	spec    *job.Spec
	quietTo time.Time // until then a list does not ask it
	listed  ListedJob // its last answer in a list
	askedAt time.Time // the time of that; zero: it has not been asked
	since   time.Time // it has not answered; zero: it has

	reading       sync.Mutex // held while error records are read
	failures      Failures
	failuresAt    time.Time // until then they are not read again
	failuresTried string    // of what they were read last
	failuresOf    string    // of what all was read that is wanted
}

// maxNoted is how many looks are kept for plots.
const maxNoted = 200

// recallFor is how long an answer counts in a list: the jobs of a long one are asked by turns.
const recallFor = 2 * silentPause

// of returns what is kept of a run.
func (m *memories) of(run string) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.runs == nil {
		m.runs = map[string]*memory{}
	}
	known := m.runs[run]
	if known == nil {
		m.forget()
		known = &memory{}
		m.runs[run] = known
	}
	known.used = time.Now()
	return known
}

// forget makes room for another run.
func (m *memories) forget() {
	if len(m.runs) < maxMemories {
		return
	}
	oldest := slices.MinFunc(slices.Collect(maps.Keys(m.runs)), func(a, b string) int { return m.runs[a].used.Compare(m.runs[b].used) })
	delete(m.runs, oldest)
}

// oldest returns at most so many of the jobs of a list: those whose last answers are the oldest, without those that have
// not answered a moment ago.
func (m *memories) oldest(listed []*ListedJob, most int) []*ListedJob {
	now := time.Now()
	at := map[*ListedJob]time.Time{}
	for _, one := range listed {
		known := m.of(one.Run)
		known.mu.Lock()
		if !now.Before(known.quietTo) {
			at[one] = known.askedAt
		}
		known.mu.Unlock()
	}
	asked := slices.DeleteFunc(slices.Clone(listed), func(one *ListedJob) bool { _, ok := at[one]; return !ok })
	slices.SortStableFunc(asked, func(a, b *ListedJob) int { return at[a].Compare(at[b]) })
	return asked[:min(len(asked), most)]
}

// keep notes what a job of a list has answered.
func (m *memory) keep(one ListedJob, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.listed, m.askedAt = one, now
}

// recall fills in what a running job of a list has answered last, if that is newer than what the list has. That the job
// is paused is as the list says: its answer may be from before.
func (m *memory) recall(one *ListedJob, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.askedAt.IsZero() || now.Sub(m.askedAt) > recallFor {
		return
	}
	one.SilentSince = m.listed.SilentSince
	last := m.listed.Progress
	if last != nil && (one.Progress == nil || last.At.After(one.Progress.At)) {
		one.Progress, one.Numbers = last, m.listed.Numbers
	}
}

// silent notes that the run has not answered, and returns since when it does not.
func (m *memory) silent(asOf, now time.Time) *time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.quietTo = now.Add(silentPause)
	if m.since.IsZero() {
		m.since = now
		if !asOf.IsZero() {
			m.since = asOf
		}
	}
	since := m.since
	return &since
}

// note keeps a report of the run.
func (m *memory) note(r job.Report, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.since, m.quietTo = time.Time{}, time.Time{}
	m.pace.Note(r, now)
	m.rates = thinned(append(m.rates, sampleOf(r, now)))
}

// thinned keeps a list of samples short: every second one of them is left out, but the last.
func thinned(samples []job.Sample) []job.Sample {
	if len(samples) <= maxNoted {
		return samples
	}
	kept := samples[:0:0]
	for i, s := range samples {
		if i%2 == 0 || i == len(samples)-1 {
			kept = append(kept, s)
		}
	}
	return kept
}

// sampleOf is what a report says of its moment.
func sampleOf(r job.Report, now time.Time) job.Sample {
	return job.Sample{At: now, OK: r.OK, Failed: r.Failed, Reused: r.Reused}
}

// samples are those of looks.
func (m *memory) samples() []job.Sample {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.rates)
}

// numbers are what a report comes to with those before.
func (m *memory) numbers(r job.Report, now time.Time) (n Numbers) {
	m.mu.Lock()
	speed, ok := m.pace.Speed()
	m.mu.Unlock()
	if !ok || r.State.Final() {
		speed = r.Speed(now)
	}
	n.ItemsPerSecond = max(0, speed.Items)
	if percent, ok := r.Percent(); ok {
		n.Percent = &percent
	}
	if left, ok := r.TimeLeft(speed); ok && !r.State.Final() {
		seconds := left.Seconds()
		n.SecondsLeft = &seconds
	}
	return n
}

// specOf returns the job's spec; nil if it is not known; and how many requests that took. Others use the memory while it is read.
func (m *memory) specOf(ctx context.Context, client *jobs.Client, r job.Report) (spec *job.Spec, asks int) {
	m.mu.Lock()
	known := m.spec
	m.mu.Unlock()
	if known != nil {
		return known, 0
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	found, err := client.Spec(ctx, r.Job)
	if err != nil {
		return nil, 1
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spec = &found
	return m.spec, 1
}
