package store

import (
	"context"
	"errors"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Expand turns what a user wrote as input into input objects: files, directories (every regular
// file below), globs with *, ?, [a-z], {a,b} and **, bucket URLs, bucket prefixes ending in '/',
// and globs in bucket URLs. The matches of an argument come in the byte order of their names, the
// arguments in the order given, duplicates included. Relative paths start at the working
// directory. "-" is for the caller to take out first.
//
// What exists under exactly the name given is that, whatever wildcards the name seems to hold.
// Hidden files and directories, with a leading dot, are found only by a name or glob that has the
// dot. Symbolic links to files are followed; those to directories only where the argument names
// them, or through a glob without **.
//
// Errors: *NoMatchError for a glob, directory or prefix without files, fs.ErrNotExist for a
// missing file, *DeniedError for a match outside Allow, *LocationError for a bad URL or pattern.
// What cannot be read is an error and not left out.
func (a *Access) Expand(ctx context.Context, args []string) ([]Input, error) {
	var inputs []Input
	for _, arg := range args {
		p, err := parse(arg)
		if err != nil {
			return nil, err
		}
		var found []Input
		if p.isLocal() {
			found, err = a.expandPath(ctx, arg, p.path)
		} else {
			found, err = a.expandBucket(ctx, arg, p)
		}
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, found...)
	}
	return inputs, nil
}

func hasWildcard(name string) bool { return strings.ContainsAny(name, `*?[{`) }

func badPattern(arg string) error {
	return &LocationError{arg, "it is not a valid pattern: close every [ and {, or put \\ before a wildcard that is meant literally"}
}

func (a *Access) expandBucket(ctx context.Context, arg string, p place) ([]Input, error) {
	if p.key == "" || strings.HasSuffix(p.key, "/") {
		return a.expandObjects(ctx, arg, p, p.key, func(key string) bool {
			return !hidden(strings.TrimPrefix(key, p.key))
		})
	}
	info, err := a.StatInput(ctx, arg)
	if err == nil {
		return []Input{{URL: p.url(p.key), Info: info}}, nil
	}
	wildcard := hasWildcard(p.key)
	if denied := new(DeniedError); !isMissing(err) && !(wildcard && errors.As(err, &denied)) {
		return nil, err
	}
	if !wildcard {
		return nil, a.hintPrefix(ctx, p, err)
	}
	if !doublestar.ValidatePattern(p.key) {
		return nil, badPattern(arg)
	}
	base := p.key[:strings.IndexAny(p.key, `*?[{\`)]
	plain := strings.LastIndexByte(base, '/') + 1 // the length of the directories without wildcards
	dotted := hidden(p.key[plain:])
	return a.expandObjects(ctx, arg, p, base, func(key string) bool {
		return doublestar.MatchUnvalidated(p.key, key) && (dotted || !hidden(key[plain:]))
	})
}

// expandObjects lists the objects below prefix that match.
func (a *Access) expandObjects(ctx context.Context, arg string, p place, prefix string, match func(key string) bool) ([]Input, error) {
	under := p
	under.key = prefix
	if err := a.admitBucketBase(under, arg); err != nil {
		return nil, err
	}
	b, err := a.bucket(ctx, p)
	if err != nil {
		return nil, err
	}
	var inputs []Input
	for info, err := range objects(ctx, b, prefix, p.object(prefix)) {
		if err != nil {
			return nil, err
		}
		if !match(info.Key) {
			continue
		}
		object := p
		object.key = info.Key
		if err := a.admitBucket(object, p.url(info.Key)); err != nil {
			return nil, err
		}
		url := p.url(info.Key)
		info.Key = path.Base(info.Key)
		inputs = append(inputs, Input{URL: url, Info: info})
	}
	if len(inputs) == 0 {
		return nil, &NoMatchError{arg}
	}
	return inputs, nil
}

// hintPrefix adds to the error for a missing object that there are objects below it.
func (a *Access) hintPrefix(ctx context.Context, p place, err error) error {
	b, openErr := a.bucket(ctx, p)
	if openErr != nil {
		return err
	}
	for _, listErr := range objects(ctx, b, p.key+"/", "") {
		if listErr == nil {
			return missing("reading input", p.object(p.key), "there is no such object, but there are some below it: put a / at its end to take them all")
		}
		break
	}
	return err
}

// hidden tells whether an element of a slash-separated name has a leading dot.
func hidden(name string) bool {
	return strings.HasPrefix(name, ".") || strings.Contains(name, "/.")
}
