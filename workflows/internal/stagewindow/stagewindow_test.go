package stagewindow

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

// simulated is a leg of a pipeline, as the dispatcher and the flow of a leg have it: returned batches first, then those
// of later steps, then new ones.
type simulated struct {
	t        *testing.T
	random   *rand.Rand
	names    []string
	bounds   []wire.StageBound
	window   int
	gate     *Gate
	page     int
	between  []int
	returned []int // steps
	delayed  []int
	flying   []int
	done     int

	mostFlying  map[string]int
	mostBetween []int
}

func newSimulated(t *testing.T, random *rand.Rand) *simulated {
	s := &simulated{t: t, random: random, window: 1 + random.IntN(12), page: random.IntN(150), mostFlying: map[string]int{}}
	for i := range 1 + random.IntN(6) {
		name := fmt.Sprint("stage ", i)
		if i > 0 && random.IntN(4) == 0 {
			name = s.names[i-1] // steps of a switch whose pool decides
		} else if random.IntN(2) == 0 {
			b := wire.StageBound{Stage: name, Window: 1 + random.IntN(8)}
			b.Share = b.Window
			s.bounds = append(s.bounds, b)
		}
		s.names = append(s.names, name)
	}
	s.between, s.mostBetween = make([]int, len(s.names)), make([]int, len(s.names))
	s.gate = New(s.names, func(step int) int { return s.between[step] })
	return s
}

func (s *simulated) look() {
	s.gate.Begin(s.window, s.bounds)
	for _, step := range s.flying {
		s.gate.Flies(step)
	}
	for _, step := range s.returned {
		s.gate.Returned(step)
	}
	for _, step := range s.delayed {
		s.gate.Returned(step)
	}
}

// start starts what may be started.
func (s *simulated) start() {
	for len(s.flying) < s.window {
		s.look()
		step, ok := s.next()
		if !ok {
			return
		}
		s.flying = append(s.flying, step)
		n := map[string]int{}
		for _, step := range s.flying {
			n[s.names[step]]++
			s.mostFlying[s.names[step]] = max(s.mostFlying[s.names[step]], n[s.names[step]])
		}
	}
}

func (s *simulated) next() (int, bool) {
	for i, step := range s.returned {
		if s.gate.Free(step) {
			s.returned = append(s.returned[:i:i], s.returned[i+1:]...)
			return step, true
		}
	}
	for step := len(s.between) - 1; step > 0; step-- {
		if s.between[step] > 0 && s.gate.Free(step) {
			s.between[step]--
			return step, true
		}
	}
	if s.page > 0 && s.gate.Free(0) {
		s.page--
		return 0, true
	}
	return 0, false
}

// happen lets one thing end.
func (s *simulated) happen() {
	if len(s.delayed) > 0 && (len(s.flying) == 0 || s.random.IntN(3) == 0) {
		s.returned = append([]int{s.delayed[0]}, s.returned...)
		s.delayed = s.delayed[1:]
		return
	}
	i := s.random.IntN(len(s.flying))
	step := s.flying[i]
	s.flying = append(s.flying[:i:i], s.flying[i+1:]...)
	switch s.random.IntN(6) {
	case 0: // it has failed
		s.delayed = append(s.delayed, step)
		return
	case 1: // it returns a rest beside its part
		s.returned = append([]int{step}, s.returned...)
		s.done-- // one more batch
	}
	to := step + 1
	if s.random.IntN(4) == 0 {
		to++ // no item is of the case
	}
	if to >= len(s.names) {
		s.done++
		return
	}
	s.between[to]++
	for step, n := range s.between {
		for _, back := range append(slices.Clone(s.returned), s.delayed...) {
			if back == step {
				n++
			}
		}
		s.mostBetween[step] = max(s.mostBetween[step], n)
	}
}

// P3: whatever the windows, and whatever fails or returns rests, everything is done, no stage has more in flight than
// its window, and no more than two windows of parts wait between two steps.
func TestGate_P3_AnyWindows(t *testing.T) {
	t.Parallel()
	random := jobtest.Seeded(t, 90)
	for round := range 1000 {
		s := newSimulated(t, random)
		batches := s.page
		for n := 0; ; n++ {
			s.start()
			if len(s.flying) == 0 && len(s.delayed) == 0 {
				break
			}
			s.happen()
			require.Less(t, n, 100_000)
		}
		require.Zero(t, s.page, "round %d: a deadlock", round)
		require.Equal(t, batches, s.done, "round %d: a deadlock", round)
		require.Empty(t, s.returned)
		for _, b := range s.bounds {
			require.LessOrEqual(t, s.mostFlying[b.Stage], b.Window, "round %d", round)
		}
		for step := 1; step < len(s.names); step++ {
			enough := s.window
			if b := s.gate.bound(step); b != nil {
				enough = min(enough, b.Window)
			}
			require.LessOrEqual(t, s.mostBetween[step], enough-1+s.window, "round %d, step %d", round, step)
		}
	}
}

// P3: the legs of a job have their shares of a stage's window from what older ones cannot use, and never more than the
// window together.
func TestShare(t *testing.T) {
	t.Parallel()
	windows := []wire.StageBound{{Stage: "a", Window: 8}, {Stage: "b", Window: 2}}
	all := []wire.StageBound{{Stage: "a", Window: 8, Share: 8}, {Stage: "b", Window: 2, Share: 2}}
	require.Equal(t, all, Share(windows, nil))
	require.Equal(t, []wire.StageBound{{Stage: "a", Window: 8, Share: 0}, {Stage: "b", Window: 2, Share: 0}}, Share(windows, []Held{{Places: 100, Bounds: all}}))
	draining := Held{Places: 3, Bounds: all}
	require.Equal(t, []wire.StageBound{{Stage: "a", Window: 8, Share: 5}, {Stage: "b", Window: 2, Share: 0}}, Share(windows, []Held{draining}))
	require.Equal(t, []wire.StageBound{{Stage: "a", Window: 8, Share: 1}, {Stage: "b", Window: 2, Share: 1}}, Share(windows, []Held{{Places: 1, Bounds: all}, {Places: 6, Bounds: []wire.StageBound{{Stage: "a", Window: 8, Share: 6}, {Stage: "b", Window: 2, Share: 0}}}}))
	require.Equal(t, []wire.StageBound{{Stage: "a", Window: 8, Share: 0}, {Stage: "b", Window: 2, Share: 0}}, Share(windows, []Held{{Places: 20, Bounds: []wire.StageBound{{Stage: "a", Window: 9, Share: 9}, {Stage: "b", Window: 7, Share: 7}}}}), "the window was larger before")
	require.Equal(t, all, Share(windows, []Held{{Places: -2, Bounds: all}, {Places: 2}}))
}

// A gate that is open holds nothing back: what is left is for another one.
func TestGate_Open(t *testing.T) {
	t.Parallel()
	g := New([]string{"a", "b"}, func(int) int { return 100 })
	g.Begin(1, []wire.StageBound{{Stage: "a", Window: 1}})
	require.False(t, g.Free(0))
	g.Open()
	require.True(t, g.Free(0))
}
