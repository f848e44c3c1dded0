package coordinate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

// slowLeg is a leg that hears of grants later. It says itself how many places it has.
type slowLeg struct {
	Handle
	places int
	grants []int    // under way
	failed []func() // what is to be called for each if the leg ends before
}

func (l *slowLeg) Grant(places int, returned func()) {
	l.grants, l.failed = append(l.grants, places), append(l.failed, returned)
}

// Hear delivers the first grant that is under way.
func (l *slowLeg) Hear() {
	if len(l.grants) > 0 {
		l.places += l.grants[0]
		l.grants, l.failed = l.grants[1:], l.failed[1:]
	}
}

// Whatever grants and places that come back are under way while the window changes and legs end, no place is lost and
// none is there twice; and once all has arrived, no leg owes any.
func TestShare_LosesNoPlace(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 3))
		c := &Coordinator{}
		window, legs, backs := 0, map[int]*slowLeg{}, []wire.PlacesBack(nil)
		pick := func() *OpenLeg { return c.Legs[random.IntN(len(c.Legs))] }
		require.NotPanics(t, func() {
			for step := range 200 {
				switch n := random.IntN(7); {
				case n == 0: // the window changes
					next := 1 + random.IntN(40)
					c.Places += next - window
					window = next
					c.Share()
				case n == 1 && len(c.Legs) < OpenLegs && c.Places > 0:
					l := &slowLeg{}
					l.places = min(c.Places, 10)
					c.Places -= l.places
					legs[step] = l
					c.Legs = append(c.Legs, &OpenLeg{Number: step, Batches: 10, Places: l.places, Handle: l})
				case len(c.Legs) == 0:
				case n == 2: // a leg has no use for some of its places
					o := pick()
					if l := legs[o.Number]; l.places > 0 {
						b := wire.PlacesBack{Leg: o.Number, Places: 1 + random.IntN(l.places)}
						l.places -= b.Places
						backs = append(backs, b)
					}
				case n == 3: // a leg ends, with what it has handed back delivered
					o := pick()
					if l := legs[o.Number]; !slices.ContainsFunc(backs, func(b wire.PlacesBack) bool { return b.Leg == o.Number }) {
						c.Legs = slices.DeleteFunc(c.Legs, func(other *OpenLeg) bool { return other == o })
						c.Places += l.places
						c.Share()
						for _, failed := range l.failed {
							failed()
						}
						delete(legs, o.Number)
					}
				case n == 4 && len(backs) > 0:
					b := backs[0]
					backs = backs[1:]
					c.TakeBack(b)
				default:
					legs[pick().Number].Hear()
				}
				sum := c.Places
				for _, b := range backs {
					sum += b.Places
				}
				for _, l := range legs {
					sum += l.places
					for _, n := range l.grants {
						sum += n
					}
				}
				require.Equal(t, window, sum, "seed %d, step %d", seed, step)
			}
		})
		for _, b := range backs {
			c.TakeBack(b)
		}
		for number, l := range legs {
			for len(l.grants) > 0 {
				l.Hear()
			}
			require.GreaterOrEqual(t, l.places, 0, fmt.Sprintf("seed %d, leg %d", seed, number))
		}
		require.GreaterOrEqual(t, c.Places, 0, "seed %d", seed)
	}
}
