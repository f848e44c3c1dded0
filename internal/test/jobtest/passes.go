package jobtest

import (
	"flag"
	"runtime"
	"strconv"
	"testing"
)

// Unraced skips a test under the race detector: without it, the test runs in any case, and what runs beside each other
// in it does so in other tests, too.
func Unraced(t testing.TB) {
	t.Helper()
	if raced {
		t.Skip("runs without the race detector")
	}
}

// Rounds returns how many rounds of random input a test makes: n, and a quarter of them under the race detector, for
// which one round is like another.
func Rounds(n uint64) uint64 {
	if raced {
		return max(1, n/4)
	}
	return n
}

// Overlap has twice as many tests as usual run beside each other, unless a flag says how many: the tests of a package
// that wait for processes and servers most of the time. A TestMain calls it before it runs the tests.
func Overlap() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
}
