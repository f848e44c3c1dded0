package store

import (
	"context"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/stint-run/stint/internal/stall"
	"github.com/stint-run/stint/internal/store/local"
)

// Input is one input object of a job.
type Input struct {
	// URL is an absolute path, its file URL if the path is not UTF-8, or a bucket URL; OpenInput and StatInput take it.
	URL string
	// Digest is that of its content or of a part of that, if whoever has made the Input knows one.
	Digest string
	Info
}

// StatInput describes the input at url, an absolute path or a bucket URL. The result is the Same as
// that of Expand, unless the input has changed.
func (a *Access) StatInput(ctx context.Context, url string) (Info, error) {
	p, err := parse(url)
	if err != nil {
		return Info{}, err
	}
	if !p.isLocal() {
		return a.statBucketInput(ctx, p, url)
	}
	resolved, err := a.admitPath(p.path)
	if err != nil {
		return Info{}, err
	}
	if err := ctx.Err(); err != nil {
		return Info{}, err
	}
	defer stall.Begin(ctx, "looking up", p.path).Close()
	info, err := os.Stat(resolved)
	if err != nil {
		return Info{}, local.Error("reading input", p.path, err)
	}
	if err := local.CheckRegular("reading input", p.path, info); err != nil {
		return Info{}, err
	}
	return local.Info(filepath.Base(p.path), info), nil
}

func (a *Access) statBucketInput(ctx context.Context, p place, url string) (Info, error) {
	if err := a.admitBucket(p, url, a.readable()); err != nil {
		return Info{}, err
	}
	if p.key == "" {
		return Info{}, badLocation(url, "it names a bucket, not an object")
	}
	b, err := a.bucket(ctx, p)
	if err != nil {
		return Info{}, err
	}
	return b.Stat(ctx, p.key, path.Base(p.key))
}

// OpenInput reads the bytes [offset, offset+length) of the input at url, or all from offset on
// if length is negative, as Dir.Open does. The caller closes the reader; the context must live as
// long as the reader.
func (a *Access) OpenInput(ctx context.Context, url string, offset, length int64) (io.ReadCloser, error) {
	p, err := parse(url)
	if err != nil {
		return nil, err
	}
	if p.isLocal() {
		return a.openLocalInput(ctx, p.path, offset, length)
	}
	if err := a.admitBucket(p, url, a.readable()); err != nil {
		return nil, err
	}
	if p.key == "" {
		return nil, badLocation(url, "it names a bucket, not an object")
	}
	b, err := a.bucket(ctx, p)
	if err != nil {
		return nil, err
	}
	return b.Open(ctx, p.key, offset, length)
}

func (a *Access) openLocalInput(ctx context.Context, path string, offset, length int64) (io.ReadCloser, error) {
	resolved, err := a.admitPath(path)
	if err != nil {
		return nil, err
	}
	r, err := local.Open(ctx, resolved, path, offset, length)
	if err != nil {
		return nil, err
	}
	if length < 0 || length > adviseAbove {
		r.Sequential()
	}
	return r, nil
}

// adviseAbove is the length in bytes above which reading further ahead is worth a system call.
const adviseAbove = 1 << 20
