package valuelists

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args, rest string
		items      string // "": there are no lists
	}{
		{"run in.txt", "run in.txt", ""},
		{"start :::", "start :::", ""},
		{"run -q ::: a b", "run -q", `["a"] ["b"]`},
		{"run ::: a ::: 1 2 3", "run", `["a","1"] ["a","2"] ["a","3"]`},
		{"run ::: a b ::: 1 2", "run", `["a","1"] ["a","2"] ["b","1"] ["b","2"]`},
		{"run ::: a b c :::+ 1 2", "run", `["a","1"] ["b","2"]`},
		{"run ::: a b :::+ 1 2 3 ::: x y", "run", `["a","1","x"] ["a","1","y"] ["b","2","x"] ["b","2","y"]`},
		{"run ::: a ::: x y :::+ 1 2 :::+ p q", "run", `["a","x","1","p"] ["a","y","2","q"]`},
		{"run -- cmd --flag ::: --flag -- <&>", "run -- cmd --flag", `["--flag"] ["--"] ["<&>"]`},
	} {
		rest, lists, err := Split(strings.Fields(c.args))
		require.NoError(t, err, c.args)
		require.Equal(t, strings.Fields(c.rest), rest, c.args)
		if c.items == "" {
			require.Nil(t, lists, c.args)
			continue
		}
		for _, read := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader} {
			items, err := io.ReadAll(read(lists.Reader()))
			require.NoError(t, err)
			require.Equal(t, strings.Fields(c.items), strings.Fields(string(items)), c.args)
		}
	}
}

// A list is read as it is needed: the combinations of a few lists may be more than fit into memory.
func TestLists_ManyCombinations(t *testing.T) {
	t.Parallel()
	args := []string{"run"}
	for range 12 {
		args = append(append(args, ":::"), strings.Split("0123456789", "")...)
	}
	_, lists, err := Split(args)
	require.NoError(t, err)
	items := json.NewDecoder(lists.Reader())
	for _, want := range []string{"000000000000", "000000000001"} {
		var item []string
		require.NoError(t, items.Decode(&item))
		require.Equal(t, want, strings.Join(item, ""))
	}
	for range 1234 - 2 {
		var item []string
		require.NoError(t, items.Decode(&item))
	}
	var item []string
	require.NoError(t, items.Decode(&item))
	require.Equal(t, "000000001234", strings.Join(item, ""))
}
