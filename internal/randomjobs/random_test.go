package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeLab has a program that does nothing and ends with 0.
func fakeLab(t *testing.T) *lab {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "stint")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\nexit 0\n"), 0o755))
	return &lab{stint: program, self: "self", dir: dir}
}

// A job whose results are lost fails, and the simplest one that does is found and printed with its command.
func TestTry_FindsTheSimplestJob(t *testing.T) {
	t.Parallel()
	j := job{
		seed: 7, items: 200, format: "jsonl", files: 3, packed: ".gz", output: "file", fails: 20, broken: 20,
		flags: []string{"--slots", "2", "--window", "3"}, faults: []fault{{"kill", 0}, {"stop", 0}},
	}
	var out bytes.Buffer
	err := fakeLab(t).try(t.Context(), j, &out)
	require.ErrorContains(t, err, "1 job failed, seed 7")
	require.ErrorContains(t, err, "line 1 is missing")
	require.Contains(t, out.String(), "{seed:7 items:1 format:text files:1 packed: serve:false stages:0 output:file")
	require.NotContains(t, err.Error(), "--slots")
}

// A job of which nothing is expected passes: all its items fail, and are not recorded.
func TestTry_PassesWhatIsRight(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, fakeLab(t).try(t.Context(), job{seed: 1, items: 5, format: "text", files: 1, output: "file", fails: 1, onError: "drop"}, &out))
}

// What the filter answers is what the model says, in every format that it sees.
func TestFilter_AnswersAsTheModelSays(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		j := choose(seed, false, false)
		j.fails, j.broken, j.stages, j.output = 0, 0, 0, "file"
		if j.format != "text" {
			j.format = "jsonl" // records of tables reach a filter as JSON
		}
		items := j.makeItems()
		var in strings.Builder
		for line := range strings.Lines(string(j.encode(items))) {
			if line != "\n" {
				in.WriteString(line)
			}
		}
		var out bytes.Buffer
		require.NoError(t, filter(t.TempDir(), strings.NewReader(in.String()), &out))
		got := outcome{results: map[string][]string{"": j.lines(out.Bytes())}}
		require.Empty(t, j.model(items, false).differs(got), "seed %d", seed)
	}
}

func TestChoose_OneSeedOneJob(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		require.Equal(t, choose(seed, true, true), choose(seed, true, true))
		require.Equal(t, choose(seed, true, true).makeItems(), choose(seed, true, true).makeItems())
	}
}
