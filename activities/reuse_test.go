package activities

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// reused runs one job again and again, over inputs that change, and knows what must come of it.
type reused struct {
	*staged
	random  *rand.Rand
	version string
	chain   int // of runs: an item that fails in one may not in the next
	failing uint32

	known  map[string][]string // what the index has: the lines of each item's result; nil: it has none
	called map[string]int      // in the first stage
	kept   int64               // results that the index has
}

// record is an item.
type record struct {
	ID    int    `json:"id"`
	Value string `json:"v"`
	Other string `json:"o"`
}

func (r record) String() string {
	data, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return string(data)
}

func newReused(t *testing.T, random *rand.Rand, stages int) *reused {
	r := &reused{random: random, known: map[string][]string{}, version: "1"}
	var all []job.Stage
	for stage := range stages {
		all = append(all, job.Stage{Name: stageName(stage), Pool: "pool"})
	}
	if stages == 0 { // one handler without a name
		all = append(all, job.Stage{Name: "a", Pool: "pool"})
	}
	r.staged = newPipeline(t, all, r.each, "in.jsonl", "")
	r.spec.BatchItems = 1 + random.Int64N(12)
	r.spec.Reuse = &job.Reuse{}
	return r
}

// doubled returns items of which some are there again, as they are.
func (r *reused) doubled(items []record) []record {
	items = slices.Clone(items)
	for range r.random.IntN(2 * len(items)) {
		items = slices.Insert(items, r.random.IntN(len(items)+1), items[r.random.IntN(len(items))])
	}
	return items
}

// fate returns what becomes of an item in a stage.
func (r *reused) fate(stage int, item string) fate {
	h := fnv.New32a()
	fmt.Fprint(h, stage, "/", item)
	if h.Sum32()%11 == 0 {
		return dropped
	}
	fmt.Fprint(h, "/", r.chain)
	if h.Sum32()%10 < r.failing {
		return fails
	}
	return passes
}

func (r *reused) each(p *staged, c *calls.Call, item calls.Item) {
	first, _, _ := strings.Cut(string(item.Data), "}")
	first += "}"
	if p.step == 0 {
		r.called[first]++
	}
	switch r.fate(p.step, first) {
	case fails:
		c.Answer.Fail(&calls.Fault{Kind: job.KindError, Err: job.Error{Type: "Broken"}}, 1)
	case dropped:
		p.drop(c, item)
	default:
		line := append(bytes.Clone(item.Data), stageName(p.step)+r.version...)
		if r.spec.Flatten && p.program[p.step].Last {
			line = listOf(first, string(line))
		}
		c.Answer.Line(line)
	}
}

// listOf returns a list of up to three of a line.
func listOf(item, line string) []byte {
	list, err := json.Marshal(slices.Repeat([]string{line}, len(item)%4))
	if err != nil {
		panic(err)
	}
	return list
}

// resultOf returns the lines of an item's result; nil: it has none.
func (r *reused) resultOf(item string) []string {
	line := item
	for stage := range r.program {
		if r.fate(stage, item) != passes {
			return nil
		}
		line += stageName(stage) + r.version
	}
	if !r.spec.Flatten {
		return []string{line}
	}
	quoted, err := json.Marshal(line)
	require.NoError(r.t, err)
	return slices.Repeat([]string{string(quoted)}, len(item)%4)
}

// key is what the index knows an item by.
func (r *reused) key(item record) string {
	if r.spec.Reuse != nil && r.spec.Reuse.Changed != "" {
		return fmt.Sprint(item.ID, "/", item.Value)
	}
	return item.String()
}

