package location

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPattern(t *testing.T) {
	t.Parallel()
	for location, want := range map[string]bool{
		"{}": true, "out/{}.jsonl": true, "/a/b-{}-c": true, "s3://b/out/{}?x={}": true, "s3://b/{}?region=r": true,
		"": false, "out.jsonl": false, "out/": false, "{}/out": false, "{}{}": false, "{}/{}": false, "out/{}/": false, "s3://b/out?x={}": false, "{x}": false,
	} {
		require.Equal(t, want, IsPattern(location), "%q", location)
	}
	require.Equal(t, "x{}.y", PatternName("s3://b/out/x{}.y?region=r"))
	require.Equal(t, "out/v.jsonl", Fill("out/{}.jsonl", "v"))
	for location, want := range map[string]bool{
		"out/a.jsonl": true, "out/_none.jsonl": true, "out/_empty.jsonl": true,
		"out/_errors.jsonl": false, "out/.jsonl": false, "out/a/b.jsonl": false, "a.jsonl": false, "out/a.json": false,
	} {
		require.Equal(t, want, Covers("out/{}.jsonl", location), "%q", location)
	}
}

func TestValueName(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"": "_empty", "a": "a", "New York": "New%20York", "ü-1.5_x": "ü-1.5_x", ".": "%2E", "..": "%2E.", ".hidden": "%2Ehidden", "_none": "%5Fnone",
		"a/b": "a%2Fb", `a\b`: "a%5Cb", "50%": "50%25", "\x00": "%00", "\xff": "%FF", "\ufffd": "%EF%BF%BD", "a.lock": "a%2Elock", ".lock": "%2Elock", "x.locks": "x.locks",
		strings.Repeat("a", 150): strings.Repeat("a", 150),
	} {
		require.Equal(t, want, ValueName(value), "%q", value)
	}
	random := rand.New(rand.NewPCG(1, 1))
	seen := map[string]string{}
	pieces := []string{"a", "_", ".", "/", "%", "%2F", "é", "\xff", "~", ".lock", " ", "😀", "\n", strings.Repeat("x", 60)}
	for range 20_000 {
		value := ""
		for range random.IntN(9) {
			value += pieces[random.IntN(len(pieces))]
		}
		name := ValueName(value)
		if other, ok := seen[name]; ok {
			require.Equal(t, other, value, "both have the name %q", name)
		}
		seen[name] = value
		require.LessOrEqual(t, len(name), maxValue+1+sumLength)
		require.True(t, filepath.IsLocal(name) && filepath.Base(name) == name, "%q", name)
		require.True(t, Covers("o/{}.x", "o/"+name+".x"), "%q", name)
	}
}
