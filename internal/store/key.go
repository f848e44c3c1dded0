package store

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
	lockSuffix = ".lock"
	tempSuffix = ".tmp"
	// tokenLength gives 65 random bits: no two writers ever share a temporary name.
	tokenLength = 13
	// maxTempBase keeps temporary names within the 255 bytes that file systems allow.
	maxTempBase = 200
)

// checkKey returns an error, which is fs.ErrInvalid, unless key can name an object in every kind
// of Dir.
func checkKey(key string) error {
	reason := ""
	switch {
	case key == "":
		reason = "is empty"
	case key == "." || !fs.ValidPath(key):
		reason = "is not a relative path of plain elements"
	case strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == '\\' }):
		reason = "has a control character or backslash"
	case reserved(path.Base(key)):
		reason = "is reserved for locks and unfinished files"
	default:
		if _, err := filepath.Localize(key); err == nil {
			return nil
		}
		reason = "is no file name on this system"
	}
	return fmt.Errorf("the key %q %s: %w", key, reason, fs.ErrInvalid)
}

// checkPrefix is checkKey for the beginning of keys, which may end anywhere.
func checkPrefix(prefix string) error {
	dir, _ := path.Split(prefix)
	if dir = strings.TrimSuffix(dir, "/"); prefix == "" || dir == "" && prefix[0] != '/' {
		return nil
	}
	if dir == "." || !fs.ValidPath(dir) || strings.Contains(prefix, `\`) {
		return fmt.Errorf("the prefix %q is not the beginning of a relative path of plain elements: %w", prefix, fs.ErrInvalid)
	}
	return nil
}

// reserved tells whether a file name is that of a lock or of an unfinished write.
func reserved(name string) bool {
	if strings.HasSuffix(name, lockSuffix) {
		return true
	}
	_, ok := tempOf(name)
	return ok
}

// tempName returns a new temporary name for the file name: ".name.token.tmp".
func tempName(name string) string {
	if len(name) > maxTempBase {
		name = name[:maxTempBase]
		for !utf8.ValidString(name) {
			name = name[:len(name)-1]
		}
	}
	return "." + name + "." + strings.ToLower(rand.Text()[:tokenLength]) + tempSuffix
}

// tempOf returns the file name that a temporary name was made for (its beginning, if it was very
// long), and whether it is one.
func tempOf(temp string) (name string, ok bool) {
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
