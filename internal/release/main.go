// Command release makes what a release of stint consists of, in one folder: archives, packages for Debian and RPM, wheels,
// lists of what the programs link (SBOM), a formula for Homebrew, install.sh, what has changed, and checksums of all of it.
// `make release VERSION=v0.1.0` runs it. Two releases of one commit are equal, byte for byte.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

// options are the flags of the command.
type options struct {
	version   string
	dist      string
	platforms string
	modified  bool
	check     bool
}

func main() {
	var o options
	flag.StringVar(&o.version, "version", "", "the `VERSION`, such as v0.1.0")
	flag.StringVar(&o.dist, "dist", "dist", "`DIR` for the release; what is there is removed")
	flag.StringVar(&o.platforms, "platforms", strings.Join(platforms, ","), "`LIST` of the platforms")
	flag.BoolVar(&o.modified, "allow-modified", false, "also with changes that are not committed: the commit is then marked")
	flag.BoolVar(&o.check, "check", false, "make all of it twice, the second time from a copy of the commit elsewhere, and compare")
	flag.Parse()
	ctx, end := signal.NotifyContext(context.Background(), os.Interrupt)
	defer end()
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func (o *options) run(ctx context.Context) error {
	if o.check && o.modified {
		return errors.New("-check compares with the commit, which does not have what is modified: leave -allow-modified out")
	}
	wanted := strings.Split(o.platforms, ",")
	for _, p := range wanted {
		if !slices.Contains(platforms, p) {
			return fmt.Errorf("platform %q: use %s", p, strings.Join(platforms, ", "))
		}
	}
	r, err := describe(ctx, ".", o.version, o.modified)
	if err != nil {
		return err
	}
	if err := r.make(ctx, o.dist, wanted); err != nil || !o.check {
		return err
	}
	return r.checkCopy(ctx, o.dist, wanted)
}

// checkCopy makes the release again, from a copy of the commit in another folder, and compares the two.
func (r *release) checkCopy(ctx context.Context, dist string, wanted []string) error {
	dir, err := os.MkdirTemp("", "stint-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	source, second := filepath.Join(dir, "source"), filepath.Join(dir, "dist")
	if _, err := git(ctx, r.root, "worktree", "add", "--detach", "--quiet", source, r.commit); err != nil {
		return err
	}
	defer func() { _, _ = git(context.WithoutCancel(ctx), r.root, "worktree", "remove", "--force", source) }()
	again := *r
	again.root = source
	if err := again.make(ctx, second, wanted); err != nil {
		return err
	}
	if err := equal(dist, second); err != nil {
		return err
	}
	fmt.Println("made twice: equal")
	return nil
}
