package store

import (
	"context"
	"errors"
	"iter"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/stint-run/stint/internal/store/object"
)

// Expand turns what a user wrote as input into input objects: files, directories (every regular
// file below), globs with *, ?, [a-z], {a,b} and **, bucket URLs, bucket prefixes ending in '/',
// and globs in bucket URLs. The matches of an argument come in the byte order of their names, the
// arguments in the order given, duplicates included. Relative paths start at the working
// directory. The caller removes "-" first.
//
// A name that exists exactly as given is taken literally, even if it has wildcards in it.
// Hidden files and directories, with a leading dot, are found only by a name or glob with that
// dot. Symbolic links to files are followed; those to directories only if the argument names
// them, or through a glob without **.
//
// Errors: *NoMatchError for a glob, directory or prefix without files, fs.ErrNotExist for a
// missing file, *DeniedError for a match outside Allow, *LocationError for a bad URL or pattern.
// Anything that cannot be read is an error; it is not left out. After an error nothing more is
// yielded. The inputs are looked at one by one as they are yielded: there may be millions.
func (a *Access) Expand(ctx context.Context, args []string) iter.Seq2[Input, error] {
	return func(yield func(Input, error) bool) {
		for _, arg := range args {
			m := matches{arg: arg, yield: yield}
			err := a.expand(ctx, arg, &m)
			if m.ended {
				return
			}
			if err == nil && m.count == 0 {
				err = &NoMatchError{arg}
			}
			if err != nil {
				yield(Input{}, err)
				return
			}
		}
	}
}

// matches are those of one argument.
type matches struct {
	arg   string
	yield func(Input, error) bool
	count int
	ended bool // the caller wants no more
}

// add reports whether more are wanted.
func (m *matches) add(input Input) bool {
	m.count++
	m.ended = !m.yield(input, nil)
	return !m.ended
}

func (a *Access) expand(ctx context.Context, arg string, m *matches) error {
	p, err := parse(arg)
	if err != nil {
		return err
	}
	if p.isLocal() {
		return a.expandPath(ctx, p.path, m)
	}
	return a.expandBucket(ctx, p, m)
}

func hasWildcard(name string) bool { return strings.ContainsAny(name, `*?[{`) }

func badPattern(arg string) error {
	return badLocation(arg, "it is not a valid pattern: close every [ and {, or put \\ before a literal wildcard")
}

func (a *Access) expandBucket(ctx context.Context, p place, m *matches) error {
	if p.key == "" || strings.HasSuffix(p.key, "/") {
		return a.expandObjects(ctx, p, m, p.key, func(key string) bool {
			return !hidden(strings.TrimPrefix(key, p.key))
		})
	}
	info, err := a.StatInput(ctx, m.arg)
	if err == nil {
		m.add(Input{URL: p.url(p.key), Info: info})
		return nil
	}
	wildcard := hasWildcard(p.key)
	if denied := new(DeniedError); !isMissing(err) && !(wildcard && errors.As(err, &denied)) {
		return err
	}
	if !wildcard {
		return a.hintPrefix(ctx, p, err)
	}
	if !doublestar.ValidatePattern(p.key) {
		return badPattern(m.arg)
	}
	base := p.key[:strings.IndexAny(p.key, `*?[{\`)]
	plain := strings.LastIndexByte(base, '/') + 1 // the length of the directories without wildcards
	dotted := hidden(p.key[plain:])
	return a.expandObjects(ctx, p, m, base, func(key string) bool {
		return doublestar.MatchUnvalidated(p.key, key) && (dotted || !hidden(key[plain:]))
	})
}

// expandObjects lists the objects below prefix that match.
func (a *Access) expandObjects(ctx context.Context, p place, m *matches, prefix string, match func(key string) bool) error {
	under := p
	under.key = prefix
	if err := a.admitBucketBase(under, m.arg); err != nil {
		return err
	}
	b, err := a.bucket(ctx, p)
	if err != nil {
		return err
	}
	for info, err := range b.Objects(ctx, prefix) {
		if err != nil {
			return err
		}
		if !match(info.Key) {
			continue
		}
		object := p
		object.key = info.Key
		url := p.url(info.Key)
		if err := a.admitBucket(object, url, a.readable()); err != nil {
			return err
		}
		info.Key = path.Base(info.Key)
		if !m.add(Input{URL: url, Info: info}) {
			return nil
		}
	}
	return nil
}

// hintPrefix adds to the error for a missing object that there are objects below it.
func (a *Access) hintPrefix(ctx context.Context, p place, err error) error {
	b, openErr := a.bucket(ctx, p)
	if openErr != nil {
		return err
	}
	for _, listErr := range b.Objects(ctx, p.key+"/") {
		if listErr == nil {
			return object.Missing("reading input", p.object(p.key), "there is no such object, but there are some below it: add a / at its end to take them all")
		}
		break
	}
	return err
}

// hidden reports whether an element of a slash-separated name has a leading dot.
func hidden(name string) bool {
	return strings.HasPrefix(name, ".") || strings.Contains(name, "/.")
}
