package activities

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// nights is a job that runs the new files of a directory, again and again, each time with another output. Items with
// "bad" in them fail.
type nights struct {
	*fixture
	clock int
	runs  int
}

func newNights(t *testing.T) *nights {
	t.Helper()
	n := &nights{fixture: setup(t)}
	n.serve(&callstest.Handler{As: calls.Traits{Form: calls.Lines}, Each: func(c *calls.Call, item calls.Item) {
		if strings.Contains(string(item.Data), "bad") {
			c.Answer.Fail(&calls.Fault{Kind: job.KindError, Err: job.Error{Message: "bad"}}, 1)
			return
		}
		c.Answer.Line(item.Data)
	}}, Options{})
	require.NoError(t, os.Mkdir(n.path("in"), 0o777))
	n.spec.Files = &job.Files{Input: []string{n.path("in") + "/"}, NewFiles: true}
	n.spec.BatchItems = 2
	return n
}

// put writes a file of the directory, later than any before.
func (n *nights) put(name, content string) {
	n.t.Helper()
	n.write("in/"+name, content)
	n.touch(name)
}

func (n *nights) touch(name string) {
	n.t.Helper()
	n.clock++
	n.setTime(name, n.clock)
}

func (n *nights) setTime(name string, clock int) {
	n.t.Helper()
	at := time.Unix(1_700_000_000+int64(clock), 0)
	require.NoError(n.t, os.Chtimes(n.path("in/"+name), at, at))
}

// begin begins a run with an output of its own.
func (n *nights) begin() {
	n.runs++
	n.spec.Output, n.spec.Errors, n.spec.Store = n.path(fmt.Sprintf("out-%d.txt", n.runs)), "", ""
	n.newRun(fmt.Sprintf("run-%d", n.runs))
}

// night runs to the end, and returns the output and how many files were left out.
func (n *nights) night() (output string, old int) {
	n.t.Helper()
	n.begin()
	batches, first := n.page(1000)
	require.True(n.t, first.Done)
	n.finish(n.commitAll(batches)...)
	return n.read(filepath.Base(n.spec.Output)), first.OldFiles
}

func (n *nights) commitAll(batches []wire.Batch) (heads []string) {
	n.t.Helper()
	if len(batches) == 0 {
		return nil
	}
	return []string{n.commit(nil, n.processAll(batches)...)}
}

func (n *nights) list() string { return n.path(".test.completed-files") }

// N2: a night runs what is new, as whole files; failed items do not bring a file back.
func TestNewFiles_EveryNight(t *testing.T) {
	t.Parallel()
	n := newNights(t)
	n.put("a.txt", "a\n")
	n.put("b.txt", "b\nbad\n")
	output, old := n.night()
	require.Equal(t, "a\nb\n", output)
	require.Zero(t, old)
	require.FileExists(t, n.list(), "it lies beside the outputs")

	output, old = n.night()
	require.Empty(t, output, "no file is new")
	require.Equal(t, 2, old)

	n.put("c.txt", "c\n")
	n.put("a.txt", "a\nmore\n")
	output, old = n.night()
	require.Equal(t, "a\nmore\nc\n", output, "a changed file runs as a whole")
	require.Equal(t, 1, old)

	n.touch("b.txt")
	output, _ = n.night()
	require.Equal(t, "b\n", output)
	require.Empty(t, slices.DeleteFunc(n.keys(""), func(key string) bool { return !strings.Contains(key, "/files-") }), "what Plan has written is removed")
}

// N2: whatever an input is given by, and whatever its items are.
func TestNewFiles_AllKinds(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(n *nights){
		"a directory": func(*nights) {},
		"a glob":      func(n *nights) { n.spec.Files.Input = []string{n.path("in/*.txt")} },
		"two globs":   func(n *nights) { n.spec.Files.Input = []string{n.path("in/a*"), n.path("in/[b-z]*")} },
		"names": func(n *nights) {
			n.spec.Files.Input, n.spec.Files.Names = []string{n.path("in/*.txt")}, true
		},
		"single files": func(n *nights) {
			n.spec.Files.Input = []string{n.path("in/a.txt"), n.path("in/b.txt"), n.path("in/c.txt")}
		},
		"compressed": func(n *nights) {
			n.write("in/a.txt.gz", gzipped(n.t, "a\n"))
			n.write("in/b.txt.gz", gzipped(n.t, "b\n"))
			n.spec.Files.Input = []string{n.path("in/*.gz")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNights(t)
			for _, file := range []string{"a", "b", "c"} {
				n.put(file+".txt", file+"\n")
			}
			change(n)
			before, old := n.night()
			require.NotEmpty(t, before)
			require.Zero(t, old)
			again, old := n.night()
			require.Empty(t, again)
			require.Equal(t, strings.Count(before, "\n"), old)
		})
	}
}

