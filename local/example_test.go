package local_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/local"
	"github.com/stint-run/stint/worker"
)

// A job over a file, with a Go function: nothing else has to be installed or started.
func ExampleRun() {
	dir, err := os.MkdirTemp("", "example-*")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	input := filepath.Join(dir, "names.txt")
	if err := os.WriteFile(input, []byte("ada\ngrace\n"), 0o600); err != nil {
		panic(err)
	}

	greet := worker.Each(func(_ context.Context, name string) (string, error) {
		return "Hello, " + strings.ToUpper(name[:1]) + name[1:], nil
	})
	report, err := local.Run(context.Background(), job.Spec{Files: &job.Files{Input: []string{input}}}, greet, local.Options{Results: os.Stdout})
	if err != nil {
		panic(err)
	}
	fmt.Println(report.State, report.OK)
	// Output:
	// "Hello, Ada"
	// "Hello, Grace"
	// completed 2
}

// A handler that answers each item with a list, whose elements become lines, and results that go to a file for each
// value of a field.
func ExampleRun_severalResults() {
	dir, err := os.MkdirTemp("", "example-*")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	input := filepath.Join(dir, "texts.txt")
	if err := os.WriteFile(input, []byte("one two\n42 is three\n"), 0o600); err != nil {
		panic(err)
	}

	type word struct {
		Kind string `json:"kind"`
		Text string `json:"text"`
	}
	words := worker.Each(func(_ context.Context, text string) (words []word, err error) {
		for w := range strings.FieldsSeq(text) {
			kind := "word"
			if strings.Trim(w, "0123456789") == "" {
				kind = "number"
			}
			words = append(words, word{kind, w})
		}
		return words, nil
	})
	spec := job.Spec{Files: &job.Files{Input: []string{input}}, Flatten: true, Split: "kind", Output: filepath.Join(dir, "out/{}.jsonl")}
	report, err := local.Run(context.Background(), spec, words, local.Options{})
	if err != nil {
		panic(err)
	}
	numbers, err := os.ReadFile(filepath.Join(dir, "out/number.jsonl"))
	if err != nil {
		panic(err)
	}
	fmt.Printf("%d items, %d results in %d files\n%s", report.OK, report.Lines, report.Output.Files, numbers)
	// Output:
	// 2 items, 5 results in 2 files
	// {"kind":"number","text":"42"}
}

// A pipeline: each pool has its own handler, and a worker of its own.
func ExampleRun_pipeline() {
	dir, err := os.MkdirTemp("", "example-*")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	input := filepath.Join(dir, "names.txt")
	if err := os.WriteFile(input, []byte("ada\ngrace\n"), 0o600); err != nil {
		panic(err)
	}

	greet := worker.Each(func(_ context.Context, name string) (string, error) { return "Hello, " + name, nil })
	measure := worker.Each(func(_ context.Context, greeting string) (int, error) { return len(greeting), nil })
	report, err := local.Run(context.Background(), job.Spec{
		Files:  &job.Files{Input: []string{input}},
		Stages: []job.Stage{{Name: "greet", Pool: "greeters"}, {Name: "measure", Pool: "rulers"}},
	}, worker.Handler{}, local.Options{
		Results: os.Stdout,
		Pools: map[string]local.Pool{
			"greeters": {Handler: greet},
			"rulers":   {Handler: measure, Options: worker.Options{Slots: 2}},
		},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(report.State, report.OK)
	// Output:
	// 10
	// 12
	// completed 2
}
