package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// reuseRows compare jobs that take results of the run before with jobs that run all items.
func (b *bench) reuseRows() []row {
	million, tenMillion := b.items(1_000_000), b.items(10_000_000)
	cat := []string{"--exec", "cat"}
	tr := []string{"--exec", "tr a-z A-Z"}
	slow := []string{"--serve", b.child + " sleeps 1ms", "--slots", "2", "--call-items", "1"}
	return []row{
		{
			name: "reuse, 1M items, nothing has changed", limit: "≤ 1.1",
			before: func() error { return b.hasRun(b.lines(million), cat) },
			stint:  func() *exec.Cmd { return b.again("--reuse", b.reuseInput(), cat) },
			peer:   func() *exec.Cmd { return b.again("--fresh", b.reuseInput(), cat) },
			note:   func() string { return "against the same job without --reuse" },
		},
		{
			name: "reuse, 1 % changed, 1 ms each", limit: "≤ 0.15",
			before: func() error {
				if err := b.hasRun(b.lines(b.items(50_000)), slow); err != nil {
					return err
				}
				return exec.Command("sed", "-i", "0~100s/..$/7&/", b.reuseInput()).Run()
			},
			stint: func() *exec.Cmd { return b.again("--reuse", b.reuseInput(), slow) },
			peer:  func() *exec.Cmd { return b.again("--fresh", b.reuseInput(), slow) },
			note:  func() string { return "against a run of all items, 50,000" },
		},
		{
			name: "reuse, results of 10M tr are kept", limit: "≤ 1.05", before: b.fresh,
			stint: func() *exec.Cmd { return b.again("--reuse", b.lines(tenMillion), tr) },
			peer:  func() *exec.Cmd { return b.again("--fresh", b.lines(tenMillion), tr) },
			note:  func() string { return "against the same job without --reuse" },
		},
		{
			name: "plan --reuse, 1M items", limit: "≤ 3",
			before: func() error { return b.hasRun(b.lines(million), cat) },
			stint: func() *exec.Cmd {
				cmd := exec.Command(b.stint, "plan", "--reuse", "--name", "reuse", b.reuseInput(), "--state", filepath.Join(b.dir, "state"))
				cmd.Dir = b.dir
				return cmd
			},
			peer: func() *exec.Cmd { return exec.Command("wc", "-l", b.reuseInput()) },
			note: func() string { return "against wc -l" },
		},
	}
}

// reuseInput is where the input lies of jobs that have run before.
func (b *bench) reuseInput() string { return filepath.Join(b.dir, "reuse.jsonl") }

// hasRun has a job run over a copy of an input, and keep its results, in a state of its own.
func (b *bench) hasRun(input string, handler []string) error {
	if err := b.fresh(); err != nil {
		return err
	}
	if out, err := exec.Command("cp", input, b.reuseInput()).CombinedOutput(); err != nil {
		return fmt.Errorf("copying the input: %w: %s", err, out)
	}
	cmd := b.again("--reuse", b.reuseInput(), handler)
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

// again runs a job; state and name are those of all rows here, but without --reuse.
func (b *bench) again(flag, input string, handler []string) *exec.Cmd {
	state := "state"
	if flag != "--reuse" {
		state = "state-peer"
	}
	args := append([]string{"run", "--quiet", flag, "--name", "reuse", input, "-o", filepath.Join(b.dir, state+".out"), "--state", filepath.Join(b.dir, state)}, handler...)
	cmd := exec.Command(b.stint, args...)
	cmd.Dir = b.dir
	return cmd
}
