package object

import (
	"crypto/rand"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

const (
	// LockSuffix ends the name of a lock file. No key may have it.
	LockSuffix = ".lock"
	tempSuffix = ".tmp"
	// tokenLength gives 65 random bits: no two writers ever share a temporary name.
	tokenLength = 13
	// maxTempBase keeps temporary names within the 255 bytes that file systems allow.
	maxTempBase = 200
)

// CheckKey returns an error, which is fs.ErrInvalid, if key cannot name an object in every kind of
// Dir.
func CheckKey(key string) error {
	reason := ""
	switch {
	case key == "":
		reason = "is empty"
	case key == "." || !fs.ValidPath(key):
		reason = "is not a relative path of plain elements"
	case strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == '\\' }):
		reason = "has a control character or backslash"
	case Reserved(path.Base(key)):
		reason = "is reserved for locks and unfinished files"
	default:
		if _, err := filepath.Localize(key); err == nil {
			return nil
		}
		reason = "is not a valid file name on this system"
	}
	return fmt.Errorf("the key %q %s: %w", key, reason, fs.ErrInvalid)
}

// CheckPrefix is CheckKey for the beginning of keys, which may end in the middle of a name.
func CheckPrefix(prefix string) error {
	dir, _ := path.Split(prefix)
	if dir = strings.TrimSuffix(dir, "/"); prefix == "" || dir == "" && prefix[0] != '/' {
		return nil
	}
	if dir == "." || !fs.ValidPath(dir) || strings.Contains(prefix, `\`) {
		return fmt.Errorf("the prefix %q is not the beginning of a relative path of plain elements: %w", prefix, fs.ErrInvalid)
	}
	return nil
}

// Reserved reports whether a file name is that of a lock or of an unfinished write.
func Reserved(name string) bool {
	if strings.HasSuffix(name, LockSuffix) {
		return true
	}
	_, ok := TempOf(name)
	return ok
}

// TempName returns a new temporary name for the file name: ".name.token.tmp".
func TempName(name string) string {
	if len(name) > maxTempBase {
		name = name[:maxTempBase]
		for !utf8.ValidString(name) {
			name = name[:len(name)-1]
		}
	}
	return "." + name + "." + strings.ToLower(rand.Text()[:tokenLength]) + tempSuffix
}

// TempOf returns the file name that a temporary name was made for (its beginning, if it was very
// long), and whether it is a temporary name.
func TempOf(temp string) (name string, ok bool) {
	rest, ok := strings.CutSuffix(temp, tempSuffix)
	dot := len(rest) - tokenLength - 1
	if !ok || dot < 2 || rest[0] != '.' || rest[dot] != '.' {
		return "", false
	}
	for _, c := range []byte(rest[dot+1:]) {
		if (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return "", false
		}
	}
	return rest[1:dot], true
}

// CheckRange returns an error, which is fs.ErrInvalid, if an object cannot be read from offset.
func CheckRange(where string, offset int64) error {
	if offset < 0 {
		return fmt.Errorf("reading %s from the negative offset %d: %w", where, offset, fs.ErrInvalid)
	}
	return nil
}
