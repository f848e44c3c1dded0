package timers

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// table is a process table of the test's own. Processes obey signals as their obey says.
type table struct {
	mu        sync.Mutex
	processes map[int]*process
	sent      []sent
	open      int
	broken    error
	opened    func() // called by Open once it has the handle
}

type process struct {
	ProcessInfo
	obeys map[syscall.Signal]time.Duration // how long it takes to end; missing: it ignores the signal
}

type sent struct {
	pid    int
	group  bool
	signal syscall.Signal
}

type handle struct {
	table *table
	pid   int
	*process
}

func newTable() *table {
	return &table{processes: map[int]*process{os.Getpid(): {ProcessInfo: ProcessInfo{StartTime: 1, Group: os.Getpid()}}}}
}

var killable = map[syscall.Signal]time.Duration{syscall.SIGKILL: 0}

func (t *table) add(pid int, info ProcessInfo, obeys map[syscall.Signal]time.Duration) *process {
	p := &process{info, obeys}
	t.processes[pid] = p
	return p
}

func (t *table) Find(pid int) (ProcessInfo, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.broken != nil {
		return ProcessInfo{}, t.broken
	}
	if p := t.processes[pid]; p != nil {
		return p.ProcessInfo, nil
	}
	return ProcessInfo{}, os.ErrProcessDone
}

func (t *table) Open(pid int) (ProcessHandle, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.processes[pid]
	if p == nil {
		return nil, os.ErrProcessDone
	}
	t.open++
	if t.opened != nil {
		t.opened()
	}
	return &handle{t, pid, p}, nil
}

func (h *handle) Signal(signal syscall.Signal) error      { return h.send(sent{h.pid, false, signal}) }
func (h *handle) SignalGroup(signal syscall.Signal) error { return h.send(sent{h.pid, true, signal}) }

func (h *handle) send(s sent) error {
	h.table.mu.Lock()
	defer h.table.mu.Unlock()
	if h.table.processes[h.pid] != h.process && !s.group {
		return os.ErrProcessDone
	}
	h.table.sent = append(h.table.sent, s)
	if takes, ok := h.obeys[s.signal]; ok {
		time.AfterFunc(takes, func() {
			h.table.mu.Lock()
			defer h.table.mu.Unlock()
			if h.table.processes[h.pid] == h.process {
				delete(h.table.processes, h.pid)
			}
		})
	}
	return nil
}

func (h *handle) Close() error { h.table.open--; return nil }

const pid = 1 << 30 // above any real one

func newReaper(t *testing.T, table *table, o ProcessOptions) *ProcessReaper {
	t.Helper()
	o.Table = table
	r, err := NewProcessReaper(pid, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.Zero(t, table.open, "handles are closed") })
	return r
}

// T9: a pid that is another process's by now is never signalled, and counts as reaped; so does one
// that is nobody's.
func TestProcessReaper_NeverTheWrongProcess(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		table := newTable()
		table.add(pid, ProcessInfo{StartTime: 10, Group: pid}, killable)
		r := newReaper(t, table, ProcessOptions{})
		delete(table.processes, pid)
		require.NoError(t, r.Reap(t.Context(), Expiry{}))
		other := table.add(pid, ProcessInfo{StartTime: 11, Group: pid}, killable)
		require.NoError(t, r.Reap(t.Context(), Expiry{}))
		require.Empty(t, table.sent)
		require.Same(t, other, table.processes[pid])
	})
}

// T9: nor is one that takes the pid while the reaping is under way: signals go to what was opened.
func TestProcessReaper_PidTakenMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		table := newTable()
		table.add(pid, ProcessInfo{StartTime: 10, Group: 5}, map[syscall.Signal]time.Duration{syscall.SIGTERM: time.Second})
		r := newReaper(t, table, ProcessOptions{})
		table.opened = func() { table.processes[pid] = &process{ProcessInfo{StartTime: 11, Group: 5}, killable} }
		require.NoError(t, r.Reap(t.Context(), Expiry{}))
		require.Empty(t, table.sent)

		table.opened = nil
		table.add(pid, ProcessInfo{StartTime: 10, Group: 5}, nil)
		time.AfterFunc(time.Second, func() {
			table.mu.Lock()
			defer table.mu.Unlock()
			table.add(pid, ProcessInfo{StartTime: 12, Group: 5}, killable)
		})
		require.NoError(t, r.Reap(t.Context(), Expiry{Signal: syscall.SIGTERM}))
		require.Equal(t, []sent{{pid, false, syscall.SIGTERM}}, table.sent)
		require.Contains(t, table.processes, pid)
	})
}

// T9: the group is killed and not only the pid, if the process leads one that this process is not
// in.
func TestProcessReaper_Group(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, test := range []struct {
			group, own int
			wantGroup  bool
		}{
			{pid, 77, true},
			{5, 77, false},
			{pid, pid, false}, // T11: it would be the watchdog's own end
		} {
			table := newTable()
			table.processes[os.Getpid()].Group = test.own
			table.add(pid, ProcessInfo{StartTime: 10, Group: test.group}, killable)
			r := newReaper(t, table, ProcessOptions{})
			require.NoError(t, r.Reap(t.Context(), Expiry{}))
			require.Equal(t, []sent{{pid, test.wantGroup, syscall.SIGKILL}}, table.sent)
			require.NotContains(t, table.processes, pid)
		}
	})
}

