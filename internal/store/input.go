package store

import (
	"context"
	"io"
	"os"
	"path"
	"path/filepath"
)

// Input is one input object of a job.
type Input struct {
	// URL is an absolute path or a bucket URL; OpenInput and StatInput take it.
	URL string
	Info
}

// StatInput describes the input at url, an absolute path or a bucket URL. What it returns is
// the Same as what Expand returned, unless the input has changed.
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
	info, err := os.Stat(resolved)
	if err != nil {
		return Info{}, fileError("reading input", p.path, err)
	}
	if err := checkRegular("reading input", p.path, info); err != nil {
		return Info{}, err
	}
	return fileInfo(filepath.Base(p.path), info), nil
}

func (a *Access) statBucketInput(ctx context.Context, p place, url string) (Info, error) {
	if err := a.admitBucket(p, url); err != nil {
		return Info{}, err
	}
	if p.key == "" {
		return Info{}, &LocationError{url, "it names a bucket and no object"}
	}
	b, err := a.bucket(ctx, p)
	if err != nil {
		return Info{}, err
	}
	return statObject(ctx, b, p.key, path.Base(p.key), p.object(p.key))
}

// OpenInput reads the bytes [offset, offset+length) of the input at url, or all from offset on
// where length is negative, as Dir.Open does. The caller closes the reader; the context must live
// as long as it.
func (a *Access) OpenInput(ctx context.Context, url string, offset, length int64) (io.ReadCloser, error) {
	p, err := parse(url)
	if err != nil {
		return nil, err
	}
	if p.isLocal() {
		return a.openLocalInput(ctx, p.path, offset, length)
	}
	if err := a.admitBucket(p, url); err != nil {
		return nil, err
	}
	if p.key == "" {
		return nil, &LocationError{url, "it names a bucket and no object"}
	}
	b, err := a.bucket(ctx, p)
	if err != nil {
		return nil, err
	}
	return openObject(ctx, b, p.key, p.object(p.key), offset, length)
}

func (a *Access) openLocalInput(ctx context.Context, path string, offset, length int64) (io.ReadCloser, error) {
	resolved, err := a.admitPath(path)
	if err != nil {
		return nil, err
	}
	r, err := openRange(ctx, resolved, path, offset, length)
	if err != nil {
		return nil, err
	}
	if length < 0 || length > adviseAbove {
		adviseSequential(r.f)
	}
	return r, nil
}

// adviseAbove is the length from which reading further ahead is worth a system call, in bytes.
const adviseAbove = 1 << 20
