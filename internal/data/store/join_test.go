package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/test/jobtest"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// putPieces writes pieces of the given sizes and returns them with their concatenation.
func putPieces(t testing.TB, dir store.Dir, sizes ...int) ([]store.Piece, []byte) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	source := rand.NewChaCha8([32]byte{byte(seed)})
	var pieces []store.Piece
	var whole []byte
	for i, size := range sizes {
		data := make([]byte, size)
		_, _ = source.Read(data)
		key := fmt.Sprintf("parts/%04d", i)
		require.NoError(t, dir.Put(t.Context(), key, data))
		pieces = append(pieces, store.Piece{Key: key, Length: int64(size), Sum: crc32.Checksum(data, castagnoli)})
		whole = append(whole, data...)
	}
	return pieces, whole
}

func seq(pieces []store.Piece) iter.Seq2[store.Piece, error] {
	return func(yield func(store.Piece, error) bool) {
		for _, piece := range pieces {
			if !yield(piece, nil) {
				return
			}
		}
	}
}

// eachPair runs a test over every pair of kinds of stores.
func eachPair(t *testing.T, test func(t *testing.T, from, to store.Dir)) {
	t.Helper()
	for _, from := range kinds {
		for _, to := range kinds {
			t.Run(from.name+" to "+to.name, func(t *testing.T) {
				t.Parallel()
				test(t, setup(t, from), setup(t, to))
			})
		}
	}
}

func TestJoin(t *testing.T) {
	t.Parallel()
	const chunk = 4 << 20 // of a bucket; a multiple of a local one
	eachPair(t, func(t *testing.T, from, to store.Dir) {
		for name, sizes := range map[string][]int{
			"none": nil, "empty": {0}, "small": {1, 0, 2, 3, 0}, "exact": {chunk, 2 * chunk}, "around": {chunk - 1, chunk + 1, 10, 1<<20 + 1},
			"many": slices.Repeat([]int{10, 20, 3}, 50),
		} {
			pieces, whole := putPieces(t, from, sizes...)
			result, err := store.Join(t.Context(), from, seq(pieces), to, "out", store.JoinOptions{Size: int64(len(whole))})
			require.NoError(t, err, name)
			require.Equal(t, store.JoinResult{Bytes: int64(len(whole)), Sum: crc32.Checksum(whole, castagnoli)}, result, name)
			got, err := to.Get(t.Context(), "out")
			require.NoError(t, err)
			require.True(t, bytes.Equal(whole, got), name)
			require.Equal(t, []string{"out"}, keys(t, to, ""))
		}
	})
}

// TestJoinBegun: pieces may come over time, and the last ones with the Join that ends it.
func TestJoinBegun(t *testing.T) {
	t.Parallel()
	jobtest.Unraced(t)
	eachPair(t, func(t *testing.T, from, to store.Dir) {
		pieces, whole := putPieces(t, from, 10, 2<<20, 0, 3, 5<<20+1, 7)
		for first := range len(pieces) + 1 {
			j, err := store.BeginJoin(t.Context(), to, "out", store.JoinOptions{})
			require.NoError(t, err)
			for i := range first {
				require.NoError(t, j.Append(t.Context(), from, seq(pieces[i:i+1])))
			}
			require.Empty(t, keys(t, to, ""), "not visible before")
			result, err := store.Join(t.Context(), from, seq(pieces[first:]), to, "out", store.JoinOptions{Begun: j})
			require.NoError(t, err)
			require.Equal(t, store.JoinResult{Bytes: int64(len(whole)), Sum: crc32.Checksum(whole, castagnoli)}, result)
			got, err := to.Get(t.Context(), "out")
			require.NoError(t, err)
			require.True(t, bytes.Equal(whole, got), "%d pieces before", first)
			j.Abort()
			require.Equal(t, []string{"out"}, keys(t, to, ""), "too late to give it up")
			require.NoError(t, to.Delete(t.Context(), "out"))
		}
	})
}

