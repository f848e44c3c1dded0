package starter_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// records gives n lines of JSON, each different from the others.
func records(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"id":%d,"name":"Sir Nr-%x of <Abc>","ok":true}`+"\n", i, i*7919)
	}
	return b.String()
}

// numbers gives the lines 0 to n-1, padded to the width of a fixed record (lineOf bytes with the
// newline), so that sizes count lines.
func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%0*d\n", lineOf-1, i)
	}
	return b.String()
}

const lineOf = 8

// upper is what the real tr makes of a text.
func upper(t *testing.T, text string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "tr", "a-z", "A-Z")
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.Output()
	require.NoError(t, err)
	return string(out)
}

// requireSame compares texts that are too long to be printed.
func requireSame(t *testing.T, want, got string) {
	t.Helper()
	if want == got {
		return
	}
	at := 0
	for at < len(want) && at < len(got) && want[at] == got[at] {
		at++
	}
	from := max(0, at-40)
	require.FailNow(t, "not the same", "%d and %d bytes, differing at byte %d:\nwant …%q…\ngot  …%q…",
		len(want), len(got), at, want[from:min(len(want), at+40)], got[from:min(len(got), at+40)])
}

// failures reads a file of error records.
func (b *box) failures(name string) []job.Failure {
	b.t.Helper()
	var failures []job.Failure
	dec := json.NewDecoder(strings.NewReader(b.read(name)))
	for dec.More() {
		var f job.Failure
		require.NoError(b.t, dec.Decode(&f))
		failures = append(failures, f)
	}
	return failures
}

// report reads a report.
func (b *box) report(name string) job.Report {
	b.t.Helper()
	var r job.Report
	require.NoError(b.t, json.Unmarshal([]byte(b.read(name)), &r))
	return r
}

// sum is the checksum of a text as reports give it.
func sum(text string) string {
	return fmt.Sprintf("crc32c:%08x", crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli)))
}

// lines counts the lines of a file; 0 if it does not exist.
func (b *box) lines(name string) int {
	data, err := os.ReadFile(b.path(name))
	if err != nil {
		return 0
	}
	return bytes.Count(data, []byte("\n"))
}

// seed is of a test's random choices; it is printed, and can be given as STINT_TEST_SEED.
func seed(t *testing.T) *rand.Rand {
	t.Helper()
	s := uint64(time.Now().UnixNano())
	if given, err := strconv.ParseUint(os.Getenv("STINT_TEST_SEED"), 10, 64); err == nil {
		s = given
	}
	t.Logf("STINT_TEST_SEED=%d", s)
	return rand.New(rand.NewPCG(s, s))
}

// randomBytes gives bytes among which line ends are frequent.
func randomBytes(t *testing.T, n int) string {
	t.Helper()
	random := seed(t)
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(random.IntN(256))
		if random.IntN(20) == 0 {
			b[i] = '\n'
		}
	}
	return string(b)
}

// isolationCalls is the most extra calls that one bad item among n may cost: 2·log2(n) + attempts.
func isolationCalls(n, attempts int) int {
	return 2*int(math.Ceil(math.Log2(float64(n)))) + attempts
}

func itoa(n int) string { return strconv.Itoa(n) }
