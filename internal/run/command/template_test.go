package command

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// wordsOf returns the words of an item's command, or why it has none.
func wordsOf(t *testing.T, item Item, words ...string) ([]string, error) {
	t.Helper()
	template, err := Parse(words)
	require.NoError(t, err)
	return template.Words(&item)
}

// E2.
func TestTemplate_Placeholders(t *testing.T) {
	t.Parallel()
	text := Item{Data: []byte("a dir/b.tar.gz"), Number: 7, Slot: 2}
	columns := Item{Data: []byte("1\ttwo/2.txt\t"), Delimiter: "\t"}
	object := Item{Data: []byte(`{"name": "Ann", "n": 1.50, "tags": ["x", "y"], "a": {"b": "c/d.e"}, "a.b": "whole", "ok": true, "none": null}`), JSON: true}
	list := Item{Data: []byte(`["x y", 2, {"z": 3}]`), JSON: true}
	for _, c := range []struct {
		item Item
		word string
		want string
	}{
		{text, "{}", "a dir/b.tar.gz"},
		{text, "<{.}|{/}|{//}|{/.}>", "<a dir/b.tar|b.tar.gz|a dir|b.tar>"},
		{text, "{#}-{%}", "7-2"},
		{text, "{1}", "a dir/b.tar.gz"},
		{text, "{{}}{{{}}}", "{}{a dir/b.tar.gz}"},
		{text, "", ""},
		{columns, "{1},{2},{3},{-1},{-2/.},{2//},{2.}", "1,two/2.txt,,,2,two,two/2"},
		{object, "{name}={n} {tags} {ok}", `Ann=1.50 ["x","y"] true`},
		{object, "{a.b}", "c/d.e"},
		{object, "{a.b/.} {tags.1}", "d y"},
		{object, "{}", `{"name":"Ann","n":1.50,"tags":["x","y"],"a":{"b":"c/d.e"},"a.b":"whole","ok":true,"none":null}`},
		{list, `{1}|{2}|{3}|{-3}|{}`, `x y|2|{"z":3}|x y|["x y",2,{"z":3}]`},
		{Item{Data: []byte(`"é"`), JSON: true}, "{}", "é"},
		{Item{Data: []byte("\xff\xfe")}, "{}", "\xff\xfe"},
	} {
		got, err := wordsOf(t, c.item, "cmd", c.word, "{#}") // a placeholder, so that none is added
		require.NoError(t, err, c.word)
		require.Equal(t, c.want, got[1], c.word)
	}
}

// A template without a placeholder gets the item as its last word; the program is known if it has none.
func TestTemplate_Words(t *testing.T) {
	t.Parallel()
	got, err := wordsOf(t, Item{Data: []byte("-rf x")}, "ls", "-l", "{{")
	require.NoError(t, err)
	require.Equal(t, []string{"ls", "-l", "{", "-rf x"}, got)
	for words, program := range map[string]string{"ls -l": "ls", "{} x": "", "a{}": "", "a{{b": "a{b"} {
		template, err := Parse(strings.Fields(words))
		require.NoError(t, err)
		require.Equal(t, program, template.Program(), words)
	}
}

// E2.
func TestParse_Refuses(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"{":           `"{" has no } behind it: for a brace write {{`,
		"a}b":         `"}b" has no { before it: for a brace write }}`,
		"{0}":         "{0}: columns are counted from 1, or from the end: {-1} is the last one",
		"{print $1}":  "there is no placeholder {print $1}: there are {} {.} {/} {//} {/.} {#} {%} {1} {-1} {name} {a.b}; for braces write {{ and }}",
		"{a..b}":      "there is no placeholder {a..b}",
		"{ }":         "there is no placeholder { }",
		"{a{b}}":      "there is no placeholder {a{b}",
		"{x|y}":       "there is no placeholder {x|y}",
		"{\xff}":      "there is no placeholder {\xff}",
		"{name///.}x": "there is no placeholder {name///.}",
	} {
		_, err := Parse([]string{"cmd", word})
		require.ErrorContains(t, err, want, word)
	}
}