// T10: the timer's signal is sent, by default KILL, which also follows if patience runs out.
func TestProcessReaper_SignalAndPatience(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const term, kill = syscall.SIGTERM, syscall.SIGKILL
		for name, test := range map[string]struct {
			signal syscall.Signal
			obeys  map[syscall.Signal]time.Duration
			group  int
			want   []syscall.Signal
			takes  time.Duration
		}{
			"default":                    {0, killable, 5, []syscall.Signal{kill}, 0},
			"KILL":                       {kill, killable, pid, []syscall.Signal{kill}, 0},
			"TERM":                       {term, map[syscall.Signal]time.Duration{term: 2 * time.Second}, 5, []syscall.Signal{term}, 2 * time.Second},
			"TERM to a group":            {term, map[syscall.Signal]time.Duration{term: 2 * time.Second}, pid, []syscall.Signal{term, kill}, 2 * time.Second},
			"TERM, which it ignores":     {term, killable, 5, []syscall.Signal{term, kill}, 3 * time.Second},
			"TERM, which a group does":   {term, killable, pid, []syscall.Signal{term, kill}, 3 * time.Second},
			"TERM, for which it is slow": {term, map[syscall.Signal]time.Duration{term: 4 * time.Second, kill: 0}, 5, []syscall.Signal{term, kill}, 3 * time.Second},
		} {
			table := newTable()
			table.add(pid, ProcessInfo{StartTime: 10, Group: test.group}, test.obeys)
			r := newReaper(t, table, ProcessOptions{Patience: 3 * time.Second})
			began := time.Now()
			require.NoError(t, r.Reap(t.Context(), Expiry{Signal: test.signal}), name)
			var want []sent
			for _, s := range test.want {
				want = append(want, sent{pid, test.group == pid, s})
			}
			require.Equal(t, want, table.sent, name)
			require.InDelta(t, test.takes, time.Since(began), float64(2*endInterval), name)
		}
	})
}

// A process that the kernel cannot end (T7: it is retried), or whose reaping is called off
// (T11), is an error; KILL does not follow then.
func TestProcessReaper_Unfinished(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		table := newTable()
		p := table.add(pid, ProcessInfo{StartTime: 10, Group: pid}, nil)
		r := newReaper(t, table, ProcessOptions{})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := r.Reap(ctx, Expiry{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "has not ended since it was killed")
		require.ErrorIs(t, r.Reap(ctx, Expiry{}), context.DeadlineExceeded)
		require.Len(t, table.sent, 1, "nothing is sent once it is over")

		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, r.Reap(ctx, Expiry{Signal: syscall.SIGTERM}), context.DeadlineExceeded)
		require.Equal(t, sent{pid, true, syscall.SIGTERM}, table.sent[1])
		require.Len(t, table.sent, 2)

		table.broken = errors.New("no table")
		require.ErrorIs(t, r.Reap(t.Context(), Expiry{}), table.broken)
		table.broken = nil
		p.Zombie = true
		require.NoError(t, r.Reap(t.Context(), Expiry{}), "it has ended, though nobody has waited for it")
		require.Equal(t, sent{pid, true, syscall.SIGKILL}, table.sent[2], "the rest of its group has not")
	})
}

// With a watchdog: the signal reaches the process, and patience is over before the reaping's limit
// is.
func TestProcessReaper_UnderWatchdog(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		table := newTable()
		table.add(pid, ProcessInfo{StartTime: 10, Group: pid}, killable)
		w := start(t, Options{})
		c := w.Client("w", newReaper(t, table, ProcessOptions{Patience: maxPatience}))
		require.NoError(t, c.Acquire("s", time.Second, WithSignal(syscall.SIGTERM)))
		time.Sleep(10 * time.Second)
		require.Equal(t, []EventKind{EventStarted, EventExpired, EventReaped}, w.kinds())
		require.Equal(t, []sent{{pid, true, syscall.SIGTERM}, {pid, true, syscall.SIGKILL}}, table.sent)
	})
}

func TestNewProcessReaper_Refuses(t *testing.T) {
	t.Parallel()
	table := newTable()
	for _, wrong := range []int{-5, -1, 0, 1} {
		_, err := NewProcessReaper(wrong, ProcessOptions{Table: table})
		require.ErrorContains(t, err, "use a pid above 1")
	}
	_, err := NewProcessReaper(os.Getpid(), ProcessOptions{Table: table})
	require.ErrorContains(t, err, "it is this one", "T11: the watchdog never ends its own process")
	_, err = NewProcessReaper(pid, ProcessOptions{Table: table})
	require.ErrorIs(t, err, os.ErrProcessDone)
	table.add(pid, ProcessInfo{Zombie: true}, nil)
	_, err = NewProcessReaper(pid, ProcessOptions{Table: table})
	require.ErrorIs(t, err, os.ErrProcessDone)
	for _, patience := range []time.Duration{-1, 1, 9 * time.Second} {
		_, err = NewProcessReaper(pid, ProcessOptions{Table: table, Patience: patience})
		require.ErrorContains(t, err, "use 10ms to 8s")
	}
	if systemTable == nil {
		_, err = NewProcessReaper(pid, ProcessOptions{})
		require.ErrorIs(t, err, errors.ErrUnsupported)
	}
}
