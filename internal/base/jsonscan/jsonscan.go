// Package jsonscan finds the end of JSON values, of usual ones at six times the speed of
// encoding/json. A value that it accepts is valid JSON; for any other, encoding/json must decide.
package jsonscan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// MaxDepth is the nesting that fits into the bits of a word.
const MaxDepth = 64

// Value returns the index behind the value that begins at b[i], without white space around it, and
// whether it is known to be ASCII. It returns -1 if it is not sure that there is a value, nested
// at most [MaxDepth] deep.
func Value(b []byte, i int) (end int, ascii bool) {
	var objects uint64 // one bit for every open object or array, the innermost last: 1 is an object
	var seen uint64    // the bits of all bytes in strings; elsewhere there is only ASCII
	depth := 0
	for {
		// At the beginning of a value.
		if i >= len(b) {
			return -1, false
		}
		opened := false
		switch c := b[i]; c {
		case '"':
			i = endString(b, i+1, &seen)
		case '{', '[':
			if depth == MaxDepth {
				return -1, false
			}
			depth++
			objects <<= 1
			if c == '{' {
				objects |= 1
			}
			i = Space(b, i+1)
			opened = true
		case 't':
			i = endWord(b, i, "true")
		case 'f':
			i = endWord(b, i, "false")
		case 'n':
			i = endWord(b, i, "null")
		default:
			i = endNumber(b, i)
		}
		if i < 0 {
			return -1, false
		}
		// Behind a value, or behind the bracket that opens one: up to the next value.
		for {
			if depth == 0 {
				return i, seen&tops == 0
			}
			if !opened {
				i = Space(b, i)
			}
			if i >= len(b) {
				return -1, false
			}
			inObject := objects&1 == 1
			if b[i] == ']' && !inObject || b[i] == '}' && inObject {
				depth--
				objects >>= 1
				opened = false
				i++
				continue
			}
			if !opened {
				if b[i] != ',' {
					return -1, false
				}
				i = Space(b, i+1)
			}
			if inObject {
				if i >= len(b) || b[i] != '"' {
					return -1, false
				}
				if i = endString(b, i+1, &seen); i < 0 {
					return -1, false
				}
				if i = Space(b, i); i >= len(b) || b[i] != ':' {
					return -1, false
				}
				i = Space(b, i+1)
			}
			break
		}
	}
}

// Space returns the index of the next byte, from i on, that is not white space: usually i itself.
func Space(b []byte, i int) int {
	if i < len(b) && b[i] > ' ' {
		return i
	}
	return skipSpaces(b, i)
}

func skipSpaces(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return i
}

func endWord(b []byte, i int, word string) int {
	if !bytes.HasPrefix(b[i:], []byte(word)) {
		return -1
	}
	return i + len(word)
}

// endNumber returns the index behind the number that begins at i, or -1.
func endNumber(b []byte, i int) int {
	if i < len(b) && b[i] == '-' {
		i++
	}
	first := i
	if i = skipDigits(b, i); i == first || b[first] == '0' && i > first+1 {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		first = i + 1
		if i = skipDigits(b, first); i == first {
			return -1
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		first = i
		if i = skipDigits(b, first); i == first {
			return -1
		}
	}
	return i
}

func skipDigits(b []byte, i int) int {
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	return i
}

// A word of eight bytes in which every byte is one, or has only its top bit.
const (
	ones = 0x0101010101010101
	tops = 0x80 * ones
)

// endString returns the index behind the closing quote of the string whose first byte is at i, or
// -1, looking at eight bytes at a time. It adds the bits of the string's bytes to seen, and perhaps
// those of bytes behind it.
func endString(b []byte, i int, seen *uint64) int {
	for {
		var found uint64
		for ; i+8 <= len(b); i += 8 {
			word := binary.LittleEndian.Uint64(b[i:])
			*seen |= word
			if found = special(word); found != 0 {
				i += bits.TrailingZeros64(found) / 8
				break
			}
		}
		if found == 0 {
			for ; i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= ' '; i++ {
				*seen |= uint64(b[i])
			}
			if i >= len(b) {
				return -1
			}
		}
		if b[i] == '"' {
			return i + 1
		}
		if i = endEscape(b, i); i < 0 {
			return -1
		}
	}
}

// endEscape returns the index behind the escape sequence that begins at i, or -1.
func endEscape(b []byte, i int) int {
	if b[i] != '\\' || i+1 >= len(b) {
		return -1
	}
	if b[i+1] != 'u' {
		if bytes.IndexByte([]byte(`"\/bfnrt`), b[i+1]) < 0 {
			return -1
		}
		return i + 2
	}
	if i+6 > len(b) {
		return -1
	}
	for _, c := range b[i+2 : i+6] {
		if c-'0' > 9 && (c|0x20)-'a' > 'f'-'a' {
			return -1
		}
	}
	return i + 6
}

// special finds quotes, backslashes and bytes below a space in a word: the lowest bit that it
// returns is the top bit of the first of them, 0 if there is none.
func special(word uint64) uint64 {
	quote, slash := word^'"'*ones, word^'\\'*ones
	// The top bit of a byte is set if a subtraction borrows: in the lowest byte that is looked
	// for, and perhaps in bytes above it. Bytes from 0x80 on are plain.
	return ((quote - ones) | (slash - ones) | (word - ' '*ones)) &^ word & tops
}

// MaxNesting is how deep arrays and objects of an item or a result may be nested. Usual decoders of other languages
// bear about so much, and some of them end their process with more.
const MaxNesting = 1000

// TooDeep reports whether a JSON value is nested deeper than [MaxNesting].
func TooDeep(b []byte) bool { return len(b) > MaxNesting && tooDeep(b) }

func tooDeep(b []byte) bool {
	if bytes.Count(b, []byte{'['})+bytes.Count(b, []byte{'{'}) <= MaxNesting {
		return false // the usual case, found quickly
	}
	for depth, i := 0, 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i = Quoted(b, i) - 1
		case '[', '{':
			if depth++; depth > MaxNesting {
				return true
			}
		case ']', '}':
			depth--
		}
	}
	return false
}

// Quoted returns the index behind the string whose opening quote is at b[i], whatever is in it, or len(b) if it does
// not end.
func Quoted(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// Loosely returns the index behind what begins at b[i], by brackets and quotes alone, whether it is JSON or not. It
// returns -1 if they do not match.
func Loosely(b []byte, i int) int {
	for depth := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			if i = Quoted(b, i) - 1; depth == 0 {
				return i + 1
			}
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 {
				return i + 1
			}
			if depth < 0 {
				return i
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
	return -1
}