// run runs the job over items, and checks what comes of it. intact: the index is as the last run has left it.
func (r *reused) run(items []record, intact bool) {
	r.t.Helper()
	r.chain++
	r.called = map[string]int{}
	if r.spec.Unique && len(items) > 0 {
		items = r.doubled(items)
	}
	if r.spec.Reuse == nil {
		clear(r.known)
	}
	var input strings.Builder
	for _, item := range items {
		fmt.Fprintln(&input, item)
	}
	r.write("in.jsonl", input.String())
	r.redrive = nil
	r.newRun(fmt.Sprint("run-", r.chain, "-1"))
	head := r.toTheEnd(r.random.IntN(3))
	result := r.finish(head)
	r.check(items, result, intact)
	if r.spec.Unique {
		require.Equal(r.t, result, r.finish(head), "a repetition")
	}
	if len(result.Manifests) > 0 {
		head = result.Manifests[0]
	}
	if r.spec.OnError != job.OnErrorDrop {
		r.checkFailures(items)
		if result.Books.Failed > 0 && r.random.IntN(2) == 0 {
			r.again(items, result, head)
		}
	}
}

// checkFailures checks the records of items that have no result.
func (r *reused) checkFailures(items []record) {
	r.t.Helper()
	type place struct {
		Item, Offset int64
		Input        string
	}
	want, got := []place{}, []place{}
	offset := int64(0)
	for i, item := range items {
		if slices.ContainsFunc(stagesOf(r), func(stage int) bool { return r.fate(stage, item.String()) == fails }) && r.known[r.key(item)] == nil && !r.drops(item.String()) {
			want = append(want, place{int64(i), offset, item.String()})
		}
		offset += int64(len(item.String())) + 1
	}
	for _, f := range failuresIn(r.t, r.spec.Errors) {
		got = append(got, place{f.Item, f.Offset, string(f.Input)})
	}
	require.Equal(r.t, want, got)
}

// stagesOf returns the numbers of the stages.
func stagesOf(r *reused) []int {
	all := make([]int, len(r.program))
	for i := range all {
		all[i] = i
	}
	return all
}

// drops reports whether an item is dropped before it can fail.
func (r *reused) drops(item string) bool {
	for stage := range r.program {
		if f := r.fate(stage, item); f != passes {
			return f == dropped
		}
	}
	return false
}

// failuresIn returns the error records in a file, which may be missing.
func failuresIn(t *testing.T, path string) (all []job.Failure) {
	t.Helper()
	data, err := os.ReadFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(t, err)
	}
	for line := range bytes.Lines(data) {
		var f job.Failure
		require.NoError(t, json.Unmarshal(line, &f))
		all = append(all, f)
	}
	return all
}

// toTheEnd runs the job with so many stops.
func (r *reused) toTheEnd(stops int) (head string) {
	var heads []string
	for stop := 0; ; stop++ {
		if stop > 0 {
			r.newRun(fmt.Sprint("run-", r.chain, "-", stop+1))
		}
		most := 1 << 30
		if stop < stops {
			most = r.random.IntN(12)
		}
		batches, planned := r.page(1000, heads...)
		require.True(r.t, planned.Done)
		if stop == 0 && r.redrive == nil && planned.Reuse != nil && planned.Reuse.From != "" && r.kept >= 0 {
			require.Equal(r.t, r.kept, planned.Reuse.Items)
		}
		entries, _, left := r.staged.run(r.random, batches, most)
		if stop == stops {
			require.Empty(r.t, left)
		}
		for i := range entries {
			entries[i].Run = r.ref.Run
		}
		result, err := r.acts.Commit(r.t.Context(), wire.CommitInput{Ref: r.ref, Previous: heads, Entries: entries, Between: left})
		require.NoError(r.t, err)
		if heads = []string{result.Manifest}; stop == stops {
			return heads[0]
		}
	}
}

