// Package tokens has the texts of which a request over HTTP needs one.
package tokens

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	minToken      = 16      // bytes
	maxTokenFile  = 1 << 16 // bytes
	maxTokenLines = 1000
	// freshFile is how young a file may be for a later change to leave its time as it is.
	freshFile = 2 * time.Second
)

// Tokens are those of a file: one on each line. The file is read again when it has changed. A file that cannot be read,
// or is not valid, has no tokens.
type Tokens struct {
	path string // empty: there is no file
	log  *slog.Logger

	mu   sync.Mutex
	info os.FileInfo // when it was read last; nil: it could not be
	read time.Time
	sums [][sha256.Size]byte
	why  string // of the last complaint
}

// Bearer returns the token that a request has in its header; empty: it has none.
func Bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// Made returns a single token that nobody has had before, and its text.
func Made() (*Tokens, string) {
	text := rand.Text()
	return &Tokens{sums: [][sha256.Size]byte{sha256.Sum256([]byte(text))}}, text
}

// Read reads a file of tokens. Blank lines do not count; a token has no spaces, and 16 bytes or more.
func Read(path string, log *slog.Logger) (*Tokens, error) {
	t := &Tokens{path: path, log: log}
	if err := t.load(); err != nil {
		return nil, err
	}
	return t, nil
}

// Has reports whether there is such a token. It takes as long for any token of that length.
func (t *Tokens) Has(token string) bool {
	sum := sha256.Sum256([]byte(token))
	found := 0
	for _, known := range t.current() {
		found |= subtle.ConstantTimeCompare(sum[:], known[:])
	}
	return found == 1
}

func (t *Tokens) current() [][sha256.Size]byte {
	if t.path == "" {
		return t.sums
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	info, err := os.Stat(t.path)
	if err == nil && t.info != nil && os.SameFile(info, t.info) && info.ModTime().Equal(t.info.ModTime()) && info.Size() == t.info.Size() &&
		t.read.Sub(info.ModTime()) > freshFile {
		return t.sums
	}
	why := ""
	if err := t.load(); err != nil {
		why = err.Error()
		if why != t.why {
			t.log.Error("all requests are refused", "error", err)
		}
	}
	t.why = why
	return t.sums
}

func (t *Tokens) load() error {
	t.info, t.sums = nil, nil
	file, err := os.Open(t.path)
	if err != nil {
		return fmt.Errorf("reading the tokens: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("reading the tokens: %w", err)
	}
	read := time.Now()
	data, err := io.ReadAll(io.LimitReader(file, maxTokenFile+1))
	if err != nil {
		return fmt.Errorf("reading the tokens: %w", err)
	}
	sums, err := sumsOf(data)
	if err != nil {
		return fmt.Errorf("token file %s: %w", t.path, err)
	}
	t.info, t.read, t.sums = info, read, sums
	return nil
}

func sumsOf(data []byte) ([][sha256.Size]byte, error) {
	if len(data) > maxTokenFile {
		return nil, fmt.Errorf("it is larger than %d bytes", maxTokenFile)
	}
	var sums [][sha256.Size]byte
	number := 0
	for line := range bytes.Lines(data) {
		number++
		token := bytes.TrimSpace(line)
		switch {
		case len(token) == 0:
			continue
		case len(token) < minToken:
			return nil, fmt.Errorf("line %d: the token is %d bytes long: use %d or more, such as from 'openssl rand -hex 32'", number, len(token), minToken)
		case bytes.ContainsAny(token, " \t"):
			return nil, fmt.Errorf("line %d: a token has no spaces", number)
		}
		sums = append(sums, sha256.Sum256(token))
	}
	if len(sums) == 0 || len(sums) > maxTokenLines {
		return nil, fmt.Errorf("it has %d tokens: put one, or up to %d, on lines of their own", len(sums), maxTokenLines)
	}
	return sums, nil
}
