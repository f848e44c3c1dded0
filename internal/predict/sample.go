package predict

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

	"github.com/stint-run/stint/internal/calls"
	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/stages"
	"github.com/stint-run/stint/internal/trap"
	"github.com/stint-run/stint/job"
)

// SampleOptions say which items of a job are tried, and how.
type SampleOptions struct {
	// Items is how many, 1 or more; all if there are fewer.
	Items int
	// Parallel is how many calls are made at once, 1 or more: as many as the worker's slots take.
	Parallel int
	// Seed decides which items, and which calls they share.
	Seed uint64
}

// Sample is the result of trying some of a job's items. Their results are thrown away.
type Sample struct {
	Items       int             `json:"items"`
	OK          int64           `json:"ok"` // dropped ones included
	Failed      int64           `json:"failed"`
	Dropped     int64           `json:"dropped"`
	Bytes       int64           `json:"bytes"`        // of the items, as the handler got them
	ResultBytes int64           `json:"result_bytes"` // of their results
	Calls       int             `json:"calls"`        // that were answered
	FailedCalls int             `json:"failed_calls"`
	SlowDowns   int             `json:"slow_downs"` // requests of the handler, which were waited out
	FirstError  *job.FirstError `json:"first_error,omitempty"`
	Took        time.Duration   `json:"took"` // nanoseconds

	timed   []timing
	failed  time.Duration // in calls that failed
	records bool          // some items are records of CSV, and all are decoded like those
}

// timing is how long a call that was answered took.
type timing struct {
	items int
	took  time.Duration
}

// maxSampleBytes bounds the memory that a sample's items take.
const maxSampleBytes = 512 << 20

// Try runs the handler on a sample of the items that a survey has counted, drawn uniformly from all of
// them. Items are read, and calls cut, retried and timed, as in a job; nothing is written except by the
// handler. ctx ends it, calls in hand included.
func (f *Predictor) Try(ctx context.Context, survey Survey, spec job.Spec, o SampleOptions) (Sample, error) {
	random := rand.New(rand.NewPCG(o.Seed, o.Seed))
	items, err := f.readSample(ctx, survey, draw(random, survey.Items, o.Items), f.opts.Handler.Traits().Form)
	if err != nil {
		return Sample{}, err
	}
	sample := Sample{Items: len(items)}
	var sound []calls.Item
	for _, item := range items {
		sample.Bytes += int64(len(item.Data))
		sample.records = sample.records || item.record
		if item.fault != nil {
			sample.fail(item.Ordinal, item.fault)
			continue
		}
		sound = append(sound, item.Item)
	}
	calls := cutSample(random, sound, f.opts.Handler.CallSize(), o.Parallel)
	began := time.Now()
	err = f.makeCalls(ctx, spec, calls, o.Parallel, &sample, nil)
	sample.Took = time.Since(began)
	return sample, err
}

// draw returns n different ordinals below total, in order; all if there are no more.
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

// sampled is an item of a sample, or why it is invalid.
type sampled struct {
	calls.Item
	record bool           // of CSV
	format records.Format // of its source; a CSV record is JSON
	fault  *calls.Fault
}

// readSample reads the items with these ordinals, in this form.
func (f *Predictor) readSample(ctx context.Context, survey Survey, ordinals []int64, form calls.Form) ([]sampled, error) {
	r := &sampleReader{of: f, ctx: ctx, survey: survey, form: form, left: ordinals}
	for i := range survey.table.Sources {
		if err := r.source(i); err != nil {
			return nil, err
		}
	}
	if len(r.left) > 0 {
		return nil, ledger.Permanent(job.ErrorChanged, fmt.Errorf("the input changed while it was sampled: it had %d items, and now has %d", survey.Items, r.at))
	}
	return r.items, nil
}

// sampleReader reads through all sources and keeps some of their items.
type sampleReader struct {
	of     *Predictor
	ctx    context.Context
	survey Survey
	form   calls.Form
	left   []int64 // ordinals of items yet to come
	at     int64   // ordinal of the next item
	held   int64   // bytes
	items  []sampled
}

// How much of a source is read at a time.
const (
	sampleChunkItems = 4096
	sampleChunkBytes = 4 << 20
)