func TestTemplate_ValuesThatAreNone(t *testing.T) {
	t.Parallel()
	object := Item{Data: []byte(`{"a": null, "b": {"c": 1}, "nul": "x\u0000"}`), JSON: true}
	for _, c := range []struct {
		item Item
		word string
		want string
	}{
		{object, "{x}", `{x}: the item has no field "x"`},
		{object, "{a}", "{a}: the value is null"},
		{object, "{b.d}", `{b.d}: the item has no field "d"`},
		{object, "{b.c.d}", `{b.c.d}: there is no field "d" in what is no object`},
		{object, "{1}", "{1}: the item is no list, and has no columns"},
		{object, "{nul}", "{nul}: a word of a command cannot have a NUL byte, as this one at byte 1"},
		{Item{Data: []byte("a\x00b")}, "{}", "{}: a word of a command cannot have a NUL byte, as this one at byte 1"},
		{Item{Data: []byte("a b"), Delimiter: " "}, "{3}", "{3}: the item has only 2 columns"},
		{Item{Data: []byte("a b"), Delimiter: " "}, "{-3}", "{-3}: the item has only 2 columns"},
		{Item{Data: []byte("a b")}, "{name}", "{name}: a line of text has no fields"},
		{Item{Data: []byte("[null]"), JSON: true}, "{1}", "{1}: column 1: the value is null"},
		{Item{Data: []byte("12"), JSON: true}, "{a}", `{a}: there is no field "a" in what is no object`},
		{Item{Data: make([]byte, MaxWord+1)}, "{}", "{}: a word of a command cannot have a NUL byte"},
		{Item{Data: []byte(strings.Repeat("x", MaxWord))}, "a{}", "{}: the word has more than 131071 bytes"},
	} {
		_, err := wordsOf(t, c.item, "cmd", c.word)
		require.ErrorContains(t, err, c.want)
	}
	got, err := wordsOf(t, Item{Data: []byte(strings.Repeat("x", MaxWord))}, "cmd")
	require.NoError(t, err)
	require.Len(t, got[1], MaxWord)
}

func TestTemplate_StringsAndLists(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		item Item
		want []string
	}{
		{Item{Data: []byte(`"a\nb/c.txt" `), JSON: true}, []string{"a\nb/c.txt", "c", "a\nb/c.txt"}},
		{Item{Data: []byte(`"x:y.z"`), JSON: true, Delimiter: ":"}, []string{"x:y.z", "x:y", "x"}},
		{Item{Data: []byte(`["a b", 2, "c.d"]`), JSON: true, Columns: true}, []string{"a b 2 c.d", "a b 2 c", "a b"}},
		{Item{Data: []byte(`["a b", 2]`), JSON: true}, []string{`["a b",2]`, `["a b",2]`, "a b"}},
	} {
		words, err := wordsOf(t, c.item, "{}", "{/.}", "{1}")
		require.NoError(t, err)
		require.Equal(t, c.want, words)
	}
}

func TestTemplate_Out(t *testing.T) {
	t.Parallel()
	template, err := Parse([]string{"convert", "{}", "{out}"})
	require.NoError(t, err)
	require.True(t, template.NamesOut())
	words, err := template.Words(&Item{Data: []byte("a"), Out: "b"})
	require.NoError(t, err)
	require.Equal(t, []string{"convert", "a", "b"}, words)
	words, err = template.Words(&Item{Data: []byte(`{"out":1}`), JSON: true})
	require.NoError(t, err)
	require.Equal(t, []string{"convert", `{"out":1}`, "1"}, words)
	_, err = ParseName("out.png")
	require.ErrorContains(t, err, `"out.png" has no placeholder`)
	name, err := ParseName("out/{/.}.png")
	require.NoError(t, err)
	require.False(t, name.NamesOut())
}

// E1: Whatever a value holds, it is one word, and the words around it stay what they are.
func TestTemplate_ValuesStayInTheirWord(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	template, err := Parse([]string{"cmd", "{}", "a{}b", "--x={}", "{{{}}}"})
	require.NoError(t, err)
	for range 10_000 {
		value := randomValue(random)
		words, err := template.Words(&Item{Data: []byte(value)})
		require.NoError(t, err)
		require.Equal(t, []string{"cmd", value, "a" + value + "b", "--x=" + value, "{" + value + "}"}, words)
	}
}

// randomValue returns bytes of all kinds but NUL, of which many mean something to a shell.
func randomValue(random *rand.Rand) string {
	pieces := []string{
		"'", `"`, "`", "$(touch owned)", "${x}", "$1", ";", "&", "|", ">owned", "<", "\n", "\r", "\t", " ", "-rf", "--", "\\", "*", "?", "[a]", "~", "#",
		"!", "{}", "{{", "é", "\xff", "\x01", "\x7f", "()", "a[$(touch owned)]", "% d", "=", "", "x",
	}
	var b strings.Builder
	for range random.IntN(8) {
		if random.IntN(4) == 0 {
			b.WriteByte(byte(1 + random.IntN(255)))
			continue
		}
		b.WriteString(pieces[random.IntN(len(pieces))])
	}
	return b.String()
}
