package outputs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/data/store/object"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// bucketDir is what a Dir in a bucket can do.
type bucketDir interface {
	object.Dir
	object.Creator
	Conditional(ctx context.Context, key string) (bool, error)
	Removal(ctx context.Context, key string) (func(context.Context) error, error)
}

// frozenDir is a bucket as one of several processes sees it, without a lock for all of them. The process is frozen
// after its next look at CURRENT, until thaw has returned.
type frozenDir struct {
	bucketDir
	thaw func() // nil: it is not frozen
}

// thawAfter freezes the process at another look at CURRENT than the next one.
func (d *frozenDir) thawAfter(looks int, thaw func()) {
	if looks == 0 {
		d.thaw = thaw
		return
	}
	d.thaw = func() { d.thawAfter(looks-1, thaw) }
}

func (d *frozenDir) Claim(ctx context.Context, key, value string, admit func(string) error) error {
	return object.Claim(ctx, d, key, value, admit)
}

func (d *frozenDir) Guard(ctx context.Context, key, want string, fn func(context.Context) error) error {
	return object.Fence(ctx, d, key, want, func(ctx context.Context) error {
		if do := d.thaw; do != nil {
			d.thaw = nil
			do()
		}
		return fn(ctx)
	})
}

// bucketKinds returns places in buckets, by their kind.
func bucketKinds(t *testing.T) map[string]string {
	t.Helper()
	server := httptest.NewServer(jobtest.FakeS3("bucket"))
	t.Cleanup(server.Close)
	return map[string]string{
		"mem": "mem://" + strings.ToLower(strings.ReplaceAll(t.Name(), "_", "-")) + "/PLACE",
		"s3":  "s3://bucket/PLACE?region=us-east-1&anonymous=true&use_path_style=true&endpoint=" + server.URL,
	}
}

// publication is one of a run with a single result. The output may be an absolute path instead of a place beside the
// store.
func publication(t *testing.T, place, output string, born int64, result string) (*Publication, *frozenDir) {
	t.Helper()
	access := &store.Access{}
	t.Cleanup(func() { require.NoError(t, access.Close()) })
	spec := job.Spec{Name: "x", Pool: "x", Output: strings.Replace(place, "PLACE", output, 1), Store: strings.Replace(place, "PLACE", "store/", 1)}
	if filepath.IsAbs(output) {
		spec.Output = output
	}
	ref := wire.Ref{Run: fmt.Sprint("run-", born), Born: born, Store: spec.Store}
	p, err := NewPublication(t.Context(), access, ref, spec)
	require.NoError(t, err)
	dir := &frozenDir{bucketDir: p.Dir.(bucketDir)}
	p.Dir = dir
	e := wire.Entry{Batch: wire.Batch{Count: 1, Length: 1}.Sealed(), Part: "0", OK: 1}
	w := &ledger.PartWriter{Dir: dir, Key: ledger.ResultsKey(ref.Run, e)}
	require.NoError(t, w.Write(t.Context(), []byte(result)))
	require.NoError(t, w.Commit())
	e.Bytes, e.Sum = w.Bytes, w.Sum
	p.Books = wire.Books{Items: 1, OK: 1, Parts: 1, Bytes: e.Bytes}
	require.NoError(t, ledger.Claim(t.Context(), ref, dir))
	key, err := ledger.WriteManifest(t.Context(), dir, ref, 0, nil, []wire.Entry{e}, wire.Besides{})
	require.NoError(t, err)
	p.Links, err = ledger.Chain(t.Context(), dir, []string{key})
	require.NoError(t, err)
	return p, dir
}

