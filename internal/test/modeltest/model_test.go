// Package modeltest runs Plan, Process, Commit, Finish and the redrive pair on a simulated store and a
// simulated server, in many schedules of faults, and compares what they publish with a model. In half of its tests the
// server runs the workflows, too: see [server].
package modeltest

import (
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	inputs.SpoolChunk = 32  // so that inputs of a few lines have several chunks
	debug.SetGCPercent(800) // a schedule leaves much that nobody needs
	m.Run()
}

// TestModel runs 2,500 schedules (75 with -short), the same ones each time. With STINT_MODEL it runs so many
// others, from the seed STINT_TEST_SEED or from a new seed. The other tests of models then run their share of that.
func TestModel(t *testing.T) {
	t.Parallel()
	runAll(t, 1, 2_500, 75, 1, simulate)
}

// runAll runs so many schedules, or fewer with -short: see [TestModel]. The shares of those that run the workflows add
// up to one.
func runAll(t *testing.T, share float64, schedules, short int, seed uint64, simulate func(*choices) (log []string, err error)) {
	if n, err := strconv.Atoi(os.Getenv("STINT_MODEL")); err == nil {
		schedules, seed = max(1, int(float64(n)*share)), uint64(time.Now().UnixNano())
	} else if testing.Short() {
		schedules = short
	}
	if n, err := strconv.ParseUint(os.Getenv("STINT_TEST_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("seed %d, %d schedules: repeat with STINT_TEST_SEED=%d", seed, schedules, seed)
	var group sync.WaitGroup
	const lanes = 2
	for lane := range lanes {
		group.Go(func() {
			for i := lane; i < schedules && !t.Failed(); i += lanes {
				c := &choices{random: rand.New(rand.NewPCG(seed, uint64(i)))}
				if _, err := simulate(c); err != nil {
					report(t, i, c.made, err, simulate)
				}
			}
		})
	}
	group.Wait()
}

// maxTries is how many schedules are tried to shrink one, maxShrinking for how long.
const (
	maxTries     = 1000
	maxShrinking = 20 * time.Second
)

// report shrinks a failing schedule and says what happens in it.
func report(t *testing.T, i int, made []int, first error, simulate func(*choices) (log []string, err error)) {
	tries, began := 0, time.Now()
	made = shrink(made, func(made []int) bool {
		if tries++; tries > maxTries || time.Since(began) > maxShrinking {
			return false
		}
		_, err := simulate(&choices{made: made})
		return err != nil
	})
	log, err := simulate(&choices{made: slices.Clone(made)})
	t.Errorf("schedule %d fails: %v\nrepeated: %v\nshrunk to %v:\n  %s", i, first, err, made, strings.Join(log, "\n  "))
}

// shrink makes a list shorter, and its numbers zero, as long as it fails.
func shrink(made []int, failing func([]int) bool) []int {
	try := func(next []int) bool {
		if failing(slices.Clone(next)) {
			made = next
			return true
		}
		return false
	}
	for progress := true; progress; {
		progress = false
		for size := len(made) / 2; size > 0; size /= 2 {
			for at := 0; at+size <= len(made); {
				if !try(slices.Delete(slices.Clone(made), at, at+size)) {
					at += size
					continue
				}
				progress = true
			}
		}
		for at := range made {
			for made[at] > 0 {
				lower := slices.Clone(made)
				lower[at] = 0
				if !try(lower) {
					break
				}
				progress = true
			}
		}
	}
	return made
}

func TestShrink(t *testing.T) {
	t.Parallel()
	made := []int{5, 0, 3, 9, 1, 7, 0, 2}
	got := shrink(made, func(m []int) bool {
		at := slices.Index(m, 9)
		return at >= 0 && slices.Contains(m[at:], 7)
	})
	require.Equal(t, []int{9, 7}, got)
}
