package worker

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// spoiled are answers that are no results.
var spoiled = map[string]string{
	"not UTF-8":              "\"caf\xe9\"",
	"a control character":    "\"a\x01b\"",
	"a carriage return":      "\"a\rb\"",
	"NaN":                    `{"a":NaN}`,
	"nested too deep":        strings.Repeat("[", 1001) + strings.Repeat("]", 1001),
	"nested beyond all ends": strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000),
}

// A program answers for three items at once, and the second answer is no result: it is that item's error, and it alone.
func TestD12_ASpoiledResultOfAProgramIsItsItemsError(t *testing.T) {
	t.Parallel()
	for name, value := range spoiled {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.options.Slots, f.options.CallItems, f.batch = 1, 3, 3
			h := Serve(f.script(`
read hello; echo '{"type":"ready"}'
while read call; do
	case $call in *bye*) exit;; esac
	printf '{"type":"results","id":1,"results":[{"value":1},{"value":'
	cat $BOX/value
	printf '},{"value":{"a":\r3}}]}\n'
done`))
			require.NoError(t, os.WriteFile(filepath.Join(f.dir, "value"), []byte(value), 0o600))
			o := f.run(h, "in.txt", "a\nb\nc\n")
			require.Equal(t, "1\n{\"a\": 3}\n", o.output)
			failure := o.only(t)
			require.EqualValues(t, 1, failure.Item)
			require.Equal(t, "InvalidResult", failure.Error.Type)
			require.Contains(t, failure.Error.Message, "the result is ")
			require.Empty(t, f.happened(slotReplaced))
		})
	}
}

func TestD12_ASpoiledResultOfAFunctionIsItsItemsError(t *testing.T) {
	t.Parallel()
	answer := func(_ context.Context, s string) (json.RawMessage, error) {
		if value, ok := spoiled[s]; ok {
			return json.RawMessage(value), nil
		}
		return json.RawMessage(`"` + s + `"`), nil
	}
	for name, h := range map[string]func() Handler{
		"each": func() Handler { return Each(answer) },
		"batch": func() Handler {
			return Batch(func(ctx context.Context, all []string) (values []json.RawMessage, err error) {
				for _, s := range all {
					value, _ := answer(ctx, s)
					values = append(values, value)
				}
				return values, nil
			})
		},
		"preprocess": func() Handler {
			return Preprocess(answer, Each(func(_ context.Context, s string) (string, error) { return s, nil }))
		},
	} {
		for _, codec := range []JSON{FastJSON, EncodingJSON} {
			for _, bad := range []string{"not UTF-8", "nested too deep"} {
				t.Run(name+" "+bad, func(t *testing.T) {
					t.Parallel()
					f := setup(t)
					o := f.run(Codec(codec, h()), "in.txt", lines("a", bad, "c"))
					require.Equal(t, "\"a\"\n\"c\"\n", o.output)
					require.EqualValues(t, 1, o.only(t).Item)
				})
			}
		}
	}
}

// Items that are nested too deep reach no handler, whatever its kind; those that may be do.
func TestD11_ItemsNestedTooDeepAreInvalid(t *testing.T) {
	t.Parallel()
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for name, h := range map[string]func(f *fixture) Handler{
		"exec": func(f *fixture) Handler { return Exec(f.script("sed s/.*/1/")) },
		"each": func(*fixture) Handler {
			return Each(func(context.Context, json.RawMessage) (int, error) { return 1, nil })
		},
		"serve": func(f *fixture) Handler { f.options.CallItems = 1; return f.answers("") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.options.Slots = 1
			o := f.run(h(f), "in.jsonl", lines(nested(1001), nested(9000), nested(1000)))
			require.Equal(t, "1\n", o.output)
			require.Len(t, o.failures, 2)
			for _, failure := range o.failures {
				require.Equal(t, "invalid", failure.Kind)
				require.Equal(t, "the item is nested deeper than 1,000", failure.Error.Message)
			}
		})
	}
}
