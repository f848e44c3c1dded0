package workflows

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

// At most two legs are open at once, and at most one page waits for a third.
func TestJob_OpenLegs(t *testing.T) {
	t.Parallel()
	w := setup(t, 5000)
	w.pageLimit = 50
	most := 0
	w.process = func(x *execution) {
		uneven(x)
		w.later(x.took/2, func() { most = max(most, len(w.query().OpenLegs)) })
	}
	report := w.mustRun()
	require.Equal(t, 11, report.Legs)
	require.LessOrEqual(t, most, openLegs)
}

// What each leg is given, and what happens to manifests that nobody names.
func TestJob_HeadsOfManifests(t *testing.T) {
	t.Parallel()
	w := setup(t, 5000)
	w.pageLimit = 50
	w.process = uneven
	report := w.mustRun()
	named := map[string]int{}
	for _, c := range w.commits {
		for _, p := range c.Previous {
			named[p]++
		}
	}
	for key := range w.manifests {
		if slices.Contains(report.Manifests, key) {
			require.Zero(t, named[key], "%s is a head", key)
		} else {
			require.Equal(t, 1, named[key], "%s is named once", key)
		}
	}
	require.LessOrEqual(t, len(report.Manifests), openLegs+1)
}

// slowLeg is a leg that hears of grants later. It says itself how many places it has.
type slowLeg struct {
	legHandle
	places int
	grants []int    // under way
	failed []func() // what is to be called for each if the leg ends before
}

func (l *slowLeg) grant(places int, returned func()) {
	l.grants, l.failed = append(l.grants, places), append(l.failed, returned)
}

// hear delivers the first grant that is under way.
func (l *slowLeg) hear() {
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
		c := &coordinator{}
		window, legs, backs := 0, map[int]*slowLeg{}, []wire.PlacesBack(nil)
		pick := func() *openLeg { return c.legs[random.IntN(len(c.legs))] }
		require.NotPanics(t, func() {
			for step := range 200 {
				switch n := random.IntN(7); {
				case n == 0: // the window changes
					next := 1 + random.IntN(40)
					c.places += next - window
					window = next
					c.share()
				case n == 1 && len(c.legs) < openLegs && c.places > 0:
					l := &slowLeg{}
					l.places = min(c.places, 10)
					c.places -= l.places
					legs[step] = l
					c.legs = append(c.legs, &openLeg{number: step, batches: 10, places: l.places, legHandle: l})
				case len(c.legs) == 0:
				case n == 2: // a leg has no use for some of its places
					o := pick()
					if l := legs[o.number]; l.places > 0 {
						b := wire.PlacesBack{Leg: o.number, Places: 1 + random.IntN(l.places)}
						l.places -= b.Places
						backs = append(backs, b)
					}
				case n == 3: // a leg ends, with what it has handed back delivered
					o := pick()
					if l := legs[o.number]; !slices.ContainsFunc(backs, func(b wire.PlacesBack) bool { return b.Leg == o.number }) {
						c.legs = slices.DeleteFunc(c.legs, func(other *openLeg) bool { return other == o })
						c.places += l.places
						c.share()
						for _, failed := range l.failed {
							failed()
						}
						delete(legs, o.number)
					}
				case n == 4 && len(backs) > 0:
					b := backs[0]
					backs = backs[1:]
					c.takeBack(b)
				default:
					legs[pick().number].hear()
				}
				sum := c.places
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
			c.takeBack(b)
		}
		for number, l := range legs {
			for len(l.grants) > 0 {
				l.hear()
			}
			require.GreaterOrEqual(t, l.places, 0, fmt.Sprintf("seed %d, leg %d", seed, number))
		}
		require.GreaterOrEqual(t, c.places, 0, "seed %d", seed)
	}
}