// TestJoinHeld: pieces may be appended from memory, in any number of slices.
func TestJoinHeld(t *testing.T) {
	t.Parallel()
	eachPair(t, func(t *testing.T, from, to store.Dir) {
		pieces, whole := putPieces(t, from, 10, 2<<20, 0, 3, 5<<20+1, 7)
		j, err := store.BeginJoin(t.Context(), to, "out", store.JoinOptions{})
		require.NoError(t, err)
		rest := whole
		for i, p := range pieces {
			data := rest[:p.Length]
			rest = rest[p.Length:]
			if i%2 == 0 {
				require.NoError(t, j.Append(t.Context(), from, seq(pieces[i:i+1])))
			} else {
				require.NoError(t, j.AppendHeld(p, [][]byte{data[:1], nil, data[1:]}))
			}
		}
		result, err := store.Join(t.Context(), from, seq(nil), to, "out", store.JoinOptions{Begun: j})
		require.NoError(t, err)
		require.Equal(t, store.JoinResult{Bytes: int64(len(whole)), Sum: crc32.Checksum(whole, castagnoli)}, result)
		got, err := to.Get(t.Context(), "out")
		require.NoError(t, err)
		require.True(t, bytes.Equal(whole, got))

		j, err = store.BeginJoin(t.Context(), to, "out", store.JoinOptions{})
		require.NoError(t, err)
		require.ErrorAs(t, j.AppendHeld(pieces[0], [][]byte{whole[:9]}), new(*store.CorruptError))
		j.Abort()
		got, err = to.Get(t.Context(), "out")
		require.NoError(t, err)
		require.True(t, bytes.Equal(whole, got))
	})
}

func TestJoinBegunAndGivenUp(t *testing.T) {
	t.Parallel()
	eachPair(t, func(t *testing.T, from, to store.Dir) {
		require.NoError(t, to.Put(t.Context(), "out", []byte("old")))
		pieces, _ := putPieces(t, from, 10, 2<<20)
		j, err := store.BeginJoin(t.Context(), to, "out", store.JoinOptions{})
		require.NoError(t, err)
		require.NoError(t, j.Append(t.Context(), from, seq(pieces)))
		j.Abort()
		j.Abort()
		requireOld(t, to)

		j, err = store.BeginJoin(t.Context(), to, "out", store.JoinOptions{})
		require.NoError(t, err)
		pieces[1].Sum++
		require.ErrorAs(t, j.Append(t.Context(), from, seq(pieces)), new(*store.CorruptError))
		j.Abort()
		requireOld(t, to)
	})
}

func TestJoinCorrupt(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		spoil  func(t *testing.T, dir store.Dir, pieces []store.Piece)
		reason string
	}{
		{"missing", func(t *testing.T, dir store.Dir, p []store.Piece) {
			require.NoError(t, dir.Delete(t.Context(), p[1].Key))
		}, "is missing"},
		{"shorter", func(t *testing.T, dir store.Dir, p []store.Piece) {
			require.NoError(t, dir.Put(t.Context(), p[1].Key, make([]byte, p[1].Length-1)))
		}, fmt.Sprintf("has %d bytes, not %d", 6_000_000-1, 6_000_000)},
		{"empty", func(t *testing.T, dir store.Dir, p []store.Piece) {
			require.NoError(t, dir.Put(t.Context(), p[1].Key, nil))
		}, "bytes, not 6000000"},
		{"longer", func(t *testing.T, dir store.Dir, p []store.Piece) {
			require.NoError(t, dir.Put(t.Context(), p[1].Key, make([]byte, p[1].Length+1)))
		}, "has more than its 6000000 bytes"},
		{"changed", func(t *testing.T, dir store.Dir, p []store.Piece) {
			require.NoError(t, dir.Put(t.Context(), p[1].Key, make([]byte, p[1].Length)))
		}, "has the checksum"},
		{"another sum", func(_ *testing.T, _ store.Dir, p []store.Piece) { p[1].Sum++ }, "has the checksum"},
	}
	eachKind(t, func(t *testing.T, k kind) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				from, to := setup(t, k), setup(t, kinds[0])
				pieces, _ := putPieces(t, from, 100, 6_000_000, 100)
				c.spoil(t, from, pieces)
				_, err := store.Join(t.Context(), from, seq(pieces), to, "out", store.JoinOptions{})
				var corrupt *store.CorruptError
				require.ErrorAs(t, err, &corrupt)
				require.Equal(t, pieces[1].Key, corrupt.Key)
				require.Contains(t, corrupt.Reason, c.reason)
				require.Equal(t, c.name == "missing", errors.Is(err, fs.ErrNotExist))
				require.True(t, store.Permanent(err))
				local, _ := to.Local()
				require.NoDirExists(t, local, "nothing is left")
			})
		}
	})
}

