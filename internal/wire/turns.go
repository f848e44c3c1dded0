package wire

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"time"
)

// NextTurn is when the next request may be begun of a share of limits.
type NextTurn struct {
	// Turn is when, from the start of an execution or from its end. Below 0: its turn came so long ago.
	Turn time.Duration `json:"turn,omitempty"`
	// Keys are the values of a field whose turns come later than that: at most MaxKeyTurns.
	Keys KeyTurns `json:"keys,omitempty"`
}

// KeyTurn is when the next turn of a value comes.
type KeyTurn struct {
	Key  uint32 // a digest of the value, below Keys
	Turn time.Duration
}

// KeyTurns are turns of values, as few bytes: of each, in the order of the digests, how much larger the digest is than the
// one before, and the turn in milliseconds, as varints.
type KeyTurns []byte

const (
	// Keys is how many digests of values there are.
	Keys = 1 << 24
	// MaxKeyTurns is the most values whose turns are handed from one batch to the next.
	MaxKeyTurns = 1000
	// LeastKeyTurns is how many of them a batch gets, however many batches are in flight.
	LeastKeyTurns = 32
	// MaxTurn is the latest turn.
	MaxTurn = time.Hour
	// MaxKeyBytes and LeastKeyBytes are the most bytes of so many: 4 of a turn of up to an hour, and 3 of a digest, or 4
	// if it is so far behind the one before that there are no more than 8 of the kind.
	MaxKeyBytes   = 7*MaxKeyTurns + 8
	LeastKeyBytes = 7*LeastKeyTurns + 8
)

// NextTurns returns the turns of a share: the given one, before which there is none, and those of values that have a later
// one, the latest if a value has several. Of more than most values the latest turns are kept, and all others wait for the
// latest of the rest.
func NextTurns(turn time.Duration, keys []KeyTurn, most int) NextTurn {
	keys = slices.DeleteFunc(slices.Clone(keys), func(k KeyTurn) bool { return k.Turn <= max(0, turn) })
	slices.SortFunc(keys, func(a, b KeyTurn) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(b.Turn, a.Turn)) })
	keys = slices.CompactFunc(keys, func(a, b KeyTurn) bool { return a.Key == b.Key })
	if len(keys) > most {
		slices.SortFunc(keys, func(a, b KeyTurn) int { return cmp.Or(cmp.Compare(b.Turn, a.Turn), cmp.Compare(a.Key, b.Key)) })
		turn, keys = keys[most].Turn, keys[:most]
		slices.SortFunc(keys, func(a, b KeyTurn) int { return cmp.Compare(a.Key, b.Key) })
	}
	return NextTurn{Turn: min(turn, MaxTurn), Keys: encodeTurns(keys)}
}

func encodeTurns(sorted []KeyTurn) (k KeyTurns) {
	before := uint32(0)
	for _, next := range sorted {
		k = binary.AppendUvarint(k, uint64(next.Key-before))
		k = binary.AppendUvarint(k, uint64((min(next.Turn, MaxTurn)+time.Millisecond-1)/time.Millisecond))
		before = next.Key
	}
	return k
}

// All returns the turns, in the order of the digests, up to the first one that is invalid.
func (k KeyTurns) All() []KeyTurn {
	all, _ := k.decode()
	return all
}

// Valid returns an error if the bytes are none of NextTurns.
func (k KeyTurns) Valid() error {
	_, err := k.decode()
	return err
}

func (k KeyTurns) decode() (all []KeyTurn, _ error) {
	key := uint64(0)
	for rest := k; len(rest) > 0; {
		further, n := binary.Uvarint(rest)
		turn, m := binary.Uvarint(rest[max(0, n):])
		if key += further; n <= 0 || m <= 0 || further >= Keys || key >= Keys || turn > uint64(MaxTurn/time.Millisecond) {
			return all, errors.New("turns of values are damaged")
		}
		all = append(all, KeyTurn{Key: uint32(key), Turn: time.Duration(turn) * time.Millisecond})
		rest = rest[n+m:]
	}
	return all, nil
}
