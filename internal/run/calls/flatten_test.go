package calls

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// randomJSON makes a JSON value with white space and whatever is easily spoilt in it.
func randomJSON(pick func(...string) string, depth int) string {
	space := pick("", "", " ", "\t", "\r")
	switch kind := pick("value", "value", "value", "list", "object"); {
	case kind == "list" && depth > 0:
		return space + "[" + randomJSON(pick, depth-1) + "," + randomJSON(pick, depth-1) + space + "]"
	case kind == "object" && depth > 0:
		return space + `{"a]":` + randomJSON(pick, depth-1) + space + `,"b\"":` + randomJSON(pick, depth-1) + "}"
	}
	return space + pick("1.50", "-0e+1", "true", "null", `"x"`, `",[]{}"`, `"\\"`, `"\\\""`, `"<&>"`, "\"\u2028é\"", `" a  b "`, "[]", "{}", strings.Repeat("[", 80)+strings.Repeat("]", 80)) + space
}

// B11: whatever outcomes an answer has, and however they have come, each list becomes its elements, compact, in the
// memory that it had, and a second time changes nothing.
func TestFlatten_B11_Random(t *testing.T) {
	t.Parallel()
	random := jobtest.Seeded(t, 11)
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	for range 3000 {
		var a Answer
		var want [][]string // of each item; nil: a fault
		drops := map[int]bool{}
		line := func() string {
			if random.IntN(6) == 0 {
				want = append(want, nil)
				return pick("", "null", `{"a":1}`, "[1", "[1,]", `"[]"`, "[\"\xff\"]", "[1] 2", "7", "[01]")
			}
			elements, lines := []string{}, []string{}
			for range random.IntN(4) {
				element := randomJSON(pick, 3)
				var compact bytes.Buffer
				require.NoError(t, json.Compact(&compact, []byte(element)))
				elements, lines = append(elements, element), append(lines, compact.String())
			}
			want = append(want, lines)
			return pick("", " ") + "[" + strings.Join(elements, ",") + pick("", " ") + "]" + pick("", "\r")
		}
		for range random.IntN(6) {
			switch random.IntN(4) {
			case 0:
				drops[len(want)] = true
				want = append(want, []string{})
				a.Drop()
			case 1:
				want = append(want, nil)
				a.Fail(&Fault{Kind: job.KindError, Err: job.Error{Message: "its own"}}, 3)
			case 2:
				var text strings.Builder
				n := random.IntN(4)
				for range n {
					text.WriteString(line() + "\n")
				}
				read, err := a.ReadLines(strings.NewReader(text.String()), 1, 1<<20)
				require.NoError(t, err)
				require.NoError(t, a.Accept(read, n))
			default:
				a.Line([]byte(line()))
			}
		}
		before := len(a.Buf)
		for range 2 {
			a.Flatten(false)
			require.LessOrEqual(t, len(a.Buf), before)
			require.Equal(t, len(want), a.Len())
			i := 0
			a.Each(func(o Span) {
				require.Equal(t, want[i] == nil, o.Fault != nil, "item %d", i)
				require.Equal(t, drops[i], o.Drop)
				if o.Fault != nil && o.Fault.Kind == job.KindInvalid {
					require.EqualValues(t, 1, o.Tries)
				}
				text := ""
				for _, line := range want[i] {
					text += line + "\n"
				}
				require.Equal(t, text, string(a.Bytes(o)))
				i++
			})
		}
	}
}

// Faults of answers that are not lists count like any other, so that the outcomes are recorded one by one.
func TestFlatten_CountsFaults(t *testing.T) {
	t.Parallel()
	var a Answer
	for i := range 3 {
		a.Line(fmt.Appendf(nil, "%d", i))
	}
	a.Flatten(true)
	require.Equal(t, 3, a.Special)
	require.Empty(t, a.Buf)
	require.Positive(t, a.texts)
	a.Reset()
	a.Line([]byte("null"))
	a.Flatten(true)
	require.Zero(t, a.Special)
}

// An item that is to be called again has no list yet.
func TestFlatten_ItemsThatWait(t *testing.T) {
	t.Parallel()
	var a Answer
	a.hold(nil)
	a.Line([]byte(`[1,2]`))
	a.hold(&Fault{})
	a.Flatten(false)
	require.Equal(t, "1\n2\n", string(a.Buf))
	var later []bool
	a.Each(func(o Span) { later = append(later, o.Later) })
	require.Equal(t, []bool{true, false, true}, later)
}
