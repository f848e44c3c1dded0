package workflows

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/feedstore"
	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/data/pipeline"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/feed"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"
)

// weighing is the default data converter. It notes the largest payloads.
type weighing struct {
	converter.DataConverter
	largest *largest
}

type largest struct {
	mu    sync.Mutex
	bytes int
	kind  string
}

func (l *largest) note(bytes int, values ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if bytes > l.bytes {
		l.bytes, l.kind = bytes, fmt.Sprintf("%T", values)
		if len(values) == 1 {
			l.kind = fmt.Sprintf("%T", values[0])
		}
	}
}

func (w weighing) ToPayload(value any) (*commonpb.Payload, error) {
	p, err := w.DataConverter.ToPayload(value)
	w.largest.note(proto.Size(p), value)
	return p, err
}

func (w weighing) ToPayloads(values ...any) (*commonpb.Payloads, error) {
	p, err := w.DataConverter.ToPayloads(values...)
	w.largest.note(proto.Size(p), values...)
	return p, err
}

// alphabets are what texts are made of. Escaped as JSON, most of them take more bytes.
var alphabets = [][]string{{"a"}, {"<"}, {"<", ">", "&", "a"}, {`"`, `\`}, {"\x00", "\x1f", "\n"}, {"😀"}, {"é", "\u2028", "\u2029"}, {"a", "<", "\"", "\u0001", "😀", "\ufffd"}}

// anyText is a text of any alphabet, and of so many bytes at most.
func anyText(rng *rand.Rand, most int) string {
	alphabet := alphabets[rng.IntN(len(alphabets))]
	var b strings.Builder
	for b.Len()+4 < most {
		b.WriteString(alphabet[rng.IntN(len(alphabet))])
	}
	return b.String()
}

// anyValue is a value in JSON of so many bytes at most: without escapes, with the escapes that json.Marshal adds, or an
// object.
func anyValue(rng *rand.Rand, most int) []byte {
	switch rng.IntN(4) {
	case 0:
		return fmt.Appendf(nil, "%d.50", rng.IntN(1000))
	case 1:
		value, _ := json.Marshal(anyText(rng, most/6))
		return value
	case 2:
		value, _ := text.JSON(map[string]any{"k": []any{anyText(rng, most/6), nil, 1.5}})
		return value
	}
	value, _ := text.JSON(anyText(rng, most/6))
	if plain := bytes.ContainsAny(value, `\`); !plain {
		value, _ = text.JSON(anyText(rng, most/6) + strings.Repeat("<", most/6))
	}
	return value
}

// anySize is small, middling, or up to most.
func anySize(rng *rand.Rand, most int) int {
	switch rng.IntN(8) {
	case 0:
		return 1 + rng.IntN(most)
	case 1, 2:
		return 1 + rng.IntN(64<<10)
	}
	return 1 + rng.IntN(1000)
}

// fated is what becomes of an item: a value, an error, or neither.
type fated struct {
	value []byte
	err   *job.Error
}

func hashOf(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		fmt.Fprint(h, len(p), p)
	}
	return h.Sum64()
}

// fate is what a stage makes of an item: always the same.
func fate(seed uint64, stage string, item []byte) fated {
	rng := rand.New(rand.NewPCG(seed, hashOf(stage, string(item))))
	switch rng.IntN(30) {
	case 0:
		err := calls.Bounded(job.Error{Type: "Bad", Message: anyText(rng, anySize(rng, 100<<10)), Stack: anyText(rng, anySize(rng, 100<<10))})
		return fated{err: &err}
	case 1:
		return fated{}
	}
	return fated{value: anyValue(rng, anySize(rng, 300<<10))}
}

// through is what stages, one after the other, make of an item: ensembles, which keep errors or do not, and others.
func through(seed uint64, all []job.Stage, item []byte) fated {
	f := fated{value: item}
	for i := range all {
		s := &all[i]
		if f.value == nil {
			return f
		}
		if len(s.Ensemble) == 0 {
			f = fate(seed, s.Name, f.value)
			continue
		}
		var list [][]byte
		var first *job.Error
		finished, failed := 0, 0
		for m := range s.Ensemble {
			switch r := fate(seed, s.Name+"."+s.Ensemble[m].Name, f.value); {
			case r.value != nil:
				finished++
				list = append(list, r.value)
			case r.err == nil:
				list = append(list, []byte("null"))
			default:
				failed++
				if first == nil {
					first = r.err
				}
				short, _ := text.JSON(map[string]any{"error": job.Error{Type: r.err.Type, Message: r.err.Message}})
				list = append(list, short)
			}
		}
		switch {
		case finished+failed == 0:
			f = fated{}
		case failed == 0 || s.KeepErrors && finished > 0 || s.KeepErrors && failed < len(s.Ensemble):
			f = fated{value: slices.Concat([]byte("["), bytes.Join(list, []byte(",")), []byte("]"))}
		case s.KeepErrors:
			f = fated{err: &job.Error{Type: job.ErrorEnsemble}}
		default:
			f = fated{err: first}
		}
	}
	return f
}

// anyFeed is a leg of a feed with real activities, and with random clients, items, results and errors.
type anyFeed struct {
	*feedWorld
	halted  bool // a stop comes
	seed    uint64
	rng     *rand.Rand
	largest largest
	want    map[int64][]byte // items, by ordinal
	got     map[int64]wire.ItemResult
	done    int
	number  int // of exchanges
	answer  func(stage string, item []byte) fated

	mu      sync.Mutex
	parcels int // bytes of what executions have got of earlier steps
}

func (f *anyFeed) weigh(bytes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.parcels += bytes
}

func newAnyFeed(t *testing.T, seed uint64) *anyFeed {
	rng := rand.New(rand.NewPCG(seed, 1))
	all := make([]job.Stage, rng.IntN(4))
	for n := range all {
		stage := job.Stage{Name: fmt.Sprintf("s%d", n), Pool: "risk", BatchItems: []int64{0, 0, 1, 7}[rng.IntN(4)]}
		if rng.IntN(2) == 0 {
			stage = ensembleOf(stage.Name, 2+rng.IntN(min(8, limits.MaxStages/len(all))-1))
			stage.KeepErrors = rng.IntN(2) == 0
		}
		all[n] = stage
	}
	f := newFeedOf(t, []int64{0, 1, 5}[rng.IntN(3)], all)
	f.seed, f.rng, f.in.Window = seed, rng, 1+rng.IntN(4)
	f.answer = func(stage string, item []byte) fated { return fate(seed, stage, item) }
	return f
}

func ensembleOf(name string, members int) job.Stage {
	stage := job.Stage{Name: name}
	for m := range members {
		stage.Ensemble = append(stage.Ensemble, job.Stage{Name: fmt.Sprintf("m%d", m), Pool: "risk"})
	}
	return stage
}

// newFeedOf is a leg of a feed with stages, or none, whose handlers give each item itself as its result.
func newFeedOf(t *testing.T, batch int64, all []job.Stage) *anyFeed {
	f := &anyFeed{want: map[int64][]byte{}, got: map[int64]wire.ItemResult{}}
	f.answer = func(_ string, item []byte) fated { return fated{value: item} }
	f.feedWorld = setupFeed(t, func(s *job.Spec) {
		s.Output = t.TempDir() + "/"
		s.Store = s.Output
		s.Feed.Capacity, s.Feed.CapacityBytes, s.Feed.Keep = 10_000, limits.MaxCapacityBytes, time.Hour
		s.ItemAttempts, s.Attempts, s.Backoff = 1, 1, time.Millisecond
		if s.BatchItems, s.Stages = batch, all; len(all) > 0 {
			s.Pool = ""
		}
		*s = s.WithDefaults()
		require.NoError(t, s.Validate())
	})
	f.in.Ref = wire.Ref{Job: f.spec.Name, Run: "run-1", Born: 1, Store: f.spec.Store}
	f.in.Spec = f.spec
	f.env.SetDataConverter(weighing{converter.GetDefaultDataConverter(), &f.largest})
	f.env.RegisterActivityWithOptions(f.Process, activity.RegisterOptions{Name: "Process", DisableAlreadyRegisteredCheck: true})
	f.env.RegisterActivityWithOptions(f.commit, activity.RegisterOptions{Name: "CommitFeed", DisableAlreadyRegisteredCheck: true})
	return f
}

func (f *anyFeed) worker(stage string) *activities.Activities {
	return activities.New(activities.Options{Access: &store.Access{}, Handler: &callstest.Handler{Each: func(c *calls.Call, item calls.Item) {
		switch r := f.answer(stage, item.Data); {
		case r.value != nil:
			c.Answer.Line(r.value)
		case r.err != nil:
			c.Answer.Fail(&calls.Fault{Kind: job.KindError, Err: *r.err}, 1)
		default:
			c.Answer.Drop()
		}
	}}})
}

func (f *anyFeed) Process(ctx context.Context, in wire.ProcessInput) (wire.ProcessResult, error) {
	stage := ""
	if in.Stage != nil {
		stage = in.Stage.Name
	}
	data, err := json.Marshal(in)
	if err != nil {
		return wire.ProcessResult{}, err
	}
	f.weigh(in.Batch.From.Size())
	if most := feed.InputSize(&in, feed.FixedSize(f.in, pipeline.Compile(f.spec.Stages))); len(data) > most {
		return wire.ProcessResult{}, temporal.NewNonRetryableApplicationError(fmt.Sprintf("%d bytes, counted as %d", len(data), most), job.ErrorInvalid, nil)
	}
	a := f.worker(stage)
	defer a.Close()
	return a.Process(ctx, in)
}

func (f *anyFeed) commit(ctx context.Context, in wire.CommitFeedInput) (wire.CommitResult, error) {
	a := f.worker("")
	defer a.Close()
	return a.CommitFeed(ctx, in)
}

// anyClient puts one list, and asks for the results until it has them all.
type anyClient struct {
	f     *anyFeed
	token string
	items wire.Items // to be put
}

func (c *anyClient) send(after time.Duration) {
	c.f.number++
	id := fmt.Sprint(c.token, "-", c.f.number)
	x := wire.Exchange{Client: c.token, Items: c.items, Want: true, Wait: 10 * time.Second}
	c.f.env.RegisterDelayedCallback(func() { c.f.env.UpdateWorkflow(wire.UpdateExchange, id, c, x) }, after)
}

func (c *anyClient) Accept() {}

func (c *anyClient) Reject(err error) {
	var app *temporal.ApplicationError
	require.ErrorAs(c.f.t, err, &app)
	if c.f.halted && app.Type() == wire.RefusedStopping {
		return // it was put again after the stop
	}
	if n := len(c.items) / 2; n > 0 && app.Type() == wire.RefusedTooLarge { // with so many stages, that is
		c.f.put(c.items[n:], 100*time.Millisecond)
		c.items = c.items[:n]
	} else {
		require.Contains(c.f.t, []string{wire.RefusedEarly, wire.RefusedNotYet, wire.RefusedFull}, app.Type())
	}
	c.send(100 * time.Millisecond)
}

func (c *anyClient) Complete(answer any, err error) {
	t := c.f.t
	require.NoError(t, err)
	payload, err := weighing{converter.GetDefaultDataConverter(), &c.f.largest}.ToPayload(answer)
	require.NoError(t, err)
	require.LessOrEqual(t, len(payload.GetData()), wire.MaxAnswer+1<<10)
	var a wire.Exchanged
	require.NoError(t, converter.GetDefaultDataConverter().FromPayload(payload, &a))
	for i, item := range c.items {
		c.f.want[a.First+int64(i)] = item
	}
	c.items = nil
	a.Place()
	for _, r := range a.Results {
		require.NotContains(t, c.f.got, r.Item)
		c.f.got[r.Item] = r
	}
	switch {
	case a.Ended != "":
	case a.Pending > 0 || a.More:
		c.send(max(a.Again, time.Millisecond))
	default:
		if c.f.done--; c.f.done == 0 {
			c.f.env.SignalWorkflow(wire.SignalClose, nil)
		}
	}
}

// list are items of any size that one exchange may have.
func (f *anyFeed) list() (items wire.Items) {
	room := wire.MaxExchangeBytes
	for range 1 + f.rng.IntN(20) {
		item := anyValue(f.rng, min(room, anySize(f.rng, wire.MaxExchangeBytes)))
		if f.rng.IntN(20) == 0 {
			item = []byte(`"` + strings.Repeat([]string{"<", "\xff", "a"}[f.rng.IntN(3)], max(1, min(room, 900_000)-2)) + `"`)
		}
		if len(item) > room {
			break
		}
		room -= len(item)
		items = append(items, item)
	}
	return items
}

// requireSame says where the first difference is: the texts may be long.
func requireSame(t *testing.T, want, got []byte, ordinal int64) {
	t.Helper()
	at := 0
	for at < min(len(want), len(got)) && want[at] == got[at] {
		at++
	}
	if at < max(len(want), len(got)) {
		around := func(s []byte) []byte { return s[min(len(s), max(0, at-20)):min(len(s), at+20)] }
		t.Fatalf("item %d has %d bytes and should have %d: at %d it has %q and should have %q", ordinal, len(got), len(want), at, around(got), around(want))
	}
}

// runLeg runs the leg to its end.
func (f *anyFeed) runLeg() {
	t := f.t
	t.Helper()
	f.env.ExecuteWorkflow(FeedLeg, f.in)
	require.True(t, f.env.IsWorkflowCompleted())
	require.NoError(t, f.env.GetWorkflowError())
	var result wire.LegResult
	require.NoError(t, f.env.GetWorkflowResult(&result))
	require.Nil(t, result.Error)
	require.Less(t, f.largest.bytes, wire.MaxPayload, f.largest.kind)
	require.Less(t, f.parcels, 2*feed.InlineBytes)
}

// put has one client put a list.
func (f *anyFeed) put(items wire.Items, after time.Duration) {
	f.done++
	f.number++
	(&anyClient{f: f, token: fmt.Sprint("client-", f.number), items: items}).send(after)
}

// result is an item's, also if it is in the store.
func (f *anyFeed) result(ordinal int64, results *feedstore.Store) wire.ItemResult {
	r, ok := f.got[ordinal]
	require.True(f.t, ok, "item %d", ordinal)
	if r.Stored {
		require.NotNil(f.t, r.Part)
		stored, err := results.Outcome(context.Background(), *r.Part, ordinal)
		require.NoError(f.t, err)
		r.Result, r.Failure, r.Dropped = stored.Result, stored.Failure, stored.Dropped
	}
	return r
}

// compare compares what clients have got with what the stages make of their items.
func (f *anyFeed) compare() {
	results := feedstore.New(feedstore.Options{})
	defer results.Close()
	for ordinal, item := range f.want {
		r := f.result(ordinal, results)
		if !utf8.Valid(item) {
			require.Contains(f.t, string(r.Failure), `"kind":"invalid"`)
			continue
		}
		want := fate(f.seed, "", item)
		if len(f.spec.Stages) > 0 {
			want = through(f.seed, f.spec.Stages, item)
		}
		require.Equal(f.t, want.err != nil, r.Failure != nil, "item %d: %s", ordinal, text.Cut(string(r.Failure), 200))
		require.Equal(f.t, want.value == nil && want.err == nil, r.Dropped)
		requireSame(f.t, want.value, r.Result, ordinal)
		if want.err != nil && want.err.Type != job.ErrorEnsemble {
			var failure job.Failure
			require.NoError(f.t, json.Unmarshal(r.Failure, &failure))
			require.Equal(f.t, want.err.Type, failure.Error.Type)
			requireSame(f.t, []byte(want.err.Message), []byte(failure.Error.Message), ordinal)
			requireSame(f.t, []byte(want.err.Stack), []byte(failure.Error.Stack), ordinal)
		}
	}
}

// TestD3_AnyItemsResultsAndErrors: whatever the items, results and errors of a feed with any stages are, each payload
// fits into a message, and everything comes back byte for byte. STINT_PAYLOADS is how many feeds it has. (X8: no
// content of items, results or errors makes a workflow task fail.)
func TestD3_AnyItemsResultsAndErrors(t *testing.T) {
	t.Parallel()
	rounds := 8
	if given := os.Getenv("STINT_PAYLOADS"); given != "" {
		n, err := strconv.Atoi(given)
		require.NoError(t, err)
		rounds = n
	}
	seed := rand.Uint64()
	if given := os.Getenv("STINT_PAYLOADS_SEED"); given != "" {
		n, err := strconv.ParseUint(given, 10, 64)
		require.NoError(t, err)
		seed = n
	}
	for round := range uint64(rounds) {
		t.Run(fmt.Sprint(seed+round), func(t *testing.T) {
			t.Parallel()
			f := newAnyFeed(t, seed+round)
			f.halted = f.rng.IntN(4) == 0
			for range 1 + f.rng.IntN(4) {
				f.put(f.list(), time.Duration(1+f.rng.IntN(50))*time.Millisecond)
			}
			if f.halted {
				f.env.RegisterDelayedCallback(func() {
					f.env.SignalWorkflow(wire.SignalHalt, wire.StopNotice{Deadline: f.env.Now().Add(time.Minute)})
				}, time.Duration(1+f.rng.IntN(300))*time.Millisecond)
			}
			f.runLeg()
			if !f.halted {
				f.compare()
			}
		})
	}
}

// Results full of <, which encoding/json makes six times as long, reach their client as they are, and in messages that
// fit.
func TestD3_ResultsOfMarkup(t *testing.T) {
	t.Parallel()
	f := newFeedOf(t, 0, nil)
	f.in.Window = 24
	var items wire.Items
	for i := range 22 {
		items = append(items, fmt.Appendf(nil, "\"%d%s\"", i, strings.Repeat("<", 43_000)))
	}
	f.put(items, time.Millisecond)
	f.runLeg()
	for ordinal, item := range f.want {
		requireSame(t, item, f.got[ordinal].Result, ordinal)
	}
	require.Len(t, f.want, 22)
}

// A large item through an ensemble whose members answer with much: what later steps read, and the item, are in one
// input.
func TestD2_LargeItemThroughAnEnsemble(t *testing.T) {
	t.Parallel()
	f := newFeedOf(t, 0, []job.Stage{ensembleOf("score", 10), {Name: "last", Pool: "risk"}})
	answer := []byte(`"` + strings.Repeat("<", 59_998) + `"`)
	f.answer = func(stage string, item []byte) fated {
		if stage == "last" {
			return fated{value: fmt.Append(nil, len(item))}
		}
		return fated{value: answer}
	}
	f.put(wire.Items{[]byte(`"` + strings.Repeat("<b>", 1_040_018/3) + `"`)}, time.Millisecond)
	f.runLeg()
	require.Equal(t, fmt.Sprint(10*len(answer)+11), string(f.got[0].Result))
}
