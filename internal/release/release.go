package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// platforms are those that a release is made for.
var platforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"}

const (
	project = "https://github.com/stint-run/stint"
	summary = "Durable batch work: a program over millions of records"
	about   = "stint cuts files with millions of records into batches, runs a program over them on one machine or many, " +
		"and writes the results in input order. It survives the death of any process, pins a fault on the one record that " +
		"causes it, and accounts for every record."
)

// release is what all parts of one have in common.
type release struct {
	version string    // such as 0.1.0
	commit  string    // all of its digits
	date    time.Time // of all files, in UTC and whole seconds
	root    string    // of the repository
}

// versions are those that every kind of package can express.
var versions = regexp.MustCompile(`^v(\d+\.\d+\.\d+)(?:-(alpha|beta|rc)\.(\d+))?$`)

// describe looks up what a release is made from. The date is that of the commit, or $SOURCE_DATE_EPOCH.
func describe(ctx context.Context, root, version string, allowModified bool) (*release, error) {
	if !versions.MatchString(version) {
		return nil, fmt.Errorf("version %q: use v1.2.3 or v1.2.3-rc.1 (alpha, beta, rc)", version)
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	commit, err := git(ctx, root, "rev-parse", "HEAD")
	if err != nil {
		return nil, err
	}
	changes, err := git(ctx, root, "status", "--porcelain")
	if err != nil {
		return nil, err
	}
	if changes != "" && !allowModified {
		return nil, fmt.Errorf("there are changes that are not committed: a release is made from a commit\n%s", changes)
	}
	tagged, err := git(ctx, root, "rev-parse", "--quiet", "--verify", "refs/tags/"+version+"^{commit}")
	if err == nil && tagged != commit {
		return nil, fmt.Errorf("tag %s is another commit, %.12s: check that out, or choose another version", version, tagged)
	}
	seconds, err := git(ctx, root, "log", "-1", "--format=%ct")
	if err != nil {
		return nil, err
	}
	date, err := strconv.ParseInt(cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), seconds), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	if changes != "" {
		commit += "-modified"
	}
	return &release{version[1:], commit, time.Unix(date, 0).UTC(), root}, nil
}

// git returns what a git command prints.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := output(exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...))
	return strings.TrimSpace(out), err
}

// output returns what a command prints, or an error with what it says of one.
func output(cmd *exec.Cmd) (string, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return string(out), nil
}

// packaged is the version as Debian's and RPM's packages have it, in which 0.1.0~rc.1 is before 0.1.0.
func (r *release) packaged() string { return strings.Replace(r.version, "-", "~", 1) }

// python is the version as Python's packages have it: 0.1.0rc1.
func (r *release) python() string {
	parts := versions.FindStringSubmatch("v" + r.version)
	return parts[1] + map[string]string{"alpha": "a", "beta": "b", "rc": "rc"}[parts[2]] + parts[3]
}

// url is where a file of the release can be downloaded.
func (r *release) url(name string) string {
	return project + "/releases/download/v" + r.version + "/" + name
}

// read returns a file of the repository.
func (r *release) read(name string) ([]byte, error) { return os.ReadFile(filepath.Join(r.root, name)) }

// make makes all of the release in a folder.
func (r *release) make(ctx context.Context, dist string, wanted []string) error {
	if err := os.RemoveAll(dist); err != nil {
		return err
	}
	if err := os.MkdirAll(dist, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "stint-programs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	b := builder{r, work}
	texts, err := b.texts(ctx)
	if err != nil {
		return err
	}
	for _, platform := range wanted {
		for _, kind := range kinds {
			if !kind.madeFor(platform) {
				continue
			}
			p, err := b.build(ctx, kind, platform)
			if err != nil {
				return err
			}
			if err := r.pack(dist, p, texts); err != nil {
				return fmt.Errorf("packing %s for %s: %w", kind.name, platform, err)
			}
			if err := os.Remove(p.path); err != nil {
				return err
			}
		}
	}
	return r.finish(dist)
}

// pack makes all that a program is shipped in.
func (r *release) pack(dist string, p *program, texts []file) error {
	contents, err := r.contents(p, texts)
	if err != nil {
		return err
	}
	all := []made{r.archive(p, contents), r.sbom(p)}
	if p.kind.packaged {
		all = append(all, r.wheel(p))
	}
	if p.kind.packaged && p.os == "linux" {
		all = append(all, r.deb(p, contents), r.rpm(p, contents))
	}
	for _, m := range all {
		if m.err != nil {
			return fmt.Errorf("%s: %w", m.name, m.err)
		}
		if err := m.write(dist); err != nil {
			return err
		}
	}
	return nil
}

// made is a file of the release.
type made struct {
	name string
	data []byte
	err  error
}

func (m made) write(dist string) error {
	fmt.Printf("%9.1f MB  %s\n", float64(len(m.data))/1e6, m.name)
	return os.WriteFile(filepath.Join(dist, m.name), m.data, 0o644)
}

// finish adds what the release has once, and the checksums of all.
func (r *release) finish(dist string) error {
	sums, err := checksums(dist)
	if err != nil {
		return err
	}
	notes, err := r.notes()
	if err != nil {
		return err
	}
	install, err := r.read("install.sh")
	if err != nil {
		return err
	}
	once := []made{{name: "CHANGES.md", data: notes}, {name: "install.sh", data: install}}
	if !slices.ContainsFunc(platforms, func(p string) bool { return sums.of(archiveOf(p)) == "" }) { // some were not wanted
		once = append(once, made{name: "stint.rb", data: r.formula(sums)})
	}
	for _, m := range once {
		if err := m.write(dist); err != nil {
			return err
		}
	}
	if sums, err = checksums(dist); err != nil {
		return err
	}
	return made{name: sumsName, data: sums.text()}.write(dist)
}

// equal compares the files of two releases.
func equal(one, other string) error {
	a, err := checksums(one)
	if err != nil {
		return err
	}
	b, err := checksums(other)
	if err != nil {
		return err
	}
	var different error
	for _, s := range a {
		if b.of(s.name) != s.sum {
			different = errors.Join(different, fmt.Errorf("%s differs", s.name))
		}
	}
	if len(a) != len(b) {
		different = errors.Join(different, fmt.Errorf("%d files, and %d the second time", len(a), len(b)))
	}
	return different
}
