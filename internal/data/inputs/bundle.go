package inputs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sort"
	"time"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Small inputs that follow one another are one source, so that a million files of one line become neither
// a million batches nor a table of a million sources. Their bytes are numbered as if they lay in one file: the
// head of each is among them, and no item reaches from one into the next.
const (
	// smallInput is the size in bytes up to which an input is small: it is read as a whole.
	smallInput = 1 << 20
	// maxBundle is the most inputs of a bundle, of which a worker reads the list for each batch.
	maxBundle = 4096
)

// member is an input of a bundle, or the only one of another source.
type member struct {
	store.Input
	at int64 // offset in the bundle of its first byte
}

func (m *member) end() int64 { return m.at + m.Size }

// bundle makes a source of small inputs of one shape, as far as their names show it, and adds their list to the table.
// A single input is no bundle.
func (t *Table) bundle(inputs []store.Input, shape wire.Shape) {
	if len(inputs) == 1 {
		t.Sources = append(t.Sources, plainSource(inputs[0], shape))
		return
	}
	s := wire.Source{URL: inputs[0].URL, Shape: shape, Bundle: &wire.Bundle{Inputs: len(inputs), At: len(t.lists)}}
	for _, input := range inputs {
		s.Size += input.Size
	}
	t.lists = appendInputs(t.lists, inputs)
	s.Bundle.Bytes = len(t.lists) - s.Bundle.At
	t.Sources = append(t.Sources, s)
}

// appendInputs encodes inputs, each by what it does not share with the one before it: some thirty bytes for a file.
func appendInputs(list []byte, inputs []store.Input) []byte {
	var before store.Input
	for _, input := range inputs {
		shared := 0
		for shared < min(len(input.URL), len(before.URL)) && input.URL[shared] == before.URL[shared] {
			shared++
		}
		list = binary.AppendUvarint(list, uint64(shared))
		list = appendText(list, input.URL[shared:])
		list = binary.AppendUvarint(list, uint64(input.Size))
		list = binary.AppendVarint(list, input.ModTime.Unix()-before.ModTime.Unix())
		list = binary.AppendUvarint(list, uint64(input.ModTime.Nanosecond()))
		list = appendText(list, input.ETag)
		list = binary.AppendVarint(list, int64(input.Inode-before.Inode))
		list = appendTime(list, input.Changed, input.ModTime)
		list = appendText(list, input.Digest)
		before = input
	}
	return list
}

func appendText(list []byte, text string) []byte {
	return append(binary.AppendUvarint(list, uint64(len(text))), text...)
}

// members decodes the list of a source's inputs.
func (t *Table) members(s *wire.Source) ([]member, error) {
	if s.Bundle == nil {
		return []member{{Input: inputOf(s)}}, nil
	}
	broken := ledger.Permanent(job.ErrorCorrupt, errors.New("reading the source table: a list of inputs is broken"))
	b := s.Bundle
	if b.At < 0 || b.Bytes < 0 || b.At+b.Bytes > len(t.lists) {
		return nil, broken
	}
	list := bytes.NewReader(t.lists[b.At : b.At+b.Bytes])
	members := make([]member, 0, min(b.Inputs, maxBundle))
	var m member
	for list.Len() > 0 {
		var errs [8]error
		var shared, size, nanoseconds uint64
		var seconds, inode int64
		var rest, etag string
		shared, errs[0] = binary.ReadUvarint(list)
		rest, errs[1] = readText(list)
		size, errs[2] = binary.ReadUvarint(list)
		seconds, errs[3] = binary.ReadVarint(list)
		nanoseconds, errs[4] = binary.ReadUvarint(list)
		etag, errs[5] = readText(list)
		inode, errs[6] = binary.ReadVarint(list)
		changed, changedErr := readTime(list)
		m.Digest, errs[7] = readText(list)
		if errors.Join(append(errs[:], changedErr)...) != nil || shared > uint64(len(m.URL)) {
			return nil, broken
		}
		m.at = m.end()
		m.URL = m.URL[:shared] + rest
		m.Size, m.ETag = int64(size), etag
		m.ModTime = time.Unix(m.ModTime.Unix()+seconds, int64(nanoseconds))
		m.Inode, m.Changed = m.Inode+uint64(inode), time.Time{}
		if changed != nil && (m.Digest != "" || t.Machine == machine) {
			m.Changed = m.ModTime.Add(*changed)
		}
		members = append(members, m)
	}
	if len(members) != b.Inputs {
		return nil, broken
	}
	return members, nil
}

// appendTime encodes a time that is not far from another one; or none, if it is zero.
func appendTime(list []byte, t, from time.Time) []byte {
	if t.IsZero() {
		return append(list, 0)
	}
	return binary.AppendVarint(append(list, 1), int64(t.Sub(from)))
}

// readTime decodes the difference of a time from another one; nil: there is none.
func readTime(list *bytes.Reader) (*time.Duration, error) {
	if known, err := list.ReadByte(); err != nil || known == 0 {
		return nil, err
	}
	d, err := binary.ReadVarint(list)
	difference := time.Duration(d)
	return &difference, err
}

func readText(list *bytes.Reader) (string, error) {
	n, err := binary.ReadUvarint(list)
	if err != nil || n > uint64(list.Len()) {
		return "", io.ErrUnexpectedEOF
	}
	text := make([]byte, n)
	_, err = io.ReadFull(list, text)
	return string(text), err
}

// Inputs yields all inputs of the table in their order.
func (t *Table) Inputs() iter.Seq2[store.Input, error] {
	return func(yield func(store.Input, error) bool) {
		for i := range t.Sources {
			members, err := t.members(&t.Sources[i])
			if err != nil {
				yield(store.Input{}, err)
				return
			}
			for _, m := range members {
				if !yield(m.Input, nil) {
					return
				}
			}
		}
	}
}

// find returns the index of the member with the byte at offset; len(members) if that is behind the last one.
func find(members []member, offset int64) int {
	return sort.Search(len(members), func(i int) bool { return members[i].end() > offset })
}

// small is an input of a bundle in memory.
type small struct {
	content []byte
	shape   wire.Shape
	start   int64  // of the first item
	hint    string // see [records.Head]
}

// load reads an input of a bundle of the given shape into s, whose memory it uses again.
func (n *Inputs) load(ctx context.Context, m *member, shape wire.Shape, s *small) error {
	r, err := n.access.OpenInput(ctx, m.URL, 0, m.Size)
	if err != nil {
		return ledger.StoreError(job.ErrorInput, err)
	}
	defer r.Close()
	s.content = slices.Grow(s.content[:0], int(m.Size))[:m.Size]
	// One that has become shorter is found to have changed by who looks at it afterwards.
	got, err := io.ReadFull(r, s.content)
	s.content = s.content[:got]
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return ledger.StoreError(job.ErrorInput, store.Doing("reading "+m.URL, err))
	}
	head, err := records.Look(bytes.NewReader(s.content), shape)
	s.shape, s.start, s.hint = head.Shape, head.Start, head.Hint
	if err != nil {
		return ledger.Permanent(job.ErrorInput, fmt.Errorf("reading the beginning of %s: %w", m.URL, err))
	}
	return nil
}

// between returns the bytes [from, to) of the content, without the head.
func (s *small) between(from, to int64) (data []byte, start int64) {
	to = min(to, int64(len(s.content)))
	start = min(max(from, s.start), to)
	return s.content[start:to], start
}
