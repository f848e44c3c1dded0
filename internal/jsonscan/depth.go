package jsonscan

import "bytes"

// MaxNesting is how deep arrays and objects of an item or a result may be nested. Usual decoders of other languages bear
// about so much, and some of them end their process with more.
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

// Quoted returns the index behind the string whose opening quote is at b[i], whatever is in it, or len(b) if it does not end.
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

// Loosely returns the index behind what begins at b[i], by brackets and quotes alone, whether it is JSON or not. It returns -1
// if they do not match.
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
