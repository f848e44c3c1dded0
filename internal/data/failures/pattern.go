package failures

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/job"
)

// readMessage is how many bytes of a message its pattern is made of.
const readMessage = 1000

// patterns finds the patterns of messages. One goroutine may use it.
type patterns struct{ out []byte }

// fit returns a pattern, or its beginning with a *.
func fit(pattern string) string {
	short := text.Fit(pattern, MaxText)
	if short == pattern {
		return pattern
	}
	return strings.TrimSuffix(short, "…") + "*"
}

// of returns the pattern of a failure's message: the message matches it (see [job.Where]).
func (p *patterns) of(f *job.Failure) string {
	line := firstLine(f.Error.Message)
	if len(line) > readMessage {
		line = strings.TrimSuffix(text.Cut(line, readMessage), "…")
	}
	p.out = p.out[:0]
	if limits.FailureKindOf(f.Kind).Said { // its status, which is its type
		status := len(line) - len(strings.TrimLeft(line, "abcdefghijklmnopqrstuvwxyz "))
		status += len(line[status:]) - len(strings.TrimLeft(line[status:], "0123456789"))
		p.out, line = append(p.out, line[:status]...), line[status:]
	}
	p.add(line)
	return fit(string(p.out))
}

// add adds the pattern of a line.
func (p *patterns) add(line string) {
	before := rune(' ')
	for line != "" {
		r, size := utf8.DecodeRuneInString(line)
		n := size
		switch {
		case isQuote(r) && !unicode.IsLetter(before) && !unicode.IsDigit(before):
			if end := strings.IndexRune(line[size:], r); end >= 0 { // a name
				n = size + end + size
				p.out = append(append(append(p.out, line[:size]...), '*'), line[:size]...)
				break
			}
			p.keep(line[:n])
		case isWord(r):
			n = wordLength(line)
			p.word(line[:n])
		default:
			p.keep(line[:n])
		}
		before, _ = utf8.DecodeLastRuneInString(line[:n])
		line = line[n:]
	}
}

func isQuote(r rune) bool { return r == '"' || r == '\'' || r == '`' }

// isWord reports whether a character may belong to a path, a number or a name.
func isWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(`/\._-:@%+~#&?=`, r)
}

// wordLength returns how long the word is that a line begins with, without what ends a sentence or a part of it.
func wordLength(line string) int {
	n := strings.IndexFunc(line, func(r rune) bool { return !isWord(r) })
	if n < 0 {
		n = len(line)
	}
	if bare := len(strings.TrimRight(line[:n], ".:?=-")); bare > 0 {
		return bare
	}
	return n
}

// keep adds a text that stays as it is.
func (p *patterns) keep(s string) { p.out = append(p.out, s...) }

// differs adds a *, in place of what differs. Those of a list are one.
func (p *patterns) differs() {
	for _, between := range []string{"*", "*, ", "*,", "* "} {
		if bytes.HasSuffix(p.out, []byte(between)) {
			p.out = p.out[:len(p.out)-len(between)]
			break
		}
	}
	p.out = append(p.out, '*')
}

// word adds the pattern of a word.
func (p *patterns) word(w string) {
	if isPlace(w) {
		p.differs()
		return
	}
	for w != "" { // letters and digits, then what is between them and others
		n := strings.IndexFunc(w, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		if n < 0 {
			n = len(w)
		}
		if isUUID(w) {
			n = uuidLength
			p.differs()
		} else {
			p.piece(w[:n])
		}
		w = w[n:]
		_, between := utf8.DecodeRuneInString(w)
		p.keep(w[:between])
		w = w[between:]
	}
}

// piece adds the pattern of letters and digits.
func (p *patterns) piece(w string) {
	digit := strings.IndexFunc(w, unicode.IsDigit)
	switch {
	case digit < 0:
		p.keep(w)
	case isCode(w):
		p.differs()
	default:
		p.digits(w)
	}
}

// number adds a * for a number. It is one with a number before it if there is one character between them, as in 12:30.
func (p *patterns) number() {
	if n := len(p.out); n >= 2 && p.out[n-2] == '*' && strings.IndexByte(".:-/+_", p.out[n-1]) >= 0 {
		p.out = p.out[:n-1]
		return
	}
	p.differs()
}

// digits adds a word with a * for each of its numbers, as in "int*" and "*ms".
func (p *patterns) digits(w string) {
	for w != "" {
		n := strings.IndexFunc(w, unicode.IsDigit)
		if n < 0 {
			p.keep(w)
			return
		}
		p.keep(w[:n])
		p.number()
		w = strings.TrimLeftFunc(w[n:], unicode.IsDigit)
	}
}

// isPlace reports whether a word is a path, a URL or an address.
func isPlace(w string) bool {
	for _, begin := range []string{"/", "./", "../", "~/"} {
		if strings.HasPrefix(w, begin) && len(w) > len(begin) {
			return true
		}
	}
	return strings.Contains(w, "://") || strings.Contains(w, "@") && len(w) > 2 || strings.Count(w, "/")+strings.Count(w, `\`) >= 2
}

const (
	lowerHex   = "0123456789abcdef"
	upperHex   = "0123456789ABCDEF"
	uuidLength = 36
)

// isUUID reports whether a word begins with one.
func isUUID(w string) bool {
	if len(w) < uuidLength || w[8] != '-' || w[13] != '-' || w[18] != '-' || w[23] != '-' {
		return false
	}
	return strings.Trim(w[:uuidLength], upperHex+"abcdef-") == ""
}

// isCode reports whether letters and digits are a code, such as a hash, and not a word with a number.
func isCode(w string) bool {
	const shortestHex, shortest, numbersOfCode = 6, 8, 2
	hex := strings.Trim(w, lowerHex) == "" || strings.Trim(w, upperHex) == ""
	numbers := strings.FieldsFunc(w, func(r rune) bool { return !unicode.IsDigit(r) })
	return strings.HasPrefix(w, "0x") || hex && len(w) >= shortestHex || len(w) >= shortest && len(numbers) >= numbersOfCode
}
