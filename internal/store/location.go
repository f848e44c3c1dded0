package store

import (
	"net/url"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

var (
	schemePattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)
	bucketPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	queryPattern  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*=[^?&]*(&[A-Za-z_][A-Za-z0-9_.-]*=[^?&]*)*$`)
	drivePattern  = regexp.MustCompile(`^/[A-Za-z]:`)
)

// The schemes that are linked. gs and azblob come in a later version.
const (
	schemeFile = "file"
	schemeMem  = "mem"
	schemeS3   = "s3"
)

// place is a location taken apart: a local path, or a key (or the beginning of keys) in a bucket.
type place struct {
	path string // as written; empty for a bucket

	scheme, bucket string
	key            string // without a leading slash; may be empty
	query          string // without the question mark
}

func isURL(location string) bool { return schemePattern.MatchString(location) }

// splitQuery separates a URL's query, which begins at the last question mark and consists of
// name=value pairs; any other question mark belongs to the key (or is a wildcard).
func splitQuery(location string) (rest, query string) {
	i := strings.LastIndexByte(location, '?')
	if i < 0 || i+1 < len(location) && !queryPattern.MatchString(location[i+1:]) {
		return location, ""
	}
	return location[:i], location[i+1:]
}

// parse takes a location apart. Its errors are *LocationError.
func parse(location string) (place, error) {
	switch {
	case location == "":
		return place{}, &LocationError{location, "it is empty: name a path or a bucket URL"}
	case strings.ContainsRune(location, 0):
		return place{}, &LocationError{location, "it holds a NUL character"}
	case !isURL(location):
		return place{path: location}, nil
	}
	scheme, rest, _ := strings.Cut(location, "://")
	rest, query := splitQuery(rest)
	switch scheme = strings.ToLower(scheme); scheme {
	case schemeFile:
		return parseFile(location, rest, query)
	case schemeMem, schemeS3:
	case "gs", "azblob":
		return place{}, &LocationError{location, scheme + ":// is not linked yet, a later version will bring it: use a path, file://, s3:// or mem://"}
	default:
		return place{}, &LocationError{location, "its scheme " + scheme + ":// is unknown: linked are file://, s3:// and mem:// (gs:// and azblob:// come in a later version)"}
	}
	bucket, key, _ := strings.Cut(rest, "/")
	if !bucketPattern.MatchString(bucket) {
		return place{}, &LocationError{location, "the bucket's name is missing or not valid: write " + scheme + "://bucket/key"}
	}
	for element := range strings.SplitSeq(key, "/") {
		if element == "." || element == ".." {
			return place{}, &LocationError{location, `it has the element "` + element + `": write the key out in full`}
		}
	}
	return place{scheme: scheme, bucket: bucket, key: key, query: query}, nil
}

func parseFile(location, rest, query string) (place, error) {
	host, _, _ := strings.Cut(rest, "/")
	path := rest[len(host):]
	switch {
	case host != "" && host != "localhost" || path == "":
		return place{}, &LocationError{location, "write file:/// and an absolute path"}
	case query != "":
		return place{}, &LocationError{location, "file URLs take no parameters: leave out ?" + query}
	}
	if plain, err := url.PathUnescape(path); err == nil {
		path = plain
	}
	if runtime.GOOS == "windows" && drivePattern.MatchString(path) {
		path = path[1:]
	}
	return place{path: filepath.FromSlash(path)}, nil
}

func (p place) isLocal() bool { return p.path != "" }

// bucketURL is the URL of the bucket alone, as its driver takes it.
func (p place) bucketURL() string {
	if p.query == "" {
		return p.scheme + "://" + p.bucket
	}
	return p.scheme + "://" + p.bucket + "?" + p.query
}

// object is the URL of a key without the query, as messages show it.
func (p place) object(key string) string {
	if key == "" {
		return p.scheme + "://" + p.bucket
	}
	return p.scheme + "://" + p.bucket + "/" + key
}

// url is the URL of a key such that parse finds the key again.
func (p place) url(key string) string {
	location := p.object(key)
	if p.query != "" {
		return location + "?" + p.query
	}
	if rest, _ := splitQuery(location); rest != location {
		return location + "?" // an empty query keeps the key's question mark from being taken for one
	}
	return location
}

// IsPrefix tells whether a location names a place to put objects under rather than one object: it
// ends in '/' (before the query, in a URL).
func IsPrefix(location string) bool {
	if isURL(location) {
		location, _ = splitQuery(location)
		return strings.HasSuffix(location, "/")
	}
	return location != "" && isSeparator(location[len(location)-1])
}

func isSeparator(c byte) bool { return c == '/' || c == filepath.Separator }

// Split separates the last element of a location from the Dir it lies in:
// "/a/b/out.jsonl" gives "/a/b" and "out.jsonl", "s3://bucket/x/out.jsonl?region=r" gives
// "s3://bucket/x?region=r" and "out.jsonl". A plain name lies in ".". The error is a
// *LocationError for a location that ends in '/', has no last element, or has one that no object
// can have.
func Split(location string) (dir, name string, err error) {
	p, err := parse(location)
	if err != nil {
		return "", "", err
	}
	if IsPrefix(location) {
		return "", "", &LocationError{location, "it ends in '/': name a file"}
	}
	if p.isLocal() {
		dir, name = filepath.Split(p.path)
		dir = filepath.Clean(dir)
	} else {
		i := strings.LastIndexByte(p.key, '/')
		dir, name = p.url(p.key[:max(i, 0)]), p.key[i+1:]
	}
	if err := checkKey(name); err != nil {
		return "", "", &LocationError{location, err.Error()}
	}
	return dir, name, nil
}

// Absolute makes a local path absolute, relative to workingDir, and clean, keeping a '/' at its
// end. URLs stay as they are. The error is a *LocationError.
func Absolute(location, workingDir string) (string, error) {
	p, err := parse(location)
	if err != nil {
		return "", err
	}
	if isURL(location) {
		return location, nil
	}
	clean := p.path
	if !filepath.IsAbs(clean) {
		if !filepath.IsAbs(workingDir) {
			return "", &LocationError{location, "it is relative, and so is the directory " + workingDir + " that it starts from"}
		}
		clean = filepath.Join(workingDir, clean)
	}
	clean = filepath.Clean(clean)
	if IsPrefix(location) && !IsPrefix(clean) {
		clean += string(filepath.Separator)
	}
	return clean, nil
}
