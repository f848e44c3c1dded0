package store_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/data/store"
)

var expandFiles = []string{
	"a.jsonl", "b.jsonl", "b.csv", "c d.jsonl", "e[1].jsonl", "e1.jsonl", ".hidden.jsonl",
	"day-2/x.jsonl", "day-10/x.jsonl", "day-10/y.csv", "day-10/.git/x.jsonl", ".conf/z.jsonl", "a-b/x.jsonl", "a/x.jsonl",
}

func TestExpand(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, arg string
		want      []string
	}{
		{"a file", "b.csv", []string{"b.csv"}},
		{"a hidden file by name", ".hidden.jsonl", []string{".hidden.jsonl"}},
		{"a space", "c d.jsonl", []string{"c d.jsonl"}},
		{"star", "*.jsonl", []string{"a.jsonl", "b.jsonl", "c d.jsonl", "e1.jsonl", "e[1].jsonl"}},
		{"question mark", "?.jsonl", []string{"a.jsonl", "b.jsonl"}},
		{"alternatives", "b.{csv,jsonl}", []string{"b.csv", "b.jsonl"}},
		{"a class", "[ab].jsonl", []string{"a.jsonl", "b.jsonl"}},
		{"a literal name wins over a class", "e[1].jsonl", []string{"e[1].jsonl"}},
		{"star in a directory's name", "day-*/x.jsonl", []string{"day-10/x.jsonl", "day-2/x.jsonl"}},
		{"two stars", "**/*.csv", []string{"b.csv", "day-10/y.csv"}},
		{"two stars below", "day-10/**", []string{"day-10/x.jsonl", "day-10/y.csv"}},
		{"star takes no directories", "day-1*", nil},
		{"hidden by a glob with the dot", ".*.jsonl", []string{".hidden.jsonl"}},
		{"hidden directory named", ".conf/*", []string{".conf/z.jsonl"}},
		{"directory", "day-10/", []string{"day-10/x.jsonl", "day-10/y.csv"}},
		{"everything", "", []string{
			"a-b/x.jsonl", "a.jsonl", "a/x.jsonl", "b.csv", "b.jsonl", "c d.jsonl", "day-10/x.jsonl", "day-10/y.csv",
			"day-2/x.jsonl", "e1.jsonl", "e[1].jsonl",
		}},
		{"nothing", "*.parquet", nil},
		{"nothing in no directory", "no/such/*.jsonl", nil},
	}
	eachKind(t, func(t *testing.T, k kind) {
		access := newAccess(t)
		location := k.place(t)
		put(t, open(t, access, location), expandFiles...)
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				arg := under(location, c.arg)
				inputs, err := expandAll(t, access, []string{arg})
				if c.want == nil {
					var noMatch *store.NoMatchError
					require.ErrorAs(t, err, &noMatch)
					require.Equal(t, arg, noMatch.Arg)
					require.True(t, store.Permanent(err))
					return
				}
				require.NoError(t, err)
				requireInputs(t, access, location, c.want, inputs)
			})
		}
	})
}

// requireInputs checks names, and that looking an input up again says the same of it.
func requireInputs(t *testing.T, access *store.Access, location string, want []string, inputs []store.Input) {
	t.Helper()
	var got []string
	base, query, _ := strings.Cut(location, "?")
	for _, input := range inputs {
		name, found := strings.CutPrefix(input.URL, base+"/")
		require.True(t, found, input.URL)
		if query != "" {
			name, found = strings.CutSuffix(name, "?"+query)
			require.True(t, found, input.URL)
		}
		got = append(got, name)
		require.EqualValues(t, len("content of "+name), input.Size)
		require.Equal(t, filepath.Base(name), input.Key)
		info, err := access.StatInput(t.Context(), input.URL)
		require.NoError(t, err)
		require.Equal(t, input.Info, info)
	}
	require.Equal(t, want, got)
}

func TestExpandSeveral(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, k kind) {
		access := newAccess(t)
		location := k.place(t)
		put(t, open(t, access, location), expandFiles...)
		inputs, err := expandAll(t, access, []string{under(location, "b.jsonl"), under(location, "?.jsonl"), under(location, "a.jsonl")})
		require.NoError(t, err)
		requireInputs(t, access, location, []string{"b.jsonl", "a.jsonl", "b.jsonl", "a.jsonl"}, inputs)
		_, err = expandAll(t, access, []string{under(location, "b.jsonl"), under(location, "missing.jsonl")})
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.ErrorContains(t, err, "missing.jsonl")
		require.True(t, store.Permanent(err))
		_, err = expandAll(t, access, []string{under(location, "b.{csv")})
		require.ErrorAs(t, err, new(*store.LocationError))
		_, err = expandAll(t, access, []string{""})
		require.ErrorAs(t, err, new(*store.LocationError))
		inputs, err = expandAll(t, access, nil)
		require.NoError(t, err)
		require.Empty(t, inputs)
	})
}

func TestExpandHints(t *testing.T) {
	t.Parallel()
	access := newAccess(t)
	put(t, open(t, access, "mem://hints"), "data/x.jsonl")
	_, err := expandAll(t, access, []string{"mem://hints/data"})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "add a / at its end")
	inputs, err := expandAll(t, access, []string{"mem://hints"})
	require.NoError(t, err)
	require.Equal(t, "mem://hints/data/x.jsonl", inputs[0].URL)

	root := t.TempDir()
	_, err = expandAll(t, access, []string{filepath.Join(root, "x.jsonl")})
	require.ErrorContains(t, err, "it must be where the worker runs")
	_, err = expandAll(t, access, []string{root})
	require.ErrorAs(t, err, new(*store.NoMatchError))
}