// check checks the output, which items were called, and the books. What has been kept is known from then on.
func (r *reused) check(items []record, result wire.FinishResult, intact bool) {
	r.t.Helper()
	var want []string
	called, kept := map[string]int{}, map[string][]string{}
	reused, equal, failed, ok := int64(0), int64(0), int64(0), int64(0)
	dropped := ""
	for _, item := range items {
		lines, key := r.known[r.key(item)], r.key(item)
		if lines != nil {
			reused++
		} else {
			lines = r.resultOf(item.String())
			if r.spec.Unique && called[item.String()] > 0 {
				equal++
			} else {
				called[item.String()]++
			}
		}
		switch {
		case lines != nil:
			ok++
		case r.drops(item.String()):
			ok++
			dropped += item.String() + "\n"
		default:
			failed++
		}
		want = append(want, lines...)
		if kept[key] == nil {
			kept[key] = lines
		}
	}
	require.Equal(r.t, strings.Join(want, "\n"), strings.TrimSuffix(r.output(), "\n"), "as of a run of all items")
	if intact {
		require.Equal(r.t, called, r.called, "nothing else is called")
		require.Equal(r.t, reused, result.Books.Reused)
	}
	for item := range called {
		require.Contains(r.t, r.called, item)
	}
	books := result.Books
	require.Equal(r.t, []int64{int64(len(items)), ok, failed, int64(strings.Count(dropped, "\n"))}, []int64{books.Items, books.OK, books.Failed, books.Dropped})
	if intact {
		require.Equal(r.t, equal, result.Books.Equal)
	}
	require.Zero(r.t, result.Books.Waiting)
	if r.spec.Dropped != "" {
		require.Equal(r.t, dropped, r.fetch(r.spec.Dropped))
	}
	require.LessOrEqual(r.t, result.Books.Reused+result.Books.Changed+result.Books.Again, result.Books.Items)
	if r.known, r.kept = kept, -1; intact {
		r.kept = int64(len(items)) - failed - result.Books.Dropped
	}
}

func (r *reused) output() string {
	data, err := os.ReadFile(r.spec.Output)
	require.NoError(r.t, err)
	return string(data)
}

// again redrives the job.
func (r *reused) again(items []record, done wire.FinishResult, head string) {
	r.t.Helper()
	r.redrive = &job.Redrive{Manifests: []string{head}, Output: done.Output, Planned: done.Books.Items, Runs: []string{r.ref.Run}}
	r.chain++
	r.called = map[string]int{}
	r.newRun(fmt.Sprint("run-", r.chain, "-1"))
	heads := r.toTheEnd(r.random.IntN(2))
	result := r.finish(heads)
	if r.spec.Unique {
		require.Equal(r.t, result, r.finish(heads), "a repetition")
		for item, times := range r.called {
			require.Equal(r.t, 1, times, item)
		}
	}
	var want []string
	for _, item := range items {
		key := r.key(item)
		lines := r.known[key]
		if lines == nil && r.called[item.String()] > 0 {
			if lines = r.resultOf(item.String()); lines != nil {
				r.known[key] = lines
			}
		}
		want = append(want, lines...)
	}
	r.kept = result.Books.OK - result.Books.Dropped
	require.Equal(r.t, strings.Join(want, "\n"), strings.TrimSuffix(r.output(), "\n"), "after a redrive")
	require.EqualValues(r.t, done.Books.Items, result.Books.Items)
}

// changed returns items in which something has changed.
func (r *reused) changed(items []record, next *int, different bool) []record {
	items = slices.Clone(items)
	for range r.random.IntN(5) {
		at := r.random.IntN(len(items) + 1)
		switch r.random.IntN(6) {
		case 0: // new ones
			for range 1 + r.random.IntN(4) {
				*next++
				items = slices.Insert(items, at, record{ID: *next, Value: fmt.Sprint("v", r.random.IntN(3))})
			}
		case 1: // some are gone
			to := min(len(items), at+1+r.random.IntN(3))
			items = slices.Delete(items, min(at, to), to)
		case 2: // one has changed
			if at < len(items) {
				items[at].Value += "x"
			}
		case 3: // in a field that may not count
			if at < len(items) {
				items[at].Other += "y"
			}
		case 4: // some are elsewhere
			to := min(len(items), at+r.random.IntN(20))
			moved := slices.Clone(items[min(at, to):to])
			items = slices.Insert(slices.Delete(items, min(at, to), to), r.random.IntN(len(items)-len(moved)+1), moved...)
		case 5: // one is there twice
			if at < len(items) && !different {
				items = slices.Insert(items, r.random.IntN(len(items)), items[at])
			}
		}
	}
	return items
}

