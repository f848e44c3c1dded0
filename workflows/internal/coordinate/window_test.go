package coordinate

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

// slowLeg is a leg that hears of grants later. It says itself how many places it has.
type slowLeg struct {
	Handle
	open   *OpenLeg
	places int
	grants []int    // under way
	failed []func() // what is to be called for each if the leg ends before
	backs  []int    // that it has handed back, under way
	ended  bool     // it has reported its end, and may still keep results
}

func (l *slowLeg) Grant(places int, returned func()) {
	l.grants, l.failed = append(l.grants, places), append(l.failed, returned)
}

// hear delivers the first grant that is under way. It is of no use to a leg that only keeps results.
func (l *slowLeg) hear() {
	if len(l.grants) == 0 {
		return
	}
	if !l.ended {
		l.places += l.grants[0]
	}
	l.grants, l.failed = l.grants[1:], l.failed[1:]
}

// close ends the workflow: grants that are under way do not reach it.
func (l *slowLeg) close() {
	for _, failed := range l.failed {
		failed()
	}
	l.grants, l.failed = nil, nil
}

// takeBack delivers the first places that are under way.
func (l *slowLeg) takeBack(c *Coordinator) {
	if len(l.backs) > 0 {
		c.TakeBack(wire.PlacesBack{Leg: l.open.Number, Places: l.backs[0]})
		l.backs = l.backs[1:]
	}
}

// Whatever grants and places that come back are under way while the window changes and legs end, also if these keep
// results for a while, or others go on with what they have left: no place is lost, none is there twice, and once all
// has arrived, no leg owes any.
func TestShare_LosesNoPlace(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 3))
		c := &Coordinator{}
		window, legs := 0, []*slowLeg(nil)
		isOpen := func(l *slowLeg) bool { return slices.Contains(c.Legs, l.open) }
		open := func(number int) {
			l := &slowLeg{places: max(0, min(c.Places, 10))}
			l.open = &OpenLeg{Number: number, Batches: 10, Places: l.places, Handle: l}
			c.Places -= l.places
			c.Legs, legs = append(c.Legs, l.open), append(legs, l)
		}
		takeEnd := func(l *slowLeg, step int) { // the job's part of it: see LegEnded
			if at := slices.Index(c.Legs, l.open); step >= 0 && random.IntN(3) == 0 { // another one goes on with what it has left
				places := l.open.Places
				c.Replace(l.open, func() { open(step) })
				next := c.Legs[at]
				require.Equal(t, step, next.Number, "seed %d, step %d: it is as old", seed, step)
				require.GreaterOrEqual(t, next.Places, min(places, 10), "seed %d, step %d", seed, step)
			}
			c.Legs = slices.DeleteFunc(c.Legs, func(other *OpenLeg) bool { return other == l.open })
			c.regain(l.open)
			c.Share()
		}
		check := func(step int) {
			sum := c.Places
			for _, o := range c.Legs {
				sum += o.Places
			}
			require.Equal(t, window, sum, "seed %d, step %d", seed, step)
			for _, l := range legs {
				if l.open.gone {
					require.Zero(t, l.open.Places, "seed %d, step %d, leg %d", seed, step, l.open.Number)
				}
				if !l.ended {
					require.Equal(t, l.open.Places, l.places+total(l.grants)+total(l.backs), "seed %d, step %d, leg %d", seed, step, l.open.Number)
				}
			}
		}
		for step := range 200 {
			if n := random.IntN(9); n == 0 { // the window changes
				next := 1 + random.IntN(40)
				c.Places += next - window
				window = next
				c.Share()
			} else if n == 1 && len(c.Legs) < OpenLegs && c.Places > 0 {
				open(step)
			} else if len(legs) > 0 {
				l := legs[random.IntN(len(legs))]
				switch {
				case n == 2 && !l.ended && l.places > 0: // it has no use for some of its places
					back := 1 + random.IntN(l.places)
					l.places -= back
					l.backs = append(l.backs, back)
				case n == 3:
					l.ended = true
				case n == 4 && l.ended && isOpen(l):
					takeEnd(l, step)
				case n == 5 && l.ended:
					l.close()
				case n == 6:
					l.takeBack(c)
				default:
					l.hear()
				}
			}
			check(step)
		}
		for _, l := range legs { // all arrives
			for len(l.backs) > 0 {
				l.takeBack(c)
			}
			for len(l.grants) > 0 {
				l.hear()
			}
			require.True(t, l.ended || l.places >= 0, "seed %d, leg %d", seed, l.open.Number)
		}
		check(200)
		for _, l := range legs {
			if isOpen(l) {
				takeEnd(l, -1)
			}
		}
		require.Equal(t, window, c.Places, "seed %d", seed)
	}
}

func total(places []int) (sum int) {
	for _, n := range places {
		sum += n
	}
	return sum
}
