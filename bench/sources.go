package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// sourcesLimit is that of the time in which a million files are planned, or those of a stopped job are.
const sourcesLimit = time.Minute

// manySources plans a job over a directory of small files, or resumes one that was stopped with every
// second batch done.
func manySources(dir, output, state string, resumed bool) error {
	access := &store.Access{Allow: []string{dir, state}}
	defer access.Close()
	spec := job.Spec{Name: "many", Pool: "many", Files: &job.Files{Input: []string{dir}}, Output: state + "/"}.WithDefaults()
	ref := wire.Ref{Job: spec.Name, Run: "first", Store: spec.Store}
	ctx := context.Background()
	to, err := access.Open(ctx, ref.Store)
	if err != nil {
		return err
	}
	began := time.Now()
	batches, key, err := planAll(ctx, access, to, ref, spec, nil)
	if err != nil {
		return err
	}
	if resumed {
		ref.Sources = key
		var entries []wire.Entry
		for i, b := range batches {
			if i%2 == 0 {
				entries = append(entries, wire.Entry{Batch: b, Part: ledger.NewToken(), OK: b.Count})
			}
		}
		manifest, err := ledger.WriteManifest(ctx, to, ref, 0, nil, entries, wire.Besides{})
		if err != nil {
			return err
		}
		began = time.Now()
		ref.Run, ref.Sources = "second", ""
		if batches, _, err = planAll(ctx, access, to, ref, spec, []string{manifest}); err != nil {
			return err
		}
	}
	var items int64
	for _, b := range batches {
		items += b.Count
	}
	took := time.Since(began)
	note := fmt.Sprintf("%s items in %s batches", text.Thousands(items), text.Thousands(int64(len(batches))))
	return reportLimited(output, took, took, sourcesLimit, note)
}

// planAll plans all pages in one worker, and returns the key of the source table, too.
func planAll(ctx context.Context, access *store.Access, to store.Dir, ref wire.Ref, spec job.Spec, resume []string) ([]wire.Batch, string, error) {
	in := wire.PlanInput{Ref: ref, Spec: spec, Batches: wire.FirstPage, Resume: resume}
	n := inputs.New(access, nil)
	defer n.Close()
	var all []wire.Batch
	for {
		page, err := n.Plan(ctx, to, in, n)
		if err != nil {
			return nil, "", err
		}
		batches, err := wire.DecodePage(page.Page)
		if err != nil {
			return nil, "", err
		}
		all = append(all, batches...)
		if page.Sources != "" {
			in.Ref.Sources = page.Sources
		}
		if page.Done {
			return all, in.Ref.Sources, nil
		}
		in.From, in.Batches, in.Sizing.Rate = page.Next, wire.PageBatches, 20_000*1000
	}
}

// files makes, once, a directory of so many files of one line.
func (b *bench) files(n int) string {
	dir := filepath.Join(b.dir, fmt.Sprintf("files-%d", n))
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if err := writeFiles(dir+".tmp", n); err != nil {
		fmt.Fprintln(os.Stderr, "bench: making data:", err)
	}
	_ = os.Rename(dir+".tmp", dir) // the row fails without it
	return dir
}

func writeFiles(dir string, n int) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i := range n {
		line := fmt.Appendf(nil, "{\"id\":%d,\"name\":\"customer %d\"}\n", i, i)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("record-%07d.jsonl", i)), line, 0o644); err != nil {
			return err
		}
	}
	return nil
}