func TestJoinEndsEarly(t *testing.T) {
	t.Parallel()
	failure := errors.New("failure")
	eachPair(t, func(t *testing.T, from, to store.Dir) {
		pieces, _ := putPieces(t, from, slices.Repeat([]int{100_000}, 30)...)
		require.NoError(t, to.Put(t.Context(), "out", []byte("old")))
		_, err := store.Join(t.Context(), from, func(yield func(store.Piece, error) bool) {
			_ = yield(pieces[0], nil) && yield(store.Piece{}, failure)
		}, to, "out", store.JoinOptions{})
		require.ErrorIs(t, err, failure)
		requireOld(t, to)

		_, err = store.Join(t.Context(), from, func(yield func(store.Piece, error) bool) {
			_ = yield(pieces[0], nil)
			panic("broken")
		}, to, "out", store.JoinOptions{})
		require.ErrorContains(t, err, "this is a defect of stint, please report it: planning to read parts: panic: broken")
		requireOld(t, to)

		ctx, cancel := context.WithCancel(t.Context())
		_, err = store.Join(ctx, from, func(yield func(store.Piece, error) bool) {
			for i, piece := range pieces {
				if i == 20 {
					cancel()
				}
				if !yield(piece, nil) {
					return
				}
			}
		}, to, "out", store.JoinOptions{})
		require.ErrorIs(t, err, context.Canceled)
		require.False(t, store.Permanent(err))
		requireOld(t, to)

		_, err = store.Join(t.Context(), from, seq([]store.Piece{{Key: "x", Length: -1}}), to, "out", store.JoinOptions{})
		require.ErrorIs(t, err, fs.ErrInvalid)
		requireOld(t, to)
		_, err = store.Join(t.Context(), from, seq(pieces), to, "../out", store.JoinOptions{})
		require.ErrorIs(t, err, fs.ErrInvalid)

		_, err = store.Join(t.Context(), from, seq(pieces), to, "out", store.JoinOptions{
			Publish: func(store.JoinResult, func() error) error { return failure },
		})
		require.ErrorIs(t, err, failure)
		requireOld(t, to)
		_, err = store.Join(t.Context(), from, seq(pieces), to, "out", store.JoinOptions{
			Publish: func(store.JoinResult, func() error) error { return nil },
		})
		require.Error(t, err, "a hook that forgets to commit")
		requireOld(t, to)
	})
}

// requireOld checks that a Dir holds the object it held before, and nothing else.
func requireOld(t *testing.T, dir store.Dir) {
	t.Helper()
	got, err := dir.Get(t.Context(), "out")
	require.NoError(t, err)
	require.Equal(t, "old", string(got))
	require.Equal(t, []string{"out"}, keys(t, dir, ""))
	if local, ok := dir.Local(); ok {
		require.Equal(t, []string{"out"}, files(t, local))
	}
}

// TestJoinGuarded publishes only while the store names the run.
func TestJoinGuarded(t *testing.T) {
	t.Parallel()
	eachPair(t, func(t *testing.T, from, to store.Dir) {
		pieces, whole := putPieces(t, from, 10, 20)
		guarded := func(run string) store.JoinOptions {
			return store.JoinOptions{Publish: func(joined store.JoinResult, commit func() error) error {
				return from.Guard(t.Context(), "CURRENT", run, func(context.Context) error {
					require.Empty(t, keys(t, to, "out"), "not visible before")
					require.EqualValues(t, len(whole), joined.Bytes)
					return commit()
				})
			}}
		}
		require.NoError(t, from.Claim(t.Context(), "CURRENT", "new", nil))
		_, err := store.Join(t.Context(), from, seq(pieces), to, "out", guarded("old"))
		require.ErrorAs(t, err, new(*store.FencedError))
		require.Empty(t, keys(t, to, "out"))
		_, err = store.Join(t.Context(), from, seq(pieces), to, "out", guarded("new"))
		require.NoError(t, err)
		got, err := to.Get(t.Context(), "out")
		require.NoError(t, err)
		require.Equal(t, whole, got)
	})
}
