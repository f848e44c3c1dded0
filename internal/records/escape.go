package records

import "unicode/utf8"

// plain marks the bytes that need no escape in a JSON string. 0xE2 does too, unless it
// begins one of the two separators that appendEscaped looks for.
var plain = func() (table [256]bool) {
	for b := range table {
		table[b] = b >= ' ' && b != '"' && b != '\\' && b != 0xE2
	}
	return table
}()

// appendEscaped appends s, which is valid UTF-8, as the inside of a JSON string. It escapes what
// JSON asks for, and the line separators U+2028 and U+2029, at which some readers of lines break;
// characters with a meaning in HTML stay as they are.
func appendEscaped[S []byte | string](dst []byte, s S) []byte {
	const hex = "0123456789abcdef"
	begin := 0
	for i := 0; i < len(s); i++ {
		b := s[i]
		if plain[b] {
			continue
		}
		if b == 0xE2 {
			if s[i+1] != 0x80 || s[i+2]&^1 != 0xA8 {
				continue
			}
			dst = append(dst, s[begin:i]...)
			dst = append(dst, `\u202`...)
			dst = append(dst, hex[s[i+2]&0xF])
			i += 2
			begin = i + 1
			continue
		}
		dst = append(dst, s[begin:i]...)
		begin = i + 1
		switch b {
		case '"', '\\':
			dst = append(dst, '\\', b)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		case '\b':
			dst = append(dst, `\b`...)
		case '\f':
			dst = append(dst, `\f`...)
		default:
			dst = append(dst, `\u00`...)
			dst = append(dst, hex[b>>4], hex[b&0xF])
		}
	}
	return append(dst, s[begin:]...)
}

// firstNonUTF8 returns the index of the first byte that is not UTF-8, or -1.
func firstNonUTF8(b []byte) int {
	if utf8.Valid(b) {
		return -1
	}
	at := 0
	for {
		r, n := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && n <= 1 {
			return at
		}
		at += n
	}
}