// source reads one source, or as much of it as is needed.
func (r *sampleReader) source(index int) error {
	if len(r.left) == 0 {
		return nil
	}
	reader, err := r.of.inputs.DryRange(r.ctx, r.survey.table, index, r.survey.sources[index].items)
	if err != nil {
		return err
	}
	defer reader.Close()
	c := calls.Conversion{Form: r.form}
	var chunk records.Chunk
	for len(r.left) > 0 {
		err := reader.Next(&chunk, sampleChunkItems, sampleChunkBytes)
		if err == nil {
			err = r.ctx.Err()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		c.Shape = reader.Shape()
		if err := r.keep(&chunk, &c); err != nil {
			return err
		}
		reader.Done(chunk.Items)
	}
	return nil
}

// keep takes the sample's items of a chunk, in the form that the handler gets.
func (r *sampleReader) keep(chunk *records.Chunk, c *calls.Conversion) error {
	for len(r.left) > 0 && r.left[0] < r.at+int64(len(chunk.Items)) {
		item := &chunk.Items[r.left[0]-r.at]
		kept := sampled{Item: calls.Item{Ordinal: r.left[0]}, record: c.Shape.HasRecords(), format: c.Shape.Format}
		c.Reset()
		if data, err := c.Convert(item); err != nil {
			kept.fault = calls.InvalidFault(err)
		} else {
			kept.Data = bytes.Clone(data)
		}
		if r.held += int64(len(kept.Data)); r.held > maxSampleBytes {
			return fmt.Errorf("the sample's items have more than %d MiB: choose a smaller sample", maxSampleBytes>>20)
		}
		r.items = append(r.items, kept)
		r.left = r.left[1:]
	}
	r.at += int64(len(chunk.Items))
	return nil
}

const (
	// A sample is cut into calls of two sizes, so that the cost of a call can be separated from that of its
	// items: at best so many large ones, and as many of single items.
	sampleCalls = 12
	// A large call has this many items, if that leaves at least two of them.
	largeCall = 8
)

// cutSample puts the items into calls, in a random order: of one item, the first one to warm up, and
// large ones. Every call has items from all over the input, in their order.
func cutSample(random *rand.Rand, items []calls.Item, size calls.CallSize, parallel int) [][]calls.Item {
	items = slices.Clone(items)
	random.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	large := min(max(len(items)/largeCall, 1), max(sampleCalls, parallel))
	single := min(large+1, len(items))
	var all [][]calls.Item
	for range single {
		all, items = append(all, items[:1]), items[1:]
	}
	for large = min(large, len(items)); large > 0; large-- {
		n := len(items) / large
		for call := range slices.Chunk(items[:n], max(1, size.Items)) {
			all = append(all, cutBytes(call, size.Bytes)...)
		}
		items = items[n:]
	}
	if len(all) > 1 {
		after := all[1:]
		random.Shuffle(len(after), func(i, j int) { after[i], after[j] = after[j], after[i] })
	}
	for _, call := range all {
		slices.SortFunc(call, func(a, b calls.Item) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
	}
	return all
}

// cutBytes cuts a call that has more bytes than a call may.
func cutBytes(call []calls.Item, limit int) [][]calls.Item {
	var all [][]calls.Item
	begin, held := 0, 0
	for i, item := range call {
		if held += len(item.Data) + 1; held >= limit || i == len(call)-1 {
			all = append(all, call[begin:i+1])
			begin, held = i+1, 0
		}
	}
	return all
}

// makeCalls makes the calls, so many at once, and adds up their results. The first one is made alone,
// and its time does not count. keep, if it is not nil, gets what becomes of each item.
func (f *Predictor) makeCalls(ctx context.Context, spec job.Spec, all [][]calls.Item, parallel int, sample *Sample, keep func(int64, stages.Line)) error {
	if len(all) == 0 {
		return nil
	}
	t := &trial{of: f, spec: spec, parallel: parallel, keep: keep, sample: sample}
	if err := t.run(ctx, all[0]); err != nil {
		return err
	}
	if len(all) > minTimed {
		sample.timed, sample.failed = nil, 0
	}
	todo := make(chan []calls.Item, len(all))
	for _, call := range all[1:] {
		todo <- call
	}
	close(todo)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var making sync.WaitGroup
	for number := range min(parallel, len(all)-1) {
		making.Go(func() {
			for call := range todo {
				if err := trap.Call("trying a call", func() error { return t.run(ctx, call) }); err != nil {
					cancel(err)
					return
				}
				if t.spare(number) {
					return // number 0 never is
				}
			}
		})
	}
	making.Wait()
	return context.Cause(ctx)
}
