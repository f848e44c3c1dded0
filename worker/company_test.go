package worker

import (
	"context"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// accompanied notes in the item's directory when a call begins and ends. The bad item waits until as many others have
// begun as there are, and then its process ends.
func accompanied(_ context.Context, item string) (string, error) {
	fields := strings.Fields(item) // the directory, how many items there are, "good" or "bad"
	log := filepath.Join(fields[0], "log")
	jot(log, "begin")
	n, err := strconv.Atoi(fields[1])
	must(err)
	for jotted(log, "begin") < n {
		time.Sleep(5 * time.Millisecond)
	}
	for seen, since := 0, time.Now(); time.Since(since) < 250*time.Millisecond; time.Sleep(50 * time.Millisecond) {
		if n := jotted(log, "begin"); n != seen { // all that it is in company with have to begin, however slow the machine is
			seen, since = n, time.Now()
		}
	}
	if fields[2] == "bad" {
		jot(log, "die")
		leave("3")
	}
	time.Sleep(250 * time.Millisecond) // its work: it is in hand when the bad one dies
	jot(log, "end")
	return fields[2], nil
}

func init() { processHandlers["accompanied"] = Each(accompanied) }

func jot(file, line string) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(err)
	_, err = f.WriteString(line + "\n")
	must(err)
	must(f.Close())
}

func jottings(file string) []string {
	data, err := os.ReadFile(file)
	must(err)
	return strings.Fields(string(data))
}

func jotted(file, line string) (n int) {
	for _, l := range jottings(file) {
		if l == line {
			n++
		}
	}
	return n
}

// K8, B9: an item that ends its process costs itself alone, although many calls are in hand. The others are made again
// in halves, so there are at most 2·log2(n) + attempts more rounds of calls, and each death is counted once (K6).
func TestServe_OneBadAmongManyAtOnce(t *testing.T) {
	t.Parallel()
	for _, n := range []int{16, 200} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			random := seeded(t, uint64(n))
			f := setup(t)
			f.options.Slots, f.options.Concurrency, f.options.Restarts = 1, n, 3
			f.limits.Attempts, f.batch = 3, int64(n)
			items := make([]string, n)
			for i := range items {
				items[i] = fmt.Sprintf("%s %d good", f.dir, n)
			}
			bad := random.IntN(n)
			items[bad] = fmt.Sprintf("%s %d bad", f.dir, n)
			o := f.run(f.inProcesses("accompanied"), "in.txt", lines(items...))
			require.Equal(t, strings.Repeat("\"good\"\n", n-1), o.output)
			failure := o.only(t)
			require.EqualValues(t, bad, failure.Item)
			require.Equal(t, job.KindCrash, failure.Kind)
			require.Equal(t, f.limits.Attempts, failure.Attempts)

			log := bits.Len(uint(n - 1))
			rounds, calls, deaths, inHand := 0, 0, 0, 0
			for _, line := range jottings(filepath.Join(f.dir, "log")) {
				switch line {
				case "begin":
					if inHand == 0 {
						rounds++
					}
					calls++
					inHand++
				case "end":
					inHand--
				case "die":
					deaths++
					inHand = 0
				}
			}
			require.LessOrEqual(t, deaths, log+f.limits.Attempts)
			require.LessOrEqual(t, rounds-1, 2*log+f.limits.Attempts, "extra calls")
			require.LessOrEqual(t, calls, 3*n+f.limits.Attempts, "each round has half of the items of the one before")
			require.EqualValues(t, deaths, o.totals.Crashes)
			f.replaced(deaths)
			require.Empty(t, f.happened(slotOut))
			t.Logf("%d rounds, %d deaths, %d calls", rounds, deaths, calls)
		})
	}
}
