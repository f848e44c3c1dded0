package jobtest

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stretchr/testify/require"
)

// RequireType fails unless err is an error of the type that is not retried: an application error, or one that becomes
// one.
func RequireType(t testing.TB, err error, kind string) {
	t.Helper()
	var judged interface {
		error
		Type() string
		NonRetryable() bool
	}
	require.ErrorAs(t, err, &judged)
	require.Equal(t, kind, judged.Type(), "%v", err)
	require.True(t, judged.NonRetryable(), "%v", err)
}

// Seeded returns a source of randomness whose seed the test's log names.
func Seeded(t testing.TB, seed uint64) *rand.Rand {
	t.Helper()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, seed))
}

// Lines returns n different lines.
func Lines(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`{"n":`)
		b.WriteString(text.Thousands(int64(i)))
		b.WriteString("}\n")
	}
	return strings.ReplaceAll(b.String(), ",", "")
}

// fuse is a context that is cancelled with the n-th look at it: a failure at the n-th step.
type fuse struct {
	context.Context
	cancel context.CancelFunc

	mu   sync.Mutex
	left int
}

func NewFuse(n int) *fuse {
	ctx, cancel := context.WithCancel(context.Background())
	return &fuse{Context: ctx, cancel: cancel, left: n}
}

func (f *fuse) Err() error {
	f.mu.Lock()
	if f.left--; f.left < 0 {
		f.cancel()
	}
	f.mu.Unlock()
	return f.Context.Err()
}

func (f *fuse) Burnt() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.left < 0
}

// Shuffled returns the elements in a random order.
func Shuffled[T any](random *rand.Rand, s []T) []T {
	s = slices.Clone(s)
	random.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
	return s
}

// Groups cuts entries into a few manifests.
func Groups[T any](random *rand.Rand, entries []T) [][]T {
	var all [][]T
	for len(entries) > 0 {
		n := 1 + random.IntN(len(entries))
		all = append(all, entries[:n])
		entries = entries[n:]
	}
	return all
}
