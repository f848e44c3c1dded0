package inputs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// ownTree is a directory with links: "link" leads to "real", which has inputs and what an earlier run has written.
func ownTree(t *testing.T) (at func(string) string) {
	t.Helper()
	root := t.TempDir()
	at = func(name string) string {
		if name == "-" || strings.Contains(name, "://") {
			return name
		}
		rest, prefix := strings.CutSuffix(name, "/")
		if name = filepath.Join(root, rest); prefix {
			name += "/"
		}
		return name
	}
	for _, name := range []string{"real/in.txt", "real/out.txt", "real/out.txt.errors.jsonl", "real/out.txt.stint/CURRENT", "real/place/manifest.jsonl", "real/place/x.txt", "other/in.txt"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(at(name)), 0o777))
		require.NoError(t, os.WriteFile(at(name), []byte(name+"\n"), 0o666))
	}
	for link, target := range map[string]string{
		"link": "real", "to-in.txt": "real/in.txt", "to-to-in.txt": "to-in.txt", "to-place": "real/place", "other/to-out.txt": "../link/out.txt",
	} {
		require.NoError(t, os.Symlink(target, at(link)))
	}
	require.NoError(t, os.Link(at("real/in.txt"), at("hard.txt")))
	return at
}

// listed expands inputs of a job.
func listed(t *testing.T, spec job.Spec) (names []string, leftOut int, err error) {
	t.Helper()
	n := New(&store.Access{}, nil)
	t.Cleanup(n.Close)
	table, err := n.List(t.Context(), nil, wire.PlanInput{Spec: spec.WithDefaults()})
	if err != nil {
		return nil, 0, err
	}
	for input := range table.Inputs() {
		names = append(names, input.URL)
	}
	return names, table.LeftOut, nil
}

// X1: an output never replaces an input that is named, however the two are written.
// (X7: files of stint's own are never data.)
func TestOwn_NamedInputIsRefused(t *testing.T) {
	t.Parallel()
	at := ownTree(t)
	for _, c := range []struct {
		name, input, output string
		change              func(*job.Spec)
		refused             bool
	}{
		{"a linked directory", "real/in.txt", "link/in.txt", nil, true},
		{"a linked directory, the other way", "link/in.txt", "real/in.txt", nil, true},
		{"the file behind a link", "to-in.txt", "real/in.txt", nil, true},
		{"a link on the way", "to-to-in.txt", "to-in.txt", nil, true},
		{"a link in the output's place is replaced, not followed", "real/in.txt", "to-in.txt", nil, false},
		{"a hard link is another name", "real/in.txt", "hard.txt", nil, false},
		{"a file URL", "real/in.txt", "file://" + at("link/in.txt"), nil, true},
		{"a file beside it", "real/in.txt", "link/out.txt", nil, false},
		{"the errors", "real/in.txt", "out.txt", func(s *job.Spec) { s.Errors = at("link/in.txt") }, true},
		{"the dropped items", "real/in.txt", "out.txt", func(s *job.Spec) { s.Dropped = at("link/in.txt") }, true},
		{"the report", "real/in.txt", "out.txt", func(s *job.Spec) { s.Report = at("link/in.txt") }, true},
		{"the list of parts", "real/place/manifest.jsonl", "link/place/", nil, true},
		{"an output directory", "to-place", "real/place/", nil, true},
		{"an output directory behind links", "real/place/", "link/place/", nil, true},
		{"the store", "link/place", "out.txt", func(s *job.Spec) { s.Store = at("real/place") }, true},
		{"a file in an output directory", "real/place/x.txt", "link/place/", nil, false},
		{"the results that are split", "real/in.txt", "link/{}.txt", func(s *job.Spec) { s.Split = "k" }, true},
		{"results that are split elsewhere", "real/in.txt", "other/{}.txt", func(s *job.Spec) { s.Split = "k" }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			spec := job.Spec{Files: &job.Files{Input: []string{at(c.input)}}, Output: at(c.output), Format: "text"}
			if c.change != nil {
				c.change(&spec)
			}
			names, _, err := listed(t, spec)
			if !c.refused {
				require.NoError(t, err)
				require.Equal(t, []string{at(c.input)}, names)
				return
			}
			jobtest.RequireType(t, err, job.ErrorInput)
			require.ErrorContains(t, err, at(c.input))
			require.ErrorContains(t, err, "replace")
			require.ErrorContains(t, err, "name another")
		})
	}
}

// The query of a bucket's URL does not make another object of it, nor does another way to write its key.
func TestOwn_NamedObjectIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		input, output string
		refused       bool
	}{
		{"s3://b/x", "s3://b/x?region=eu", true},
		{"S3://b/x?region=us", "s3://b/x?region=eu", true},
		{"s3://b/x/y", "s3://b//x/y", true},
		{"s3://b/x/", "s3://b/x/?region=eu", true},
		{"s3://b/x", "s3://c/x", false},
		{"s3://b/x", "s3://b/y/x", false},
	} {
		err := checkNamed(job.Spec{Files: &job.Files{Input: []string{"-", c.input}}, Output: c.output}.WithDefaults())
		if !c.refused {
			require.NoError(t, err, "%+v", c)
			continue
		}
		jobtest.RequireType(t, err, job.ErrorInput)
		require.ErrorContains(t, err, "input "+c.input+" is the same as "+c.output)
	}
}