// An older run is frozen between its look at CURRENT and its put, until a newer run has published: the newer output
// stays, whether or not there was one before, and the older run learns that it has been overtaken.
func TestD9_AFrozenRunDoesNotReplaceANewerOutput(t *testing.T) {
	t.Parallel()
	begin := func(context.Context) (Begun, error) { return Begun{}, nil }
	for kind, place := range bucketKinds(t) {
		for _, output := range []string{"out.jsonl", "store/"} {
			for _, before := range []string{"", "before\n"} {
				t.Run(fmt.Sprint(kind, " ", output, " ", before != ""), func(t *testing.T) {
					t.Parallel()
					place := strings.Replace(place, "PLACE", strings.NewReplacer("/", "-", " ", "-", "#", "-").Replace(t.Name())+"/PLACE", 1)
					if before != "" {
						p, _ := publication(t, place, output, 1, before)
						require.NoError(t, p.PublishNew(t.Context(), begin))
					}
					older, dir := publication(t, place, output, 2, "older\n")
					target, name := dir.bucketDir.(store.Dir), PartsList
					if !store.IsPrefix(output) {
						var err error
						target, name, err = OpenTarget(t.Context(), older.Access, older.Spec.Output, 0)
						require.NoError(t, err)
					}
					var want []byte
					dir.thaw = func() {
						newer, _ := publication(t, place, output, 3, "newer\n")
						require.NoError(t, newer.PublishNew(t.Context(), begin))
						var err error
						want, err = target.Get(t.Context(), name)
						require.NoError(t, err)
					}
					outage, ok := errors.AsType[*ledger.Judged](older.PublishNew(t.Context(), begin))
					require.True(t, ok)
					require.Equal(t, job.ErrorOutage, outage.Type(), "it is tried again")
					require.ErrorContains(t, outage, "another process has written or removed it meanwhile")
					got, err := target.Get(t.Context(), name)
					require.NoError(t, err)
					require.Equal(t, string(want), string(got))
					jobtest.RequireType(t, older.PublishNew(t.Context(), begin), job.ErrorFenced)
				})
			}
		}
	}
}

// D9: a run that was frozen while it put the files of a split replaces and leaves none of them among those of a newer
// run, nor the list by which later runs know them.
func TestD9_AFrozenRunLeavesNoFileOfASplit(t *testing.T) {
	t.Parallel()
	begin := func(context.Context) (Begun, error) { return Begun{}, nil }
	for kind, place := range bucketKinds(t) {
		for looks := range 5 { // the announcement, two files, the end; and the next run is not held up
			t.Run(fmt.Sprint(kind, " ", looks), func(t *testing.T) {
				t.Parallel()
				place := strings.Replace(place, "PLACE", "split-"+fmt.Sprint(looks)+"/PLACE", 1)
				split := func(born int64, results string) (*Publication, *frozenDir) {
					p, dir := publication(t, place, "out/{}.jsonl", born, results)
					p.Spec.Split = "k"
					return p, dir
				}
				before, _ := split(1, `{"k":"x","n":1}`+"\n"+`{"k":"a","n":1}`+"\n")
				require.NoError(t, before.PublishNew(t.Context(), begin))
				older, dir := split(2, `{"k":"a","n":2}`+"\n"+`{"k":"b","n":2}`+"\n")
				overtake := func() {
					newer, _ := split(3, `{"k":"a","n":3}`+"\n"+`{"k":"c","n":3}`+"\n")
					require.NoError(t, newer.PublishNew(t.Context(), begin))
				}
				dir.thawAfter(looks, overtake)
				if err := older.PublishNew(t.Context(), begin); looks == 4 {
					require.NoError(t, err)
					overtake()
				} else {
					require.Error(t, err)
				}
				to, _, err := OpenTarget(t.Context(), older.Access, older.Spec.Output, 0)
				require.NoError(t, err)
				files := map[string]string{}
				for info, err := range to.List(t.Context(), "") {
					require.NoError(t, err)
					data, err := to.Get(t.Context(), info.Key)
					require.NoError(t, err)
					files[info.Key] = string(data)
				}
				require.Equal(t, map[string]string{"a.jsonl": `{"k":"a","n":3}` + "\n", "c.jsonl": `{"k":"c","n":3}` + "\n"}, files)
				list, err := dir.Get(t.Context(), splitListKey)
				require.NoError(t, err)
				require.Contains(t, string(list), `"files":["a.jsonl","c.jsonl"]`)
			})
		}
	}
}

