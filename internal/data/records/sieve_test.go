package records

import (
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

// What passes a sieve, and what it leaves out, is what the items are, whatever the pieces.
func TestSieve(t *testing.T) {
	t.Parallel()
	random := jobtest.Seeded(t, rand.Uint64())
	for range 20_000 {
		s := wire.Shape{Format: []wire.Format{Text, JSONL}[random.IntN(2)], MaxItem: 1 + random.IntN(40)}
		requireSifted(t, sievedText(random), s, 1+random.IntN(60), random.IntN(2) == 0)
	}
}

// sievedText returns lines, of which some are blank, no JSON, or long.
func sievedText(random *rand.Rand) string {
	words := []string{"1", "{\"a\": 2}", " 3 ", "", " ", "\t\r", "bad", "\xff", "\"é\"", "[1,\r", strings.Repeat("7", 30), strings.Repeat(" ", 40)}
	var b strings.Builder
	for range random.IntN(12) {
		b.WriteString(words[random.IntN(len(words))])
		if random.IntN(8) == 0 {
			b.WriteString(words[random.IntN(len(words))])
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), []string{"", "\n"}[random.IntN(2)])
}

func requireSifted(t *testing.T, content string, s wire.Shape, piece int, bytewise bool) {
	t.Helper()
	items := readAll(t, newReader(strings.NewReader(content), s, 64), 100, 1<<20)
	var want strings.Builder
	var left, before []int64 // items that are left out; how many of them are before the line that is kept
	for i := range items {
		if line, err := AppendLine(&s, nil, &items[i]); err == nil {
			want.WriteString(string(line) + "\n")
			before = append(before, int64(len(left)))
		} else {
			left = append(left, int64(i))
		}
	}
	var got strings.Builder
	var dropped []int64
	keep := func(lines []byte) {
		got.Write(lines)
		if n := strings.Count(got.String(), "\n"); n > 0 {
			require.GreaterOrEqual(t, int64(len(dropped)), before[n-1], "%q", content)
		}
	}
	err := NewSieve(s).pass(t.Context(), source(content, bytewise), int64(len(items)), keep,
		func(index int64, item Item, err error) error {
			dropped = append(dropped, index)
			_, want := AppendLine(&s, nil, &items[index])
			require.EqualError(t, err, want.Error(), "%q", content)
			item.Err, items[index].Err = nil, nil
			require.Equal(t, items[index], Item{Raw: slices.Clone(item.Raw), Offset: item.Offset, Size: item.Size}, "%q", content)
			return nil
		}, make([]byte, piece))
	long := slices.ContainsFunc(strings.Split(content, "\n"), func(line string) bool { return len(line) > s.MaxItem })
	if errors.Is(err, ErrUnlike) && long {
		return // they are read as usual
	}
	require.NoError(t, err, "%q", content)
	require.Equal(t, left, dropped, "%q", content)
	require.Equal(t, want.String(), got.String(), "%q", content)
}

// A sieve for lines without gaps refuses blank ones, and passes others whatever they are.
func TestSieve_Gapless(t *testing.T) {
	t.Parallel()
	pass := func(content string) (string, error) {
		var got strings.Builder
		var dropped []string
		err := NewGaplessSieve(10).Pass(t.Context(), strings.NewReader(content), 3, func(lines []byte) { got.Write(lines) },
			func(_ int64, _ Item, err error) error { dropped = append(dropped, err.Error()); return nil })
		return strings.Join(append(dropped, got.String()), "; "), err
	}
	got, err := pass("a\n{\n\xff\r\n")
	require.NoError(t, err)
	require.Equal(t, "a\n{\n\xff\r\n", got)
	got, err = pass("a\nabcdefghijk\nc\n")
	require.NoError(t, err)
	require.Equal(t, "the item is 11 bytes long, over the limit of 10 bytes (max-item); a\nc\n", got)
	for _, blank := range []string{"\n", " \n", "\t\r\n"} {
		_, err = pass("a\n" + blank + "c\n")
		require.ErrorIs(t, err, ErrUnlike)
	}
}

// An error of the reader ends the pass, and so does another number of items.
func TestSieve_Ends(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	keep, drop := func([]byte) {}, func(int64, Item, error) error { return nil }
	r := io.MultiReader(strings.NewReader("a\nb\n"), iotest.ErrReader(broken))
	require.ErrorIs(t, NewSieve(wire.Shape{Format: Text}).Pass(t.Context(), r, 2, keep, drop), broken)
	require.ErrorIs(t, NewSieve(wire.Shape{Format: Text}).Pass(t.Context(), strings.NewReader("a\nb\n"), 3, keep, drop), ErrUnlike)
}
