package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// kind is a program of a release.
type kind struct {
	name     string
	pkg      string
	tags     string
	packaged bool // also as packages of systems and of Python
}

var kinds = []kind{
	// Without its gRPC transport Google's storage, which Temporal's server links for its archives, is 8 MB smaller.
	{name: "stint", pkg: ".", tags: "disable_grpc_modules", packaged: true},
	// It has no server, and no codec for Go handlers, of which it has none.
	{name: "stint-worker", pkg: "./cmd/stint-worker", tags: "disable_grpc_modules,noserver,nofastjson"},
}

// madeFor reports whether the program is made for a platform: that of workers is for containers.
func (k kind) madeFor(platform string) bool {
	return k.packaged || strings.HasPrefix(platform, "linux/")
}

// program is a program that is built.
type program struct {
	kind     kind
	os, arch string // as Go has them
	path     string
}

// base is the beginning of the names of the program's files.
func (p *program) base() string { return p.kind.name + "_" + p.os + "_" + p.arch }

// builder builds programs in a folder, each once.
type builder struct {
	*release
	work string
}

// smaller are packages that are compiled without inlining: clients of clouds, whose calls wait for a network, and of Kubernetes and
// Elasticsearch, which the server links and does not use here. It makes the worker's program 2 MB smaller, and the whole one more.
var smaller = []string{"github.com/aws/...", "cloud.google.com/...", "google.golang.org/api/...", "k8s.io/...", "github.com/google/gnostic-models/...", "github.com/olivere/elastic/..."}

// stampIn is the package whose variables the linker sets.
const stampIn = "github.com/stint-run/stint/internal/base/build"

// stamp has the linker set what internal/base/build says.
func (r *release) stamp() (flags string) {
	for _, v := range []struct{ name, value string }{{"version", "v" + r.version}, {"commit", r.commit}, {"date", r.date.Format(time.RFC3339)}} {
		flags += " -X " + stampIn + "." + v.name + "=" + v.value
	}
	return flags
}

// build builds a program, the same from whatever folder and on whatever machine.
func (b *builder) build(ctx context.Context, k kind, platform string) (*program, error) {
	began := time.Now()
	system, arch, _ := strings.Cut(platform, "/")
	p := &program{kind: k, os: system, arch: arch}
	p.path = filepath.Join(b.work, p.base())
	if _, err := os.Stat(p.path); err == nil {
		return p, nil
	}
	args := []string{"build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-tags", k.tags, "-ldflags", "-s -w" + b.stamp()}
	for _, packages := range smaller {
		args = append(args, "-gcflags", packages+"=-l")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "-o", p.path, k.pkg)...)
	cmd.Dir = b.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=", "GOWORK=off")
	if _, err := output(cmd); err != nil {
		return nil, err
	}
	info, err := os.Stat(p.path)
	if err != nil {
		return nil, err
	}
	fmt.Printf("%9.1f MB  %s for %s, built in %v\n", float64(info.Size())/1e6, k.name, platform, time.Since(began).Round(time.Second))
	return p, nil
}

// texts returns what the program says of itself: its manual page, and the scripts with which shells complete its commands.
// The program is that of this machine.
func (b *builder) texts(ctx context.Context) ([]file, error) {
	p, err := b.build(ctx, kinds[0], runtime.GOOS+"/"+runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	ask := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, p.path, args...)
		cmd.Dir = b.work // where no state is
		cmd.Env = []string{"HOME=" + b.work, "PATH=" + os.Getenv("PATH")}
		return output(cmd)
	}
	said, err := ask("version")
	if err != nil {
		return nil, err
	}
	if want := fmt.Sprintf("stint v%s (%.12s, %s)", b.version, b.commit, b.date.Format(time.RFC3339)); !strings.HasPrefix(said, want) {
		return nil, fmt.Errorf("the program says that it is %q: it should be %s", said, want)
	}
	page, err := b.manual(ask)
	if err != nil {
		return nil, err
	}
	texts := []file{{"man/stint.1", 0o644, page}}
	for _, shell := range shells {
		script, err := ask("completion", shell.name)
		if err != nil {
			return nil, err
		}
		texts = append(texts, file{shell.file, 0o644, []byte(script)})
	}
	return texts, nil
}
