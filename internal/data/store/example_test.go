package store_test

import (
	"context"
	"fmt"
	"hash/crc32"

	"github.com/stint-run/stint/internal/data/store"
)

func Example() {
	ctx := context.Background()
	access := &store.Access{} // everything may be reached
	defer access.Close()
	dir, err := access.Open(ctx, "mem://example/results")
	if err != nil {
		fmt.Println(err)
		return
	}
	w, err := dir.Create(ctx, "part-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Abort() // does nothing after a commit
	fmt.Fprintln(w, "a result")
	if err := w.Commit(); err != nil {
		fmt.Println(err)
		return
	}
	for info, err := range dir.List(ctx, "") {
		fmt.Println(info.Key, info.Size, err)
	}
	// Output: part-1 9 <nil>
}

func ExampleAccess_Expand() {
	ctx := context.Background()
	access := &store.Access{Allow: []string{"mem://example/data/"}}
	defer access.Close()
	dir, _ := access.Open(ctx, "mem://example/data")
	for _, key := range []string{"b.jsonl", "a.jsonl", "sub/c.jsonl", "notes.txt"} {
		_ = dir.Put(ctx, key, []byte("{}\n"))
	}
	for input, err := range access.Expand(ctx, []string{"mem://example/data/**/*.jsonl", "mem://example/*.jsonl"}) {
		fmt.Println(input.URL, input.Size, err)
	}
	// Output:
	// mem://example/data/a.jsonl 3 <nil>
	// mem://example/data/b.jsonl 3 <nil>
	// mem://example/data/sub/c.jsonl 3 <nil>
	//  0 input mem://example/*.jsonl matches no file (hidden ones do not count): check the pattern, and that the files lie where the worker runs
}

// Parts are joined into a file that appears only while the store names the run.
func ExampleJoin() {
	ctx := context.Background()
	access := &store.Access{}
	defer access.Close()
	parts, _ := access.Open(ctx, "mem://example/run-1")
	out, _ := access.Open(ctx, "mem://example/out")
	_ = parts.Claim(ctx, "CURRENT", "run-1", nil)

	table := crc32.MakeTable(crc32.Castagnoli)
	pieces := func(yield func(store.Piece, error) bool) {
		for i, text := range []string{"one\n", "two\n"} {
			key := fmt.Sprint("part-", i)
			err := parts.Put(ctx, key, []byte(text))
			if !yield(store.Piece{Key: key, Length: 4, Sum: crc32.Checksum([]byte(text), table)}, err) {
				return
			}
		}
	}
	publish := func(_ store.JoinResult, commit func() error) error {
		return parts.Guard(ctx, "CURRENT", "run-1", func(context.Context) error { return commit() })
	}
	result, err := store.Join(ctx, parts, pieces, out, "out.txt", store.JoinOptions{Publish: publish})
	fmt.Println(result.Bytes, err)
	data, err := out.Get(ctx, "out.txt")
	fmt.Printf("%s%v\n", data, err)
	// Output:
	// 8 <nil>
	// one
	// two
	// <nil>
}

func ExampleSplit() {
	dir, name, _ := store.Split("s3://bucket/results/out.jsonl?region=eu-west-1")
	fmt.Println(dir, name)
	// Output: s3://bucket/results?region=eu-west-1 out.jsonl
}
