package activities

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/job"
)

// SampleOptions say how items of a job are tried.
type SampleOptions struct {
	// Items is how many, 1 or more; where there are fewer, all.
	Items int
	// Parallel is how many calls are made at once, 1 or more: as many as the worker's slots take.
	Parallel int
	// Seed decides which items, and which calls they share.
	Seed uint64
}

// Sample is what trying some of a job's items has come to. Their results are thrown away.
type Sample struct {
	Items       int             `json:"items"`
	OK          int64           `json:"ok"` // dropped ones included
	Failed      int64           `json:"failed"`
	Dropped     int64           `json:"dropped"`
	Bytes       int64           `json:"bytes"`        // of the items, as the handler got them
	ResultBytes int64           `json:"result_bytes"` // of their results
	Calls       int             `json:"calls"`        // that were answered
	FailedCalls int             `json:"failed_calls"`
	FirstError  *job.FirstError `json:"first_error,omitempty"`
	Took        time.Duration   `json:"took"` // nanoseconds

	timed  []timing
	failed time.Duration // in calls that failed
}

// timing is what a call that was answered took.
type timing struct {
	items int
	took  time.Duration
}

// maxSampleBytes bounds the memory that a sample's items take.
const maxSampleBytes = 512 << 20

// Try has the handler work on a sample of the items that a survey has counted, drawn uniformly from
// all of them. Items are read, and calls cut, tried again and timed, as in a job; nothing is written
// anywhere but by the handler. ctx ends it, calls in hand included.
func (a *Activities) Try(ctx context.Context, survey Survey, spec job.Spec, o SampleOptions) (Sample, error) {
	random := rand.New(rand.NewPCG(o.Seed, o.Seed))
	items, err := a.readSample(ctx, survey, draw(random, survey.Items, o.Items))
	if err != nil {
		return Sample{}, err
	}
	sample := Sample{Items: len(items)}
	var sound []Item
	for _, item := range items {
		sample.Bytes += int64(len(item.Data))
		if item.fault != nil {
			sample.fail(item.Ordinal, item.fault)
			continue
		}
		sound = append(sound, item.Item)
	}
	calls := cutSample(random, sound, a.opts.Handler.CallSize(), o.Parallel)
	began := time.Now()
	err = a.makeCalls(ctx, spec, calls, o.Parallel, &sample)
	sample.Took = time.Since(began)
	return sample, err
}

// draw returns n different ordinals below total, in order; all where there are no more.
func draw(random *rand.Rand, total int64, n int) []int64 {
	if int64(n) >= total {
		all := make([]int64, total)
		for i := range all {
			all[i] = int64(i)
		}
		return all
	}
	// Floyd's: every set of n is as likely as any other.
	chosen := make(map[int64]bool, n)
	ordinals := make([]int64, 0, n)
	for top := total - int64(n); top < total; top++ {
		pick := random.Int64N(top + 1)
		if chosen[pick] {
			pick = top
		}
		chosen[pick] = true
		ordinals = append(ordinals, pick)
	}
	slices.Sort(ordinals)
	return ordinals
}

// sampled is an item of a sample, or why it is none.
type sampled struct {
	Item
	fault *Fault
}

// readSample reads the items with these ordinals.
func (a *Activities) readSample(ctx context.Context, survey Survey, ordinals []int64) ([]sampled, error) {
	r := &sampleReader{acts: a, ctx: ctx, table: survey.table, left: ordinals}
	for i := range survey.table.Sources {
		if err := r.source(i); err != nil {
			return nil, err
		}
	}
	if len(r.left) > 0 {
		return nil, permanent(job.ErrorChanged, fmt.Errorf("the input changed while it was sampled: it had %d items, and now has %d", survey.Items, r.at))
	}
	return r.items, nil
}

// sampleReader reads through all sources and keeps some of their items.
type sampleReader struct {
	acts  *Activities
	ctx   context.Context
	table *Table
	left  []int64 // ordinals of items yet to come
	at    int64   // ordinal of the next item
	held  int64   // bytes
	items []sampled
}

// How much of a source is read at a time.
const (
	sampleChunkItems = 4096
	sampleChunkBytes = 4 << 20
)

