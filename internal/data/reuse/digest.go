package reuse

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/dchest/siphash"

	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/wire"
)

// Digest says which item it is, and what is in it.
type Digest struct{ ID, Content uint64 }

// digestSize is that of a digest in an index, in bytes.
const digestSize = 16

func (d Digest) append(to []byte) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(to, d.ID), d.Content)
}

// Bytes returns the digest as DigestOf takes it.
func (d Digest) Bytes() []byte { return d.append(make([]byte, 0, digestSize)) }

// DigestOf returns the digest that Bytes has encoded. It is not ok if the text is no digest.
func DigestOf(b []byte) (Digest, bool) {
	if len(b) != digestSize {
		return Digest{}, false
	}
	return digestAt(b), true
}

func digestAt(b []byte) Digest {
	return Digest{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}
}

// NewHashKey returns a new key for the digests of an index, in hexadecimal digits. Whoever writes items does not know it,
// and so cannot make two that have one digest.
func NewHashKey() string {
	var key [digestSize]byte
	_, _ = rand.Read(key[:]) // never fails
	return hex.EncodeToString(key[:])
}

// Hasher makes digests of items. One goroutine may use it.
type Hasher struct {
	k0, k1       uint64
	key, changed string
	line         []byte
}

// NewContentHasher returns a Hasher with a new key. Items have one digest if all that is in them is the same.
func NewContentHasher() *Hasher {
	h, err := NewHasher(&wire.Reuse{HashKey: NewHashKey()})
	if err != nil {
		panic(err) // the key is one
	}
	return h
}

// NewHasher returns the Hasher of a job. It returns an error if the hash key is none.
func NewHasher(r *wire.Reuse) (*Hasher, error) {
	key, err := hex.DecodeString(r.HashKey)
	if err != nil || len(key) != digestSize {
		return nil, fmt.Errorf("%q is no key of digests: 32 hexadecimal digits are", r.HashKey)
	}
	return &Hasher{k0: binary.LittleEndian.Uint64(key), k1: binary.LittleEndian.Uint64(key[8:]), key: r.Key, changed: r.Changed}, nil
}

// Tweaks of the key keep texts, JSON values and single fields apart.
const (
	ofItem = iota
	ofText
	ofField
	ofKey
)

// Of returns the digest of an item. It is not ok if the item is not valid in its format.
func (h *Hasher) Of(shape *wire.Shape, item *records.Item) (Digest, bool) {
	line, err := h.lineOf(shape, item)
	if err != nil {
		return Digest{}, false
	}
	return h.OfLine(records.TextLines(shape), line), true
}

// OfLine returns the digest of an item that is a line: a text, or JSON.
func (h *Hasher) OfLine(text bool, line []byte) Digest {
	if text {
		return h.sum(ofText, line)
	}
	if h.key == "" {
		return h.sum(ofItem, line)
	}
	key, ok := records.FieldAt(line, h.key)
	if !ok {
		return h.sum(ofItem, line)
	}
	return Digest{h.sum(ofKey, key).ID, h.content(line).Content}
}

// content returns the digest of what counts of an item: all of it, or a field if it has that.
func (h *Hasher) content(line []byte) Digest {
	if h.changed != "" {
		if value, ok := records.FieldAt(line, h.changed); ok {
			return h.sum(ofField, value)
		}
	}
	return h.sum(ofItem, line)
}

// lineOf returns the item as the line that a filter is given.
func (h *Hasher) lineOf(shape *wire.Shape, item *records.Item) ([]byte, error) {
	if records.Lines(shape) {
		return item.Raw, item.Err
	}
	var err error
	h.line, err = records.AppendLine(shape, h.line[:0], item)
	return h.line, err
}

func (h *Hasher) sum(tweak uint64, data []byte) Digest {
	a, b := siphash.Hash128(h.k0, h.k1^tweak, data)
	return Digest{a, b}
}