// N2: objects of a bucket are the same by their ETags.
func TestNewFiles_Bucket(t *testing.T) {
	t.Parallel()
	n := newNights(t)
	n.inBucket("a.txt", "a\n")
	bucket := strings.TrimSuffix(n.spec.Output, "/out/out.jsonl")
	n.spec.Files = &job.Files{Input: []string{bucket + "/in/"}, NewFiles: true}
	in, err := n.acts.opts.Access.Open(context.Background(), bucket+"/in")
	require.NoError(t, err)
	night := func() (output string, old int) {
		n.runs++
		n.spec.Output, n.spec.Errors, n.spec.Store = fmt.Sprintf("%s/out/%d.txt", bucket, n.runs), "", ""
		n.newRun(fmt.Sprintf("run-%d", n.runs))
		batches, first := n.page(1000)
		n.finish(n.commitAll(batches)...)
		return n.fetch(n.spec.Output), first.OldFiles
	}
	output, _ := night()
	require.Equal(t, "a\n", output)
	require.NoError(t, in.Put(context.Background(), "b.txt", []byte("b\n")))
	output, old := night()
	require.Equal(t, "b\n", output)
	require.Equal(t, 1, old)
	require.NoError(t, in.Put(context.Background(), "a.txt", []byte("c\n")))
	output, old = night()
	require.Equal(t, "c\n", output, "another object of the same name and size")
	require.Equal(t, 1, old)
	require.NotEmpty(t, n.fetch(bucket+"/out/.test.completed-files"))
}

// The list of completed files is not read as an input, even if a pattern names it.
func TestNewFiles_ListAmongTheInputs(t *testing.T) {
	t.Parallel()
	n := newNights(t)
	n.spec.Files.NewFilesList = n.path("in/list.txt")
	n.put("a.txt", "a\n")
	output, _ := n.night()
	require.Equal(t, "a\n", output)
	output, old := n.night()
	require.Empty(t, output)
	require.Equal(t, 1, old)
}

// N2: an empty directory, or a pattern that matches nothing, is a mistake for the first run, and no news for later ones.
func TestNewFiles_NothingThere(t *testing.T) {
	t.Parallel()
	for _, input := range []string{"in/", "in/*.txt"} {
		n := newNights(t)
		n.spec.Files.Input = []string{n.path("") + "/" + input}
		n.begin()
		_, err := n.acts.Plan(context.Background(), wire.PlanInput{Ref: n.ref, Spec: n.spec, Batches: 10})
		require.ErrorContains(t, err, "no file", input)
		n.put("a.txt", "a\n")
		n.night()
		require.NoError(t, os.Remove(n.path("in/a.txt")))
		n.begin()
		batches, first := n.page(1000)
		require.Empty(t, batches)
		require.True(t, first.Done)
		require.Equal(t, []string{"input " + n.spec.Files.Input[0] + " has no files at present"}, first.Noticed.Notes)
		n.finish()
		require.Empty(t, n.read(filepath.Base(n.spec.Output)))
	}
}

// N3: a list that is lost or broken costs time: all files run, and a note says so.
func TestNewFiles_ListIsLost(t *testing.T) {
	t.Parallel()
	n := newNights(t)
	n.put("a.txt", "a\n")
	n.night()
	require.NoError(t, os.Remove(n.list()))
	output, _ := n.night()
	require.Equal(t, "a\n", output)
	require.NoError(t, os.WriteFile(n.list(), []byte("nonsense"), 0o666))
	n.begin()
	batches, first := n.page(1000)
	require.Equal(t, []string{"the list of completed files " + n.list() + " cannot be read: all files are run"}, first.Noticed.Notes)
	n.finish(n.commitAll(batches)...)
	output, old := n.night()
	require.Empty(t, output)
	require.Equal(t, 1, old)
}

