package worker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stretchr/testify/require"
)

// quick is a patience for tests; the slot is out after the limit.
func quick(stay, limit time.Duration) patience {
	return patience{stay: stay, limit: limit, missing: limit, first: time.Millisecond, most: 10 * time.Millisecond}
}

const shortageTest = time.Minute

// gone removes a program, and returns a function that puts it back.
func gone(t *testing.T, path string) (back func()) {
	t.Helper()
	require.NoError(t, os.Rename(path, path+".away"))
	return func() { require.NoError(t, os.Rename(path+".away", path)) }
}

// short waits until a slot has said that it cannot begin anything.
func (f *fixture) short() {
	f.t.Helper()
	require.Eventually(f.t, func() bool { return len(f.happened(slotShort)) > 0 }, shortageTest, time.Millisecond)
}

func TestD42_WhatCannotBeBegunIsNoItemsError(t *testing.T) {
	t.Parallel()
	upper := func(_ context.Context, s string) (string, error) { return strings.ToUpper(s), nil }
	for _, c := range []struct {
		name string
		of   func(path string) Handler
		want string
	}{
		{"a filter", func(path string) Handler { return Exec(path) }, "a\nb\nc\n"},
		{"a filter behind a function", func(path string) Handler { return Preprocess(upper, Exec(path)) }, "\"A\"\n\"B\"\n\"C\"\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.options.Slots, f.batch = 1, 1
			path := f.script("cat")
			f.serve(c.of(path))
			f.set.patience = quick(shortageTest, shortageTest)
			back := gone(t, path)
			go func() {
				f.short()
				back()
			}()
			o := f.flowOf("in.txt", "a\nb\nc\n")
			require.Empty(t, o.failures)
			require.Equal(t, c.want, o.output)
			require.Zero(t, o.totals.Retries)
			require.Len(t, f.happened(slotAble), 1)
			require.Contains(t, f.happened(slotShort)[0].Err.Error(), "no such file")
		})
	}
}

func TestD42_ItemsAreGivenBackWithTheReason(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Slots = 1
	path := f.script("cat")
	f.serve(Exec(path))
	f.set.patience = quick(0, shortageTest)
	back := gone(t, path)
	done, err := f.process("a\nb\n")
	require.NoError(t, err)
	require.EqualValues(t, 2, done.Rest.Count)
	require.Zero(t, done.Entry.Count)
	require.Contains(t, done.Unbegun, "starting "+path)
	require.Contains(t, f.metrics.health(time.Now()).Why[1:], "no process can be begun: "+done.Unbegun)
	require.Eventually(t, func() bool { return f.set.wanted() == 1 }, shortageTest, time.Millisecond, "one batch to try again")

	back()
	done, err = f.process("a\nb\n")
	require.NoError(t, err)
	require.Nil(t, done.Rest)
	require.EqualValues(t, 2, done.Entry.OK)
	require.Empty(t, done.Unbegun)
}

func TestD42_AShortSlotTakesNoBatchUntilItsNextTry(t *testing.T) {
	t.Parallel()
	r := newSlotSet("w", Options{Slots: 2, Concurrency: 1}.withDefaults(), func(slotEvent) {})
	r.patience = patience{first: time.Hour, most: time.Hour, limit: time.Hour, missing: time.Hour}
	require.Equal(t, 2, r.wanted())
	_, stay := r.slots[0].unbegun(syscall.EAGAIN)
	require.False(t, stay)
	require.Equal(t, 1, r.wanted())
	taken, err := r.Take(t.Context(), calls.Occupant{})
	require.NoError(t, err)
	require.Equal(t, 1, taken.Describe().Slot, "the slot that is not short")
	r.slots[0].begun()
	require.Equal(t, 1, r.wanted())
}

func TestD42_AWorkerThatCannotBeginAnythingForLongEnds(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Slots = 2
	path := f.script("cat")
	f.serve(Exec(path))
	f.set.patience = quick(0, 0)
	gone(t, path)
	for range f.set.slots {
		done, err := f.process("a\n")
		require.NoError(t, err)
		require.EqualValues(t, 1, done.Rest.Count)
	}
	<-f.set.gone
	require.ErrorContains(t, f.set.why, "no slot is left: slot ")
	require.ErrorContains(t, f.set.why, "because nothing could be begun in it for 0s: starting "+path)
	require.Zero(t, f.set.wanted())
}

func TestD42_HowLongAShortageIsBorne(t *testing.T) {
	t.Parallel()
	p := usualPatience
	for _, lack := range []error{syscall.EAGAIN, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		require.Equal(t, p.limit, p.limitOf(fmt.Errorf("starting x: %w", &calls.UnbegunError{Err: lack}), false))
	}
	require.Equal(t, p.missing, p.limitOf(&calls.UnbegunError{Err: os.ErrNotExist}, false), "nothing has ever been begun: it ends soon")
	require.Equal(t, p.limit, p.limitOf(&calls.UnbegunError{Err: os.ErrNotExist}, true), "it is being deployed")
}

func TestD42_AProgramThatIsAbsentForAWhileIsNoRestart(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Slots, f.options.Restarts, f.options.CallItems = 1, 1, 1
	f.serve(f.answers(""))
	path := filepath.Join(f.dir, "script")
	f.set.patience = quick(shortageTest, shortageTest)
	back := gone(t, path)
	f.running(0).child.Kill()
	f.short()
	for range 5 { // tries that are no restarts
		before := f.tries()
		require.Eventually(t, func() bool { return f.tries() > before }, shortageTest, time.Millisecond)
	}
	back()
	o := f.flowOf("in.jsonl", "1\n2\n")
	require.Empty(t, o.failures)
	require.Equal(t, "1\n2\n", o.output)
	f.replaced(1)
	require.Empty(t, f.happened(slotOut))
}

// tries are those in a row of the first slot.
func (f *fixture) tries() int {
	s := f.set.slots[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.short.tries
}