// J1, J6: Whatever changes, and however a run is stopped, resumed and redriven, the output is that of a run of all items, and
// only items are called that the last completed run did not have as they are, with a result; of equal ones one, if the job
// calls these once.
func TestReuse_RandomRuns(t *testing.T) {
	t.Parallel()
	for round := range jobtest.Rounds(60) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			random := jobtest.Seeded(t, 2900+uint64(round))
			r := newReused(t, random, 1+random.IntN(3))
			r.spec.Flatten = random.IntN(3) == 0
			switch random.IntN(3) {
			case 1:
				r.spec.Reuse.Key = "id"
			case 2:
				r.spec.Reuse.Key, r.spec.Reuse.Changed = "id", "v"
			}
			if r.spec.Unique = random.IntN(2) == 0; r.spec.Unique && random.IntN(3) == 0 {
				r.spec.Reuse = nil
			}
			if random.IntN(4) == 0 {
				r.spec.Dropped = r.path("dropped.jsonl")
			}
			if random.IntN(4) == 0 {
				r.spec.OnError = job.OnErrorDrop
			}
			r.failing = uint32(random.IntN(3))
			next := 0
			items := r.changed(nil, &next, true)
			for range random.IntN(100) {
				next++
				items = append(items, record{ID: next, Value: "v"})
			}
			for range 6 {
				if random.IntN(5) == 0 && r.spec.Reuse != nil {
					r.version += "1"
					r.spec.Reuse.Version = r.version
					clear(r.known)
				}
				r.run(items, true)
				if random.IntN(4) > 0 {
					items = r.changed(items, &next, r.spec.Reuse != nil && r.spec.Reuse.Changed != "")
				}
			}
		})
	}
}

// damage does something to what a run has left.
func (r *reused) damage() string {
	r.t.Helper()
	files := r.keys("reuse/")
	require.Len(r.t, files, 3)
	name := files[r.random.IntN(len(files))]
	path := r.path("out.jsonl.stint/" + name)
	data, err := os.ReadFile(path)
	require.NoError(r.t, err)
	switch r.random.IntN(4) {
	case 0:
		require.NoError(r.t, os.Remove(path))
		return name + " is lost"
	case 1:
		require.NoError(r.t, os.Truncate(path, r.random.Int64N(int64(len(data)+1))))
		return name + " is cut"
	case 2:
		if len(data) > 0 {
			data[r.random.IntN(len(data))] ^= 1 << r.random.IntN(8)
		}
		require.NoError(r.t, os.WriteFile(path, data, 0o666))
		return name + " has another bit"
	}
	require.NoError(r.t, os.WriteFile(path, []byte(`{"format":99,"index":"x"}`), 0o666))
	return name + " is something else"
}

// J4: An index that is lost, cut or damaged costs calls, and never changes the output.
func TestReuse_DamagedIndex(t *testing.T) {
	t.Parallel()
	for round := range jobtest.Rounds(60) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			random := jobtest.Seeded(t, 2990+uint64(round))
			r := newReused(t, random, 1+random.IntN(2))
			next := 0
			var items []record
			for range 1 + random.IntN(600) {
				next++
				items = append(items, record{ID: next, Value: "v"})
			}
			r.spec.BatchItems = 100
			r.run(items, true)
			for range 3 {
				t.Log(r.damage())
				items = r.changed(items, &next, false)
				r.run(items, false)
			}
			r.run(items, true)
		})
	}
}

