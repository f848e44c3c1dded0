package failures

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

func failure(item int64, kind, typ, message string) *job.Failure {
	return &job.Failure{Item: item, Kind: kind, Error: job.Error{Type: typ, Message: message}}
}

func TestPattern(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"record 12 has no name\nTraceback":                  "record * has no name",
		"'bird'":                                            "'*'",
		`no field "a b" in {"x": 1}`:                        `no field "*" in {"*": *}`,
		"it can't be done, he said":                         "it can't be done, he said",
		"open /data/in-7.csv: no such file":                 "open *: no such file",
		"GET https://api.example.com/v1?q=3: 503":           "GET *: *",
		"key=a7, status=404, took 1.5s (12:30:01)":          "key=a*, status=*, took *s (*)",
		"user 550e8400-e29b-41d4-a716-446655440000 is gone": "user * is gone",
		"hash 9f86d081884c7d65 at 0xdeadbeef":               "hash * at *",
		"customer cus_9s6XKzkNRi: no card":                  "customer cus_*: no card",
		"cannot convert int64 to utf8":                      "cannot convert int* to utf*",
		"want one of [1, 2, 3], and not [4]":                "want one of [*], and not [*]",
		"mail jo@example.com bounced":                       "mail * bounced",
		`C:\temp\x.txt is in use`:                           "* is in use",
		"either/or is plain text.":                          "either/or is plain text.",
		"Zahl für 3 Vögel":                                  "Zahl für * Vögel",
		"":                                                  "",
		"at 2026-01-02T03:04:05Z":                           "at *T*Z",
		"x" + strings.Repeat(" y", 200):                     "x" + strings.Repeat(" y", 98) + "*",
		"unclosed 'quote of 7":                              "unclosed 'quote of *",
		"the `col7` of table='birds' has 3":                 "the `*` of table='*' has *",
	} {
		var p patterns
		require.Equal(t, want, p.of(failure(0, job.KindError, "", message)), message)
	}
	var p patterns
	require.Equal(t, "exit 3: line *", p.of(failure(0, job.KindExit, "", "exit 3: line 17")), "the status is the type")
}

func TestGroups(t *testing.T) {
	t.Parallel()
	var g Groups
	for i := range int64(30) {
		g.Add(failure(i, job.KindError, "ValueError", fmt.Sprintf("record %d has no name\nand more", i)))
		g.Add(failure(100+i%7, job.KindExit, "Exit", fmt.Sprintf("exit %d: line %d", 3+i%2, i)))
	}
	g.Add(failure(200, job.KindError, "error", "odd"))
	require.Equal(t, []job.FailureGroup{
		{Kind: job.KindError, Type: "ValueError", Pattern: "record * has no name", Count: 30, Item: 0, Message: "record 0 has no name"},
		{Kind: job.KindExit, Type: "Exit", Pattern: "exit 3: line *", Count: 15, Item: 100, Message: "exit 3: line 0"},
		{Kind: job.KindExit, Type: "Exit", Pattern: "exit 4: line *", Count: 15, Item: 101, Message: "exit 4: line 1"},
		{Count: 1},
	}, g.Largest(3))
}

// W1: the memory is bounded, however many messages there are: those of further patterns are together by kind and type, and
// nothing is lost from the counts.
func TestGroups_AreBounded(t *testing.T) {
	t.Parallel()
	var g Groups
	name := func(i int) string { return strings.Repeat("x", i%50) + strings.Repeat("y", i/50) }
	for i := range 2 * maxGroups {
		g.Add(failure(int64(i), job.KindError, "", name(i)))
	}
	require.Len(t, g.groups, maxGroups)
	all := g.Largest(MaxReported)
	require.Len(t, all, MaxReported+1)
	require.Equal(t, "*", all[0].Pattern)
	require.EqualValues(t, maxGroups, all[0].Count)
	require.EqualValues(t, maxGroups-MaxReported+1, all[MaxReported].Count)

	for i := range 2 * maxRests {
		g.Add(failure(0, job.KindError, name(i), "new"))
	}
	require.Len(t, g.rests, maxRests)
	sum := int64(0)
	for _, group := range g.Largest(5) {
		sum += group.Count
	}
	require.EqualValues(t, 2*maxGroups+2*maxRests, sum)
}

// W1: a group's expression selects all of its failures, and its texts are bounded, whatever the messages are. Also if the
// records come in pieces.
func TestGroups_Random(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	words := []string{
		"record", "7", "12:30", "'a b'", `"x"`, "`", `"`, "'", "/a/b", "*", "**", ",", ", ", "\\", `C:\x\y`, "0x1f", "é", "\x01", "…", "-",
		"[", "]", "=", "9f86d081", "int64", "\n", "a@b", strings.Repeat("long", 60), "https://x/y", "don't", "№5", "٣",
	}
	word := func(most int) (s string) {
		for range r.IntN(most) {
			s += words[r.IntN(len(words))]
			if r.IntN(2) == 0 {
				s += " "
			}
		}
		return s
	}
	var g Groups
	var all []*job.Failure
	reading := Records{Each: func(_ []byte, f *job.Failure) error {
		g.Add(f)
		all = append(all, f)
		return nil
	}}
	for i := range int64(2000) {
		f := failure(i, []string{job.KindError, job.KindExit, job.KindCrash}[r.IntN(3)], word(3), word(12))
		f.Input = json.RawMessage(`{"a":1}`)
		f.Stage = []string{"", "score", "a.b"}[r.IntN(3)]
		line, err := json.Marshal(f)
		require.NoError(t, err)
		line = append(line, '\n')
		cut := r.IntN(len(line))
		for _, piece := range [][]byte{line[:cut], line[cut:]} {
			_, err = reading.Write(piece)
			require.NoError(t, err)
		}
	}
	require.Len(t, all, 2000)
	counted := int64(0)
	for _, group := range g.Largest(1 << 20) {
		counted += group.Count
		for _, s := range []string{group.Type, group.Pattern, group.Message} {
			require.LessOrEqual(t, text.JSONSize(s)-len(`""`), MaxText)
		}
		if group.Kind == "" {
			require.Empty(t, group.Where())
			continue
		}
		matches, err := group.Where().Matcher()
		require.NoError(t, err, "%s", group.Where())
		selected := int64(0)
		for _, f := range all {
			var p patterns
			is := f.Kind == group.Kind && f.Stage == group.Stage && fit(f.Error.Type) == group.Type && p.of(f) == group.Pattern
			if is {
				require.True(t, matches(f), "%s does not select %q %q", group.Where(), f.Error.Type, f.Error.Message)
			}
			if matches(f) {
				selected++
			}
		}
		require.GreaterOrEqual(t, selected, group.Count)
	}
	require.EqualValues(t, 2000, counted)
}

func BenchmarkGroups(b *testing.B) {
	line, err := json.Marshal(&job.Failure{
		Item: 4711, Source: "/data/in.jsonl", Offset: 470012, Input: json.RawMessage(`{"id":4711,"name":"a bird","note":"` + strings.Repeat("x", 100) + `"}`),
		Kind: job.KindError, Error: job.Error{Type: "ValueError", Message: "record 4711 has no field 'name'", Stack: strings.Repeat("at line 7\n", 20)},
	})
	require.NoError(b, err)
	line = append(line, '\n')
	var g Groups
	reading := g.Writer()
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		_, err := reading.Write(line)
		require.NoError(b, err)
	}
}