func TestExpandFileURL(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("written for slashes")
	}
	root := t.TempDir()
	access := newAccess(t)
	put(t, open(t, access, "file://"+root), "a b.jsonl", "c.jsonl")
	for arg, want := range map[string]int{"/a%20b.jsonl": 1, "/a b.jsonl": 1, "/*.jsonl": 2, "/": 2, "": 2} {
		inputs, err := expandAll(t, access, []string{"file://" + root + arg})
		require.NoError(t, err, arg)
		require.Len(t, inputs, want, arg)
		require.True(t, filepath.IsAbs(inputs[0].URL), "paths, not URLs")
	}
	r, err := access.OpenInput(t.Context(), "file://"+root+"/a%20b.jsonl", 1, 3)
	require.NoError(t, err)
	require.NoError(t, r.Close())
}

func TestExpandRelative(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	access := newAccess(t)
	put(t, open(t, access, "in"), "x.jsonl", "y.jsonl")
	for _, arg := range []string{"in", "in/", "./in/*", "in/../in/?.jsonl"} {
		inputs, err := expandAll(t, access, []string{arg})
		require.NoError(t, err, arg)
		require.Len(t, inputs, 2, arg)
		require.True(t, filepath.IsAbs(inputs[0].URL))
	}
	_, err := expandAll(t, access, []string{"in/x.jsonl/"})
	require.Error(t, err, "a file is no directory")
	require.True(t, store.Permanent(err))
}

// TestExpandOddDirectory works in a directory whose name looks like a pattern.
func TestExpandOddDirectory(t *testing.T) {
	root := filepath.Join(t.TempDir(), "run[1]{a,b}")
	require.NoError(t, os.Mkdir(root, 0o777))
	t.Chdir(root)
	access := newAccess(t)
	put(t, open(t, access, root), "x.jsonl", "y[1]/x.jsonl", "y1/x.jsonl")
	for arg, want := range map[string]int{"*.jsonl": 1, root + "/*.jsonl": 1, "y[1]/*": 1, "y*/*": 2, "y[1-2]/*": 1} {
		inputs, err := expandAll(t, access, []string{arg})
		require.NoError(t, err, arg)
		require.Len(t, inputs, want, arg)
	}
}

func TestExpandLinks(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir := open(t, newAccess(t), root)
	put(t, dir, "elsewhere/x.jsonl", "data/y.jsonl")
	data := filepath.Join(root, "data")
	if err := os.Symlink(filepath.Join(root, "elsewhere", "x.jsonl"), filepath.Join(data, "x.jsonl")); err != nil {
		t.Skip("no symbolic links here")
	}
	require.NoError(t, os.Symlink(filepath.Join(root, "elsewhere"), filepath.Join(data, "tree")))
	require.NoError(t, os.Symlink(data, filepath.Join(data, "circle")))
	for arg, want := range map[string][]string{
		"data":        {"data/x.jsonl", "data/y.jsonl"},
		"data/**":     {"data/x.jsonl", "data/y.jsonl"},
		"data/*":      {"data/x.jsonl", "data/y.jsonl"},
		"data/tree":   {"data/tree/x.jsonl"},
		"data/t*/*":   {"data/tree/x.jsonl"},
		"data/tree/*": {"data/tree/x.jsonl"},
	} {
		inputs, err := expandAll(t, newAccess(t), []string{filepath.Join(root, arg)})
		require.NoError(t, err, arg)
		var got []string
		for _, input := range inputs {
			got = append(got, strings.TrimPrefix(input.URL, root+"/"))
		}
		require.Equal(t, want, got, arg)
	}
	require.NoError(t, os.Symlink(filepath.Join(root, "nowhere"), filepath.Join(data, "broken")))
	_, err := expandAll(t, newAccess(t), []string{data})
	require.ErrorIs(t, err, fs.ErrNotExist, "what cannot be read is not left out")
	require.ErrorContains(t, err, "broken")
}

func TestInputs(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, k kind) {
		access := newAccess(t)
		location := k.place(t)
		put(t, open(t, access, location), "x.jsonl", "what?.jsonl", "a?b=c")
		for _, name := range []string{"x.jsonl", "what?.jsonl"} {
			r, err := access.OpenInput(t.Context(), under(location, name), 0, 7)
			require.NoError(t, err)
			require.NoError(t, r.Close())
		}
		inputs, err := expandAll(t, access, []string{under(location, "")})
		require.NoError(t, err)
		require.Len(t, inputs, 3)
		for _, input := range inputs {
			r, err := access.OpenInput(t.Context(), input.URL, 0, -1)
			require.NoError(t, err, input.URL)
			require.NoError(t, r.Close())
		}
		for _, name := range []string{"missing", "x.jsonl/y"} {
			_, err = access.OpenInput(t.Context(), under(location, name), 0, -1)
			require.Error(t, err)
			require.True(t, store.Permanent(err))
			_, err = access.StatInput(t.Context(), under(location, name))
			require.Error(t, err)
			require.True(t, store.Permanent(err))
		}
		_, err = access.StatInput(t.Context(), location)
		require.Error(t, err, "not a file")
		require.True(t, store.Permanent(err))
	})
}

// expandAll collects the inputs up to the first error.
func expandAll(t *testing.T, a *store.Access, args []string) (found []store.Input, err error) {
	t.Helper()
	for input, err := range a.Expand(t.Context(), args) {
		if err != nil {
			return nil, err
		}
		found = append(found, input)
	}
	return found, nil
}