// N4: a run does not replace the output of an earlier one, which has results that no run makes again.
func TestNewFiles_OutputIsKept(t *testing.T) {
	t.Parallel()
	for name, output := range map[string]string{"a file": "out.txt", "a table": "out.csv", "parts": "out/", "split": "out/{}.jsonl"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNights(t)
			require.NoError(t, os.Mkdir(n.path("out"), 0o777))
			n.put("a.jsonl", `{"a":1}`+"\n")
			fixed := func() {
				n.spec.Output, n.spec.Errors, n.spec.Store = n.path("")+"/"+output, "", ""
				if name == "split" {
					n.spec.Split = "a"
				}
				n.runs++
				n.newRun(fmt.Sprintf("run-%d", n.runs))
			}
			fixed()
			n.finish(n.commitAll(n.plan())...)
			n.put("b.jsonl", `{"a":2}`+"\n")
			fixed()
			in := wire.PlanInput{Ref: n.ref, Spec: n.spec, Batches: 10}
			_, err := n.acts.Plan(context.Background(), in)
			require.ErrorContains(t, err, "output "+n.spec.Output+" has the results of files that an earlier run has completed, and would be replaced")
			require.ErrorContains(t, err, "without "+n.spec.Files.NewFilesList+" all files are run again")

			place := n.spec.Output
			if name == "parts" || name == "split" {
				place = n.spec.Store + "/manifest.jsonl"
			}
			require.NoError(t, os.Rename(place, n.path("taken")))
			batches := n.plan()
			require.Len(t, batches, 1)
			n.finish(n.commitAll(batches)...)

			require.NoError(t, os.Remove(n.spec.Files.NewFilesList))
			fixed()
			require.NotEmpty(t, n.plan(), "all files are run: nothing is lost")
		})
	}
}

// N4: a redrive merges into the output that is there, and changes no list.
func TestNewFiles_Redrive(t *testing.T) {
	t.Parallel()
	n := newNights(t)
	n.put("a.txt", "a\nbad\n")
	n.begin()
	heads := n.commitAll(n.plan())
	result := n.finish(heads...)
	before, err := os.ReadFile(n.list())
	require.NoError(t, err)
	n.serve(&callstest.Handler{As: calls.Traits{Form: calls.Lines}}, Options{})
	n.redrive = &job.Redrive{Manifests: heads, Output: result.Output, Planned: 2, Runs: []string{n.ref.Run}}
	n.newRun("redrive")
	n.finish(n.commitAll(n.plan())...)
	require.Equal(t, "a\nbad\n", n.read("out-1.txt"))
	after, err := os.ReadFile(n.list())
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// N3: Finish may be repeated, and what an old run publishes late completes nothing.
func TestNewFiles_FinishTwice(t *testing.T) {
	t.Parallel()
	n := newNights(t)
	n.put("a.txt", "a\n")
	n.begin()
	heads := n.commitAll(n.plan())
	n.finish(heads...)
	n.finish(heads...)
	n.newRun("resumed") // the one before had no time to report its end
	require.Empty(t, n.plan(heads...), "it does not take its own output for that of an earlier run")
	n.finish(heads...)
	_, old := n.night()
	require.Equal(t, 1, old)

	n.put("b.txt", "b\n")
	n.begin()
	heads = n.commitAll(n.plan())
	late := n.finishInput(heads...)
	newer := n.ref
	newer.Run, newer.Born = "newer", n.born+1
	require.NoError(t, ledger.Claim(context.Background(), newer, n.store()))
	_, err := n.acts.Finish(context.Background(), late)
	require.Error(t, err)
	output, _ := n.night()
	require.Equal(t, "b\n", output)
}

// file is a file of the model: by its name, a time for its content, and one of its last change.
type modelFile struct {
	name    string
	size    int
	clock   int
	content string
}

// N2, N3: over random changes of a directory and random ends of runs, a run that completes has the files that no
// completed run has had as they are, and no others.
func TestNewFiles_AnyNights(t *testing.T) {
	t.Parallel()
	const seed = 2900
	for round := range jobtest.Rounds(40) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			random := jobtest.Seeded(t, seed+round)
			n := newNights(t)
			model := map[string]modelFile{}   // the directory
			completed := map[modelFile]bool{} // the list
			gone := []modelFile{}             // removed, and may come back
			n.put("always.txt", "always\n")   // so that no run finds nothing
			model["always.txt"] = modelFile{"always.txt", 7, n.clock, "always\n"}
			for range 12 {
				gone = n.change(random, model, gone)
				switch random.IntN(12) {
				case 0:
					_ = os.Remove(n.list())
					clear(completed)
				case 1:
					if data, err := os.ReadFile(n.list()); err == nil {
						require.NoError(t, os.WriteFile(n.list(), data[:random.IntN(len(data))], 0o666))
						clear(completed)
					}
				}
				listed := slices.Collect(maps.Values(model))
				want, left := expected(listed, completed)
				n.begin()
				batches, first := n.page(1 + random.IntN(4))
				require.Equal(t, left, first.OldFiles)
				if random.IntN(3) == 0 { // it is killed, or fails, and is given up
					n.processAll(batches)
					continue
				}
				entries := n.processAll(batches)
				heads := n.commitSome(entries)
				if random.IntN(2) == 0 && len(heads) > 0 { // it is stopped, and resumed while more comes
					n.put(fmt.Sprintf("late-%d.txt", n.clock), "late\n")
					name := fmt.Sprintf("late-%d.txt", n.clock-1)
					model[name] = modelFile{name, 5, n.clock, "late\n"}
					n.newRun(n.ref.Run + "-again")
					if random.IntN(2) == 0 {
						completed = map[modelFile]bool{}
						_ = os.Remove(n.list()) // meanwhile: the run goes on with what it has begun with
					}
					batches, first = n.page(1, heads...)
					require.Equal(t, left, first.OldFiles)
					entries = n.processAll(batches)
				} else {
					entries = nil
				}
				for !first.Done {
					batches, first = n.page(3, heads...)
					entries = append(entries, n.processAll(batches)...)
				}
				if len(entries) > 0 {
					heads = append(heads, n.commitSome(entries)...)
				}
				n.finish(heads...)
				require.Equal(t, want, n.read(filepath.Base(n.spec.Output)))
				for _, file := range listed {
					completed[file] = true
				}
			}
		})
	}
}

