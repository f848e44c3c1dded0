package main

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeLab has a program that does nothing and ends with 0.
func fakeLab(t *testing.T) *lab {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "stint")
	jobtest.WriteProgram(t, program, "#!/bin/sh\nexit 0\n")
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
	require.Contains(t, out.String(), "{seed:7 items:1 format:text files:1 packed: serve:false each:false reuse:false unique:false stages:0 output:file")
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

// A bucket has its outages, answers again when they are over, and is copied as it is.
func TestBucket_Outages(t *testing.T) {
	t.Parallel()
	b, err := newBucket()
	require.NoError(t, err)
	t.Cleanup(b.close)
	require.NoError(t, b.put("a/b.txt", []byte("content")))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	status := func() int {
		response, err := client.Get(b.server.URL + "/" + bucketName + "/a/b.txt")
		if err != nil {
			return 0
		}
		defer response.Body.Close()
		return response.StatusCode
	}
	for kind, want := range map[string]int{"refuse": http.StatusServiceUnavailable, "error": http.StatusInternalServerError, "reset": 0} {
		b.afflict(kind)
		require.Equal(t, want, status(), kind)
	}
	b.mu.Lock()
	b.until = time.Time{}
	b.mu.Unlock()
	require.Equal(t, http.StatusOK, status())
	dir := t.TempDir()
	require.NoError(t, b.fetch(dir))
	data, err := os.ReadFile(filepath.Join(dir, "a", "b.txt"))
	require.NoError(t, err)
	require.Equal(t, "content", string(data))
}

// All items are given to a feed, each by one client, in their order.
func TestFeed_ClientsGiveAllItems(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		j := job{seed: seed, items: 1 + int(seed)*3, format: "text"}
		items := j.makeItems()
		var all []item
		for _, c := range j.clients(items) {
			require.NotEmpty(t, c.items)
			all = append(all, c.items...)
		}
		require.Equal(t, items, all)
	}
}

// What a call prints is compared, and an item of which it prints nothing may have been accepted.
func TestFeed_WhatACallPrints(t *testing.T) {
	t.Parallel()
	j := job{format: "text", items: 3, seed: 1}
	items := []item{{n: 0, kind: "ok", value: "a"}, {n: 1, kind: "fail", value: "b"}, {n: 2, kind: "ok", value: "c"}}
	answered := "{\"index\":0,\"result\":\"000000 ok a+\"}\n{\"index\":1,\"error\":{\"kind\":\"error\"}}\n"
	f := &feedRun{j: j, unsure: map[int]bool{}}
	require.NoError(t, f.called(items, exitSomeFailed, answered+"{\"index\":2,\"res"))
	require.Equal(t, map[int]bool{2: true}, f.unsure)
	require.ErrorContains(t, f.called(items, exitOK, answered), "without a line")
	require.ErrorContains(t, f.called(items[2:], exitOK, answered), "for item 2, not")
}
