package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/data/store"
)

// BenchmarkCommit writes and commits parts as Process does, in small writes.
func BenchmarkCommit(b *testing.B) {
	line := make([]byte, 100)
	for _, k := range kinds[:2] {
		for _, size := range []int{10_000, 10_000_000} {
			b.Run(fmt.Sprintf("%s/%d bytes", k.name, size), func(b *testing.B) {
				dir := setup(b, k)
				b.SetBytes(int64(size))
				for i := 0; b.Loop(); i++ {
					w, err := dir.Create(b.Context(), fmt.Sprintf("part-%d", i%20))
					require.NoError(b, err)
					for range size / len(line) {
						if _, err := w.Write(line); err != nil {
							b.Fatal(err)
						}
					}
					require.NoError(b, w.Commit())
				}
			})
		}
	}
}

// BenchmarkRawCommit is what the disk can do: one write, sync, rename, sync of the directory.
func BenchmarkRawCommit(b *testing.B) {
	for _, size := range []int{10_000, 10_000_000} {
		b.Run(fmt.Sprintf("%d bytes", size), func(b *testing.B) {
			dir := b.TempDir()
			data := make([]byte, size)
			b.SetBytes(int64(size))
			for i := 0; b.Loop(); i++ {
				temp := filepath.Join(dir, "temp")
				f, err := os.Create(temp)
				require.NoError(b, err)
				_, err = f.Write(data)
				require.NoError(b, err)
				require.NoError(b, f.Sync())
				require.NoError(b, f.Close())
				require.NoError(b, os.Rename(temp, filepath.Join(dir, fmt.Sprintf("part-%d", i%20))))
				d, err := os.Open(dir)
				require.NoError(b, err)
				require.NoError(b, d.Sync())
				require.NoError(b, d.Close())
			}
		})
	}
}

// BenchmarkJoin joins a gigabyte in pieces of 10 MB, and a tenth of that in pieces of 10 kB.
func BenchmarkJoin(b *testing.B) {
	for _, c := range []struct {
		name        string
		count, size int
	}{{"100 of 10 MB", 100, 10_000_000}, {"10000 of 10 kB", 10_000, 10_000}} {
		b.Run(c.name, func(b *testing.B) {
			from, to := setup(b, kinds[0]), setup(b, kinds[0])
			pieces, _ := putPieces(b, from, slices.Repeat([]int{c.size}, c.count)...)
			size := int64(c.count * c.size)
			b.SetBytes(size)
			for b.Loop() {
				result, err := store.Join(b.Context(), from, seq(pieces), to, "out", store.JoinOptions{Size: size})
				require.NoError(b, err)
				require.Equal(b, size, result.Bytes)
				b.StopTimer() // replacing a file takes its time, too
				require.NoError(b, to.Delete(b.Context(), "out"))
				b.StartTimer()
			}
		})
	}
}

func BenchmarkList(b *testing.B) {
	for _, k := range kinds[:2] {
		b.Run(k.name+"/10000 objects", func(b *testing.B) {
			dir := setup(b, k)
			if path, ok := dir.Local(); ok {
				require.NoError(b, os.MkdirAll(path, 0o777))
				for i := range 10_000 {
					require.NoError(b, os.WriteFile(filepath.Join(path, fmt.Sprint(i)), nil, 0o666))
				}
			} else {
				for i := range 10_000 {
					put(b, dir, fmt.Sprint(i))
				}
			}
			for b.Loop() {
				require.Len(b, keys(b, dir, ""), 10_000)
			}
		})
	}
}