func (n *nights) commitSome(entries []wire.Entry) []string {
	n.t.Helper()
	if len(entries) == 0 {
		return nil
	}
	return []string{n.commit(nil, entries...)}
}

// expected returns the output of a run over the files, and how many of them it leaves out.
func expected(listed []modelFile, completed map[modelFile]bool) (output string, left int) {
	slices.SortFunc(listed, func(a, b modelFile) int { return cmp.Compare(a.name, b.name) })
	for _, file := range listed {
		if completed[file] {
			left++
			continue
		}
		for line := range strings.Lines(file.content) {
			if !strings.Contains(line, "bad") {
				output += line
			}
		}
	}
	return output, left
}

// change adds, changes, removes, touches, moves and brings back files.
func (n *nights) change(random *rand.Rand, model map[string]modelFile, gone []modelFile) []modelFile {
	n.t.Helper()
	for range random.IntN(6) {
		names := slices.Sorted(maps.Keys(model))
		name := names[random.IntN(len(names))]
		put := func(name, content string) {
			n.put(name, content)
			model[name] = modelFile{name, len(content), n.clock, content}
		}
		content := ""
		for i := range random.IntN(6) {
			content += fmt.Sprintf("%d-%d%s\n", n.clock, i, []string{"", "", "bad"}[random.IntN(3)])
		}
		switch random.IntN(6) {
		case 0, 1:
			put(fmt.Sprintf("f-%d.txt", n.clock), content)
		case 2:
			put(name, content)
		case 3:
			put(name, model[name].content) // touched
		case 4:
			if name != "always.txt" {
				require.NoError(n.t, os.Remove(n.path("in/"+name)))
				gone = append(gone, model[name])
				delete(model, name)
			}
		case 5:
			if len(gone) > 0 {
				back := gone[random.IntN(len(gone))]
				n.write("in/"+back.name, back.content)
				n.setTime(back.name, back.clock)
				model[back.name] = back
			}
		}
	}
	return gone
}
