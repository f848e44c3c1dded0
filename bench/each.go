package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/stint-run/stint/internal/base/text"
	"golang.org/x/sync/errgroup"
)

// eachRows compare a command for each item with what else runs one.
func (b *bench) eachRows() []row {
	items := b.items(20_000)
	input := func() string { return b.numbers(items) }
	against := func(peer, limit, command string) row {
		return row{
			name: "each true, against " + peer, limit: limit, before: b.fresh,
			stint: func() *exec.Cmd { return b.runEach("true", input()) },
			peer:  func() *exec.Cmd { return exec.Command("sh", "-c", command+" < "+input()) },
			note:  func() string { return text.Thousands(int64(items)) + " lines: " + command },
		}
	}
	ten := func() string { return b.numbers(10) }
	return []row{
		against("parallel", "≤ 0.6", "parallel -k -j2 true"),
		against("xargs", "≤ 1.15", "xargs -P2 -n1 true"),
		{
			name: "each true, against a Go loop", limit: "≤ 1.3", before: b.fresh,
			stint: func() *exec.Cmd { return b.runEach("true", input()) },
			peer:  func() *exec.Cmd { return b.role("bare-each", input()) },
			note:  func() string { return "as many processes, two at a time" },
		},
		{
			name: "each gzip -k, small files", limit: "≤ 1.2",
			before: func() error {
				if err := b.fresh(); err != nil {
					return err
				}
				return exec.Command("sh", "-c", "rm -f "+b.smallFiles(b.items(2000))+"/*.gz").Run()
			},
			stint: func() *exec.Cmd {
				cmd := b.runEach("gzip -kf {}", b.smallFiles(b.items(2000)))
				cmd.Args = append(cmd.Args, "--items", "names")
				return cmd
			},
			peer: func() *exec.Cmd {
				return exec.Command("sh", "-c", fmt.Sprintf("find %s -type f ! -name '*.gz' | xargs -P2 -n1 gzip -kf", b.smallFiles(b.items(2000))))
			},
			note: func() string { return "against xargs -P2 -n1" },
		},
		{
			name: "each true, 10 items", limit: "≤ 1.1", before: b.fresh,
			stint: func() *exec.Cmd { return b.runEach("true", ten()) },
			peer: func() *exec.Cmd {
				cmd := b.run1("cat", ten())
				cmd.Args = append(cmd.Args, "--format", "text")
				return cmd
			},
			note: func() string { return "against --exec" },
		},
	}
}

// runEach is `stint run` with a command for each item, two at a time.
func (b *bench) runEach(command, input string) *exec.Cmd {
	cmd := exec.Command(b.stint, "run", "--quiet", "-j2", "--each", command, input,
		"-o", filepath.Join(b.dir, "stint.out"), "--state", filepath.Join(b.dir, "state"))
	cmd.Dir = b.dir
	return cmd
}

// numbers makes, once, a file of so many numbers, a line each.
func (b *bench) numbers(items int) string {
	path := filepath.Join(b.dir, fmt.Sprintf("numbers-%d.txt", items))
	b.make(path, fmt.Sprintf("seq %d > %s", items, path))
	return path
}

// smallFiles makes, once, a directory of small files.
func (b *bench) smallFiles(files int) string {
	path := filepath.Join(b.dir, fmt.Sprintf("small-%d", files))
	b.make(path, fmt.Sprintf("mkdir %s && cd %s && seq %d | split -a 4 -l 20 - f.", path, path, 20*files))
	return path
}

// make runs a script that makes a file, unless the file is there.
func (b *bench) make(path, script string) {
	if _, err := os.Stat(path); err == nil {
		return
	}
	if err := exec.Command("sh", "-c", script).Run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench: making data:", err)
	}
}

// bareEach runs a command for each line of a file, two at a time.
func bareEach(input string) error {
	file, err := os.Open(input)
	if err != nil {
		return err
	}
	defer file.Close()
	var group errgroup.Group
	group.SetLimit(2)
	for lines := bufio.NewScanner(file); lines.Scan(); {
		number, err := strconv.Atoi(lines.Text())
		if err != nil {
			return err
		}
		group.Go(func() error { return exec.Command("true", strconv.Itoa(number)).Run() })
	}
	return group.Wait()
}
