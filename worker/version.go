package worker

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"sync"
)

const (
	// versionDigits is how many hexadecimal digits a version has that nobody has given.
	versionDigits = 12
	// wholeFile is the size up to which the whole content of a file counts. Of a larger one (a model, a binary) it is the
	// size, and as much of its beginning and of its end.
	wholeFile = 16 << 20
	// buildHead is how much of the beginning of a program has the ID of its build, which Go makes from the content.
	buildHead = 64 << 10
)

// version returns the version of a handler that has not been given one: see [Options].Version.
func (h Handler) version(dir string) string {
	sum := sha256.New()
	switch {
	case h.made != "":
		_, _ = io.WriteString(sum, h.made) // a hash takes everything
	case len(h.argv) > 0:
		fmt.Fprintf(sum, "%q", h.argv)
		for _, name := range namedFiles(h.argv, dir) {
			addFile(sum, name, wholeFile)
		}
	default:
		return buildVersion()
	}
	return digitsOf(sum)
}

// buildVersion returns the version of this program.
var buildVersion = sync.OnceValue(func() string {
	sum := sha256.New()
	if path, err := os.Executable(); err == nil {
		addFile(sum, path, buildHead)
	}
	return digitsOf(sum)
})

func digitsOf(sum hash.Hash) string { return hex.EncodeToString(sum.Sum(nil))[:versionDigits] }

// addFile adds a file's content: the whole of it up to a size, or its size and so much of both ends. A file that cannot
// be read adds nothing: the handler says so itself.
func addFile(sum hash.Hash, name string, most int64) {
	f, err := os.Open(name)
	if err != nil {
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return
	}
	size := info.Size()
	fmt.Fprintf(sum, "\x00%d\x00", size)
	_, _ = io.CopyN(sum, f, min(size, most))
	if size > most {
		_, _ = io.Copy(sum, io.NewSectionReader(f, max(most, size-most), most))
	}
}