// J1: A filter that gets whole batches has the short ways: of a first run, of one in which nothing has changed, and of one
// in which something has.
func TestReuse_Filter(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "jsonl"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			random := jobtest.Seeded(t, 3)
			f := setup(t)
			f.spec.Files.Input = []string{f.path("in")}
			f.spec.Format, f.spec.Reuse, f.spec.BatchItems = format, &job.Reuse{}, 700
			var seen strings.Builder
			h := &callstest.Filter{Whole: true, Do: func(in io.Reader, out io.Writer) error {
				lines := bufio.NewScanner(in)
				for lines.Scan() {
					seen.WriteString(lines.Text() + "\n")
					if _, err := fmt.Fprintln(out, strings.ToUpper(lines.Text())); err != nil {
						return err
					}
				}
				return lines.Err()
			}}
			f.serve(h, Options{})
			end := "\n"
			var items []string
			for i := range 3000 {
				items = append(items, fmt.Sprintf(`{"item":%d,"x":%q}`, i, strings.Repeat("x", random.IntN(200))))
			}
			run := func(name string, called []string) wire.Books {
				t.Helper()
				f.write("in", strings.Join(items, "\n")+end)
				f.newRun(name)
				seen.Reset()
				result := f.finish(f.commit(nil, f.processAll(f.plan())...))
				require.Equal(t, strings.ToUpper(strings.Join(items, "\n")+"\n"), f.read("out.jsonl"))
				require.Equal(t, strings.Join(called, "\n"), strings.TrimSpace(seen.String()))
				require.EqualValues(t, len(items)-len(called), result.Books.Reused)
				return result.Books
			}
			run("first", items)
			wholes := h.Wholes()
			require.EqualValues(t, 5, wholes, "each batch is one call")
			keys := f.keys("reuse/")
			run("unchanged", nil)
			require.Equal(t, keys, f.keys("reuse/"), "the results of the run before are those of this one")
			end = "" // the last line has no end
			run("cut", nil)
			require.Equal(t, keys, f.keys("reuse/"))
			items = slices.Insert(slices.Delete(items, 10, 20), 1500, `{"item":"new"}`)
			run("changed", []string{`{"item":"new"}`})
			slices.Reverse(items)
			run("reversed", nil)
			require.NotEqual(t, keys, f.keys("reuse/"))
			random.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
			run("shuffled", nil)
			f.spec.Reuse.Version = "2"
			run("another version", items)
			run("the same version", nil)
		})
	}
}

// J2, J3: What the report says of the earlier run: which one, and how many of its items are gone.
func TestReuse_Report(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", `{"id":1,"v":1}`+"\n"+`{"id":2,"v":1}`+"\n"+`{"id":3,"v":1}`+"\n")
	f.spec.Reuse = &job.Reuse{Key: "id"}
	var head string
	run := func(name string) (wire.PlanResult, wire.FinishResult) {
		f.newRun(name)
		batches, planned := f.page(1000)
		head = f.commit(nil, f.processAll(batches)...)
		return planned, f.finish(head)
	}
	planned, done := run("first")
	require.Equal(t, &wire.ReuseOffer{Why: "nothing is reused: no run has kept results before"}, planned.Reuse)
	require.Zero(t, done.Books.Reused)

	f.write("in.jsonl", `{"id":4,"v":1}`+"\n"+`{"id":1,"v":1}`+"\n"+`{"id":3,"v":2}`+"\n")
	planned, done = run("second")
	require.Equal(t, &wire.ReuseOffer{From: "first of test", Items: 3}, planned.Reuse)
	require.EqualValues(t, 1, done.Books.Reused)
	require.EqualValues(t, 1, done.Books.Changed)
	require.Zero(t, done.Books.Again)
	require.EqualValues(t, 1, done.Gone, "the item 2")
	again := f.finish(head)
	require.EqualValues(t, 1, again.Gone, "a repetition says the same")

	f.spec.Reuse = &job.Reuse{Key: "v"}
	planned, done = run("third")
	require.Contains(t, planned.Reuse.Why, "known by the field id")
	require.Zero(t, done.Books.Reused)
}

// J5: New items behind many that are as they were are spread over many batches, however quick the others are.
func TestReuse_NewItemsAreSpread(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(3000))
	f.spec.Reuse = &job.Reuse{}
	f.newRun("first")
	f.finish(f.commit(nil, f.processAll(f.plan())...))
	f.write("in.jsonl", jobtest.Lines(5000))
	f.newRun("second")
	result, err := f.acts.Plan(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 600, Sizing: wire.Sizing{Rate: 1 << 40, Slots: 8}})
	require.NoError(t, err)
	batches, err := wire.DecodePage(result.Page)
	require.NoError(t, err)
	var old, fresh int
	for _, b := range batches {
		if b.First < 3000 {
			require.LessOrEqual(t, b.End(), int64(3000))
			old++
		} else {
			fresh++
		}
	}
	require.Less(t, old, 40)
	require.GreaterOrEqual(t, fresh, 40)
}
