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
	time.Sleep(50 * time.Millisecond) // for what it is in company with
	if fields[2] == "bad" {
		jot(log, "die")
		leave("3")
	}
	time.Sleep(100 * time.Millisecond) // in hand while the bad one dies
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

func jotted(file, line string) (n int) {
	data, err := os.ReadFile(file)
	must(err)
	for l := range strings.Lines(string(data)) {
		if l == line+"\n" {
			n++
		}
	}
	return n
}

// K8, B9: an item that ends its process costs itself alone, although many calls are in hand. The others are made again in
// halves (TestHall_Rounds has how often), and each death is counted once (K6).
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

			log := filepath.Join(f.dir, "log")
			calls, deaths := jotted(log, "begin"), jotted(log, "die")
			require.LessOrEqual(t, deaths, bits.Len(uint(n-1))+f.limits.Attempts)
			require.LessOrEqual(t, calls, 3*n+f.limits.Attempts, "each round has half of the items of the one before")
			require.EqualValues(t, deaths, o.totals.Crashes)
			f.replaced(deaths)
			require.Empty(t, f.happened(slotOut))
			t.Logf("%d deaths, %d calls", deaths, calls)
		})
	}
}
