package inputs

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

// What Lines passes on, and what it leaves out, is what the items of the range are, whatever the pieces.
func TestLines_AreTheItems(t *testing.T) {
	t.Parallel()
	random := jobtest.Seeded(t, rand.Uint64())
	words := []string{"1", "{\"a\": 2}", " 3 ", "", " ", "\t\r", "bad", "\xff", "\"é\"", "[1,\r", strings.Repeat("7", 30), strings.Repeat(" ", 40), "\"" + strings.Repeat("x", 60) + "\""}
	for range 2000 {
		content := randomLines(random, words)
		shape := wire.Shape{Format: []wire.Format{records.Text, records.JSONL}[random.IntN(2)], MaxItem: 1 + random.IntN(70)}
		checkLines(t, content, shape)
	}
}

func randomLines(random *rand.Rand, words []string) string {
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

func checkLines(t *testing.T, content string, shape wire.Shape) {
	t.Helper()
	var items []records.Item
	var want strings.Builder
	var chunk records.Chunk
	reader := records.NewReader(strings.NewReader(content), shape)
	tooLong := slices.ContainsFunc(strings.Split(content, "\n"), func(line string) bool { return len(line) > shape.MaxItem })
	var left []int64
	for reader.Read(&chunk, 1, 1) == nil {
		item := chunk.Items[0]
		item.Raw = slices.Clone(item.Raw)
		line, err := records.AppendLine(&shape, nil, &item)
		if err != nil {
			left = append(left, int64(len(items)))
		} else {
			want.WriteString(string(line) + "\n")
		}
		items = append(items, item)
	}
	if len(items) == 0 {
		return // no batch
	}
	file := filepath.Join(t.TempDir(), "in")
	require.NoError(t, os.WriteFile(file, []byte(content), 0o666))
	batch := wire.Batch{Count: int64(len(items)), Length: int64(len(content))}
	source := &wire.Source{URL: file, Shape: shape}
	inputs := New(&store.Access{}, nil)
	defer inputs.Close()
	body, err := inputs.access.OpenInput(t.Context(), file, 0, -1)
	require.NoError(t, err)
	r := inputs.plainRange(t.Context(), source, batch, body)
	defer r.Close()
	lines := r.Lines()
	var got strings.Builder
	var gone []int64
	err = lines.Pass(t.Context(), func(lines []byte) { got.Write(lines) }, func(index int64, item records.Item, err error) error {
		gone = append(gone, index)
		require.EqualError(t, err, errorOf(&shape, &items[index]).Error(), "%q", content)
		require.Equal(t, items[index].Offset, item.Offset, "%q", content)
		require.Equal(t, items[index].Size, item.Size, "%q", content)
		require.Equal(t, string(items[index].Raw), string(item.Raw), "%q", content)
		return nil
	})
	if errors.Is(err, records.ErrUnlike) && tooLong {
		return // as usual, then
	}
	require.NoError(t, err, "%q", content)
	require.Equal(t, left, gone, "%q", content)
	require.Equal(t, want.String(), got.String(), "%q", content)
	lines.Done()
	done, rest := r.Split()
	require.Equal(t, batch, done)
	require.Nil(t, rest)
}

func errorOf(s *wire.Shape, item *records.Item) error {
	_, err := records.AppendLine(s, nil, item)
	return err
}

// Another number of items than was planned is an error, and so is what whoever gets the items says.
func TestLines_Ends(t *testing.T) {
	t.Parallel()
	inputs := New(&store.Access{}, nil)
	t.Cleanup(inputs.Close)
	file := filepath.Join(t.TempDir(), "in")
	require.NoError(t, os.WriteFile(file, []byte("1\nbad\n3\n"), 0o666))
	pass := func(ctx context.Context, count int64, drop error) error {
		body, err := inputs.access.OpenInput(t.Context(), file, 0, -1)
		require.NoError(t, err)
		r := inputs.plainRange(t.Context(), &wire.Source{URL: file, Shape: wire.Shape{Format: records.JSONL}}, wire.Batch{Count: count, Length: 8}, body)
		defer r.Close()
		return r.Lines().Pass(ctx, func([]byte) {}, func(int64, records.Item, error) error { return drop })
	}
	require.NoError(t, pass(t.Context(), 3, nil))
	require.ErrorIs(t, pass(t.Context(), 2, nil), records.ErrUnlike)
	enough := errors.New("enough")
	require.ErrorIs(t, pass(t.Context(), 3, enough), enough)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, pass(ctx, 3, nil), context.Canceled)
}
