package records

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

// What is compressed is read back as one, and so is each long piece, alone and joined with others.
func TestD27_CompressorMakesMembers(t *testing.T) {
	t.Parallel()
	plain := func(c wire.Compression, data []byte) string {
		r, err := Decompress(bytes.NewReader(data), c)
		require.NoError(t, err)
		defer r.Close()
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		return string(text)
	}
	long, short := strings.Repeat("a long piece\n", 40_000), "a short piece\n"
	for _, c := range []wire.Compression{Gzip, Zstd} {
		var out bytes.Buffer
		z := NewCompressor(&out, c)
		var ends []int
		for _, piece := range []string{long, short, short, long, short} {
			_, err := z.Write([]byte(piece))
			require.NoError(t, err)
			require.NoError(t, z.EndPiece())
			ends = append(ends, out.Len())
		}
		require.NoError(t, z.Close())
		require.Equal(t, long+short+short+long+short, plain(c, out.Bytes()))
		require.Less(t, out.Len(), len(long)/10)
		first := out.Bytes()[:ends[0]]
		require.Equal(t, long, plain(c, first), "a member of its own")
		require.Equal(t, short+short+long, plain(c, out.Bytes()[ends[0]:ends[3]]), "short pieces have one together")
		require.Equal(t, long+long, plain(c, append(bytes.Clone(first), first...)))

		out.Reset()
		require.NoError(t, NewCompressor(&out, c).Close())
		require.NotZero(t, out.Len(), "a file of no bytes is not compressed data")
		require.Empty(t, plain(c, out.Bytes()))
	}
}

// No bytes begin no member: what ends after them, or is nothing else, is a whole file.
func TestCompressor_NoBytesBeginNoMember(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a long piece\n", 40_000)
	for _, c := range []wire.Compression{Gzip, Zstd} {
		for _, pieces := range [][]string{{""}, {"", ""}, {long, ""}, {"", long}, {long, "", long, ""}} {
			var out bytes.Buffer
			z := NewCompressor(&out, c)
			for _, piece := range pieces {
				_, err := z.Write([]byte(piece))
				require.NoError(t, err)
				require.NoError(t, z.EndPiece())
			}
			require.NoError(t, z.Close())
			require.NotZero(t, out.Len(), "%s %d", c, len(pieces))
			r, err := Decompress(&out, c)
			require.NoError(t, err)
			text, err := io.ReadAll(r)
			require.NoError(t, err, "%s %d", c, len(pieces))
			require.Equal(t, strings.Join(pieces, ""), string(text))
			require.NoError(t, r.Close())
		}
	}
}
