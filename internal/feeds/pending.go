package feeds

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// What a leg of a feed has not committed, for a job that goes on after Temporal has ended it, may be more than fits into a message, and each
// question for it has the leg's whole history replayed. So it is compressed, and given in as few pieces as possible.

const (
	// PieceBytes is the most that one answer carries: Temporal's limit for a message is 2 MB.
	PieceBytes = 1800 << 10
	// maxPending bounds what pieces are decompressed to: some ten times what a history may hold.
	maxPending = 512 << 20
)

// EncodePending returns what is to be committed in compressed form. It returns the same bytes each time.
func EncodePending(all []CommitInput) ([]byte, error) {
	var packed bytes.Buffer
	zip, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		return nil, fmt.Errorf("compressing: %w", err)
	}
	if err := errors.Join(json.NewEncoder(zip).Encode(all), zip.Close()); err != nil {
		return nil, fmt.Errorf("encoding what is not committed: %w", err)
	}
	return packed.Bytes(), nil
}

// Piece is the part of an encoded list that begins at an offset; empty: there is none.
func Piece(packed []byte, offset int) []byte {
	if offset < 0 || offset >= len(packed) {
		return nil
	}
	return packed[offset:min(len(packed), offset+PieceBytes)]
}

// DecodePending asks for all pieces, by their offsets, and returns what they hold.
func DecodePending(ask func(offset int) ([]byte, error)) ([]CommitInput, error) {
	var packed []byte
	for {
		piece, err := ask(len(packed))
		if err != nil {
			return nil, err
		}
		packed = append(packed, piece...)
		if len(piece) < PieceBytes {
			break
		}
	}
	if len(packed) == 0 {
		return nil, nil
	}
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("decompressing what was not committed: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(zip, maxPending+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("decompressing what was not committed: %w", err)
	case len(data) > maxPending:
		return nil, fmt.Errorf("what was not committed has more than %d bytes", maxPending)
	}
	var all []CommitInput
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("reading what was not committed: %w", err)
	}
	return all, nil
}