// D9: a report that comes late does not replace that of a newer run.
func TestD9_AFrozenRunDoesNotReplaceANewerReport(t *testing.T) {
	t.Parallel()
	for kind, place := range bucketKinds(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			older, dir := publication(t, place, "out.jsonl", 1, "older\n")
			report := func(p *Publication, dir store.Dir, text string) error {
				access := fixedAccess{p.Access, p.Ref.Store, dir}
				return PublishReport(t.Context(), access, p.Ref, strings.Replace(place, "PLACE", "report.json", 1), []byte(text))
			}
			to, name, err := OpenTarget(t.Context(), older.Access, strings.Replace(place, "PLACE", "report.json", 1), 0)
			require.NoError(t, err)
			dir.thaw = func() {
				newer, newerDir := publication(t, place, "out.jsonl", 2, "newer\n")
				require.NoError(t, report(newer, newerDir, "newer"))
			}
			err = report(older, dir, "older")
			require.ErrorContains(t, err, "another process has written or removed it meanwhile", "it is tried again")
			require.NoError(t, report(older, dir, "older"), "who has been overtaken reports nothing")
			got, err := to.Get(t.Context(), name)
			require.NoError(t, err)
			require.Equal(t, "newer", string(got))
			require.NoError(t, PublishReport(t.Context(), older.Access, wire.Ref{}, strings.Replace(place, "PLACE", "report.json", 1), []byte("no store")))
		})
	}
}

// fixedAccess opens one location as that Dir.
type fixedAccess struct {
	ledger.Access
	location string
	dir      store.Dir
}

func (a fixedAccess) Open(ctx context.Context, location string) (store.Dir, error) {
	if location == a.location {
		return a.dir, nil
	}
	return a.Access.Open(ctx, location)
}

// DONE says what the output is before the output is there, so that a repetition of Finish knows it for its own.
func TestPublish_DoneComesBeforeTheOutput(t *testing.T) {
	t.Parallel()
	p, dir := publication(t, "mem://outputs-done/PLACE", "out.jsonl", 1, "result\n")
	to, name, err := OpenTarget(t.Context(), p.Access, p.Spec.Output, 0)
	require.NoError(t, err)
	var done *wire.Done
	var doneErr, outputErr error
	dir.thaw = func() { // another goroutine
		done, doneErr = ledger.ReadDone(t.Context(), dir, p.Ref.Run)
		_, outputErr = to.Stat(t.Context(), name)
	}
	require.NoError(t, p.PublishNew(t.Context(), func(context.Context) (Begun, error) { return Begun{}, nil }))
	require.NoError(t, doneErr)
	require.NotNil(t, done)
	require.EqualValues(t, len("result\n"), done.Output.Bytes)
	require.ErrorIs(t, outputErr, fs.ErrNotExist)
}

// The files of a split may be in a directory and the store in a bucket: their list is announced and ended there as any
// other.
func TestPublish_SplitInADirectory(t *testing.T) {
	t.Parallel()
	begin := func(context.Context) (Begun, error) { return Begun{}, nil }
	for kind, place := range bucketKinds(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			to := t.TempDir()
			for born, results := range []string{`{"k":"a"}` + "\n" + `{"k":"b"}` + "\n", `{"k":"b"}` + "\n"} {
				p, dir := publication(t, place, filepath.Join(to, "{}.jsonl"), int64(born+1), results)
				p.Spec.Split = "k"
				require.NoError(t, p.PublishNew(t.Context(), begin))
				list, err := dir.Get(t.Context(), splitListKey)
				require.NoError(t, err)
				require.Contains(t, string(list), []string{`"files":["a.jsonl","b.jsonl"]`, `"files":["b.jsonl"]`}[born])
			}
			left, err := os.ReadDir(to)
			require.NoError(t, err)
			require.Len(t, left, 1)
		})
	}
}

// Where it may not be looked whether the output is there, what publishing ends with is what counts.
func TestOnce_WithoutALook(t *testing.T) {
	t.Parallel()
	denied := func(context.Context) (bool, error) { return false, fs.ErrPermission }
	fenced := ledger.Permanent(job.ErrorFenced, errors.New("a newer run has taken over"))
	require.Equal(t, fenced, Once(t.Context(), denied, func(context.Context) error { return fenced }))
	require.NoError(t, Once(t.Context(), denied, func(context.Context) error { return nil }))
}
