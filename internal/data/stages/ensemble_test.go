package stages

import (
	"testing"

	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

// P2: what a filter has written need not be JSON, but cannot be in an ensemble's list then.
func TestView_MembersThatAreNoJSON(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	in := parcelOf(t, dir, 2, []string{`1`, `2`})
	member := func(number int, format string, items ...string) wire.Part {
		p := parcelOf(t, dir, 2, items).From.Parts[0]
		p.Number, p.Format = number, format
		return p
	}
	in.From.Parts = append(in.From.Parts, member(2, "jsonl", `{"a":1}`, `{"a":`), member(3, "text", `"plain"`, `b`))
	view := wire.View{Part: 1, Zip: []wire.View{{Part: 2}, {Part: 3}}, Stage: "score"}
	s, err := Open(t.Context(), in, Options{Store: opened(dir), View: view, Origin: noOrigin})
	require.NoError(t, err)
	defer s.Close()
	var chunk records.Chunk
	require.NoError(t, s.Next(&chunk, 10, 1000))
	require.Equal(t, `[{"a":1},"\"plain\""]`, string(chunk.Items[0].Raw))
	undone := chunk.Items[1].Outcome.Failure
	require.Equal(t, "score", undone.Stage)
	require.Contains(t, undone.Error.Message, `member 1 of 2 has answered with what is not JSON: {"a":`)
}