// What an earlier run has written is not an input of the next one, though a directory or a pattern finds it by another
// name.
func TestOwn_FoundByAnotherName(t *testing.T) {
	t.Parallel()
	at := ownTree(t)
	for _, c := range []struct {
		input, output string
		want          []string
		leftOut       int
	}{
		{"link/", "real/out.txt", []string{"link/in.txt", "link/place/manifest.jsonl", "link/place/x.txt"}, 3},
		{"real", "link/out.txt", []string{"real/in.txt", "real/place/manifest.jsonl", "real/place/x.txt"}, 3},
		{"link/*.txt", "real/out.txt", []string{"link/in.txt"}, 1},
		{"real", "to-place/", []string{"real/in.txt", "real/out.txt", "real/out.txt.errors.jsonl", "real/out.txt.stint/CURRENT"}, 2},
		{"real/place/*", "to-place/", []string{"real/place/x.txt"}, 1}, // the list of parts
		{"other/", "real/out.txt", []string{"other/in.txt"}, 1},        // a link to the output
	} {
		names, leftOut, err := listed(t, job.Spec{Files: &job.Files{Input: []string{at(c.input)}}, Output: at(c.output), Format: "text"})
		require.NoError(t, err)
		for i := range c.want {
			c.want[i] = at(c.want[i])
		}
		require.Equal(t, c.want, names, "%s of %s", c.output, c.input)
		require.Equal(t, c.leftOut, leftOut, "%s of %s", c.output, c.input)
	}
}

// A directory of a place is found behind a link, too.
func TestOwn_DirectoryOfAPlace(t *testing.T) {
	t.Parallel()
	at := ownTree(t)
	for _, name := range []string{"real/place/deep/x.txt", "other/plain/x.txt"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(at(name)), 0o777))
		require.NoError(t, os.WriteFile(at(name), []byte("x\n"), 0o666))
	}
	require.NoError(t, os.Symlink("../link/place/deep", at("other/deep")))
	names, leftOut, err := listed(t, job.Spec{Files: &job.Files{Input: []string{at("other/*/x.txt")}}, Output: at("real/place") + "/", Format: "text"})
	require.NoError(t, err)
	require.Equal(t, 1, leftOut)
	require.Equal(t, []string{at("other/plain/x.txt")}, names)
}

// Of an argument in an output's place all files but the job's own are inputs, also if there is a link on the way.
func TestOwn_ArgumentInAPlace(t *testing.T) {
	t.Parallel()
	at := ownTree(t)
	names, leftOut, err := listed(t, job.Spec{Files: &job.Files{Input: []string{at("link/place")}}, Output: at("real") + "/", Format: "text"})
	require.NoError(t, err)
	require.Zero(t, leftOut)
	require.Equal(t, []string{at("link/place/manifest.jsonl"), at("link/place/x.txt")}, names)

	// A link in a place leads elsewhere, one from elsewhere leads into it.
	require.NoError(t, os.Symlink("../in.txt", at("real/place/from")))
	require.NoError(t, os.Symlink("../real/place/x.txt", at("other/into")))
	for _, input := range []string{"link/place/from", "other/into", "other/in*"} {
		names, leftOut, err := listed(t, job.Spec{Files: &job.Files{Input: []string{at(input)}}, Output: at("real/place") + "/", Format: "text"})
		require.NoError(t, err)
		require.Zero(t, leftOut)
		require.NotEmpty(t, names)
	}
}

// One directory has one name, though it is mounted in two places: links stand for that here. On a file system without a
// difference between upper and lower case one file has several names: hard links stand for that.
func TestOwn_OneNameForOneFile(t *testing.T) {
	t.Parallel()
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, dir := range []string{"a/sub", "b"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o777))
	}
	own := ownFilesOf(job.Spec{Output: filepath.Join(root, "a", "out.txt"), Errors: filepath.Join(root, "b", "errors")})
	require.Equal(t, filepath.Join(root, "a", "out.txt"), own.name(filepath.Join(root, "a", "out.txt")))
	mounted := filepath.Join(root, "mounted")
	require.NoError(t, os.MkdirAll(filepath.Join(mounted, "sub"), 0o777))
	for i := range own.written {
		if own.written[i].path == filepath.Join(root, "a") {
			own.written[i].info, err = os.Stat(mounted)
			require.NoError(t, err)
		}
	}
	clear(own.dirs)
	require.Equal(t, filepath.Join(root, "a", "out.txt"), own.name(filepath.Join(mounted, "out.txt")))
	require.Equal(t, filepath.Join(root, "a", "sub", "in"), own.name(filepath.Join(mounted, "sub", "in")))
	require.Equal(t, filepath.Join(root, "b", "out.txt"), own.name(filepath.Join(root, "b", "out.txt")))

	require.NoError(t, os.WriteFile(filepath.Join(root, "b", "errors"), nil, 0o666))
	require.NoError(t, os.Link(filepath.Join(root, "b", "errors"), filepath.Join(root, "b", "Errors")))
	require.NoError(t, os.WriteFile(filepath.Join(root, "b", "ERRORS"), nil, 0o666))
	require.Equal(t, filepath.Join(root, "b", "errors"), own.name(filepath.Join(root, "b", "Errors")))
	require.Equal(t, filepath.Join(root, "b", "ERRORS"), own.name(filepath.Join(root, "b", "ERRORS")))
}
