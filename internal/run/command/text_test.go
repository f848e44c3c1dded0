package command

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// For what quotes values in its own way there is the value in JSON, and as text.
func TestText_Values(t *testing.T) {
	t.Parallel()
	object := Item{Data: []byte(` {"s": "a\u00e9\"b", "n": 1.50, "o": {"x": [1, "y"]}, "f": "d/e.f", "nul": "\u0000"} `), JSON: true, Number: 3}
	list := Item{Data: []byte(`["x", 2]`), JSON: true}
	line := Item{Data: []byte("a\tb"), Delimiter: "\t", Slot: 4}
	for _, c := range []struct {
		item       Item
		inside     string
		json, text string
	}{
		{object, "s", `"a\u00e9\"b"`, `aé"b`},
		{object, "n", "1.50", "1.50"},
		{object, "o.x", `[1, "y"]`, `[1,"y"]`},
		{object, "o.x.1", `"y"`, "y"},
		{object, "f/.", `"e"`, "e"},
		{object, "nul", `"\u0000"`, "\x00"},
		{object, "#", "3", "3"},
		{list, "", `["x", 2]`, `["x",2]`},
		{list, "-1", "2", "2"},
		{list, "1", `"x"`, "x"},
		{Item{Data: []byte(` "t" `), JSON: true}, "", `"t"`, "t"},
		{line, "2", `"b"`, "b"},
		{line, "", `"a\tb"`, "a\tb"},
		{line, "%", "4", "4"},
	} {
		p, err := ParsePlaceholder(c.inside)
		require.NoError(t, err)
		value, err := p.JSON(&c.item)
		require.NoError(t, err, c.inside)
		require.Equal(t, c.json, string(value), c.inside)
		text, err := p.Text(&c.item)
		require.NoError(t, err, c.inside)
		require.Equal(t, c.text, text, c.inside)
	}
}

func TestText_ValuesThatAreNone(t *testing.T) {
	t.Parallel()
	p, err := ParsePlaceholder("x")
	require.NoError(t, err)
	for _, item := range []Item{{Data: []byte(`{"y": 1}`), JSON: true}, {Data: []byte("line")}} {
		_, err := p.JSON(&item)
		require.ErrorAs(t, err, new(*ValueError))
		_, err = p.Text(&item)
		require.ErrorAs(t, err, new(*ValueError))
	}
	p, err = ParsePlaceholder("3")
	require.NoError(t, err)
	_, err = p.JSON(&Item{Data: []byte(`[1]`), JSON: true})
	require.ErrorContains(t, err, "{3}: the item has only 1 columns")
	p, err = ParsePlaceholder("")
	require.NoError(t, err)
	_, err = p.JSON(&Item{Data: []byte("\xff")})
	require.ErrorContains(t, err, "not UTF-8")
}

func TestParseText(t *testing.T) {
	t.Parallel()
	text, err := ParseText("a {{x}} {b.c}d{}")
	require.NoError(t, err)
	var got []string
	for _, p := range text.Parts {
		if p.Value != nil {
			got = append(got, p.Value.String())
		} else {
			got = append(got, p.Text)
		}
	}
	require.Equal(t, []string{"a {x} ", "{b.c}", "d", "{}"}, got)
	_, err = ParseText("a {")
	require.Error(t, err)
}