// source reads one source, or what it takes of it.
func (r *sampleReader) source(index int) error {
	if len(r.left) == 0 {
		return nil
	}
	source := &r.table.Sources[index]
	p := &planner{acts: r.acts, table: r.table, dry: true}
	body := p.open(r.ctx, index, source.Start, -1)
	defer body.Close()
	reader := records.NewReader(body, source.Shape)
	e := &execution{source: source, chunkBuffers: &chunkBuffers{}}
	for len(r.left) > 0 {
		err := reader.Read(&e.chunk, sampleChunkItems, sampleChunkBytes)
		if err == nil {
			err = r.ctx.Err()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return storeError(job.ErrorInput, fmt.Errorf("reading %s: %w", source.URL, err))
		}
		if err := r.keep(e); err != nil {
			return err
		}
	}
	return nil
}

// keep takes what it wants of a chunk, in the form that the handler wants.
func (r *sampleReader) keep(e *execution) error {
	form := r.acts.opts.Handler.Traits().Form
	for len(r.left) > 0 && r.left[0] < r.at+int64(len(e.chunk.Items)) {
		item := &e.chunk.Items[r.left[0]-r.at]
		kept := sampled{Item: Item{Ordinal: r.left[0]}}
		e.data = e.data[:0]
		if data, err := e.convert(item, form); err != nil {
			kept.fault = invalidFault(err)
		} else {
			kept.Data = bytes.Clone(data)
		}
		if r.held += int64(len(kept.Data)); r.held > maxSampleBytes {
			return fmt.Errorf("the sample's items have more than %d MiB: choose a smaller sample", maxSampleBytes>>20)
		}
		r.items = append(r.items, kept)
		r.left = r.left[1:]
	}
	r.at += int64(len(e.chunk.Items))
	return nil
}

const (
	// A sample is cut into calls of two sizes, so that what a call costs by itself can be told from
	// what its items do: at best so many large ones, and as many of single items.
	sampleCalls = 12
	// A large call has this many items, where that leaves at least two of them.
	largeCall = 8
)

// cutSample puts the items into calls, in a random order: of one item, the first one to warm up, and
// large ones. Every call has items from all over the input, in their order.
func cutSample(random *rand.Rand, items []Item, size CallSize, parallel int) [][]Item {
	items = slices.Clone(items)
	random.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	large := min(max(len(items)/largeCall, 1), max(sampleCalls, parallel))
	single := min(large+1, len(items))
	var calls [][]Item
	for range single {
		calls, items = append(calls, items[:1]), items[1:]
	}
	for large = min(large, len(items)); large > 0; large-- {
		n := len(items) / large
		for call := range slices.Chunk(items[:n], max(1, size.Items)) {
			calls = append(calls, cutBytes(call, size.Bytes)...)
		}
		items = items[n:]
	}
	if len(calls) > 1 {
		after := calls[1:]
		random.Shuffle(len(after), func(i, j int) { after[i], after[j] = after[j], after[i] })
	}
	for _, call := range calls {
		slices.SortFunc(call, func(a, b Item) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
	}
	return calls
}

// cutBytes cuts a call where it has more bytes than a call may.
func cutBytes(call []Item, limit int) [][]Item {
	var calls [][]Item
	begin, held := 0, 0
	for i, item := range call {
		if held += len(item.Data) + 1; held >= limit || i == len(call)-1 {
			calls = append(calls, call[begin:i+1])
			begin, held = i+1, 0
		}
	}
	return calls
}

// makeCalls makes the calls, so many at once, and adds what they come to. The first one is made
// alone, and its time does not count.
func (a *Activities) makeCalls(ctx context.Context, spec job.Spec, calls [][]Item, parallel int, sample *Sample) error {
	if len(calls) == 0 {
		return nil
	}
	t := &trial{acts: a, spec: spec, parallel: parallel, sample: sample}
	if err := t.run(ctx, calls[0]); err != nil {
		return err
	}
	if len(calls) > minTimed {
		sample.timed, sample.failed = nil, 0
	}
	todo := make(chan []Item, len(calls))
	for _, call := range calls[1:] {
		todo <- call
	}
	close(todo)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var making sync.WaitGroup
	for range min(parallel, len(calls)-1) {
		making.Go(func() {
			for call := range todo {
				if err := t.run(ctx, call); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	making.Wait()
	return context.Cause(ctx)
}
