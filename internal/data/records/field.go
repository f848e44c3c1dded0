package records

import "bytes"

// field is one field of a CSV record.
type field struct {
	text    []byte // the content, without the quotes around it
	doubled bool   // whether quotes in text are doubled
}

// quoteFault is what is wrong with a field's quotes: a reason, to be given the field's number.
type quoteFault string

const (
	strayQuote quoteFault = "has a quote in field %d, which does not begin with one"
	afterQuote quoteFault = "has text behind the closing quote of field %d"
	neverClose quoteFault = "has no closing quote in field %d"
)

// cutField takes the first field off a record. It returns what is left behind the delimiter, and
// whether there was one. A quote is a byte like any other unless quoting is set.
func cutField(rec []byte, delimiter byte, quoting bool) (f field, rest []byte, more bool, fault quoteFault) {
	if len(rec) == 0 || rec[0] != '"' || !quoting {
		f.text = rec
		if n := bytes.IndexByte(rec, delimiter); n >= 0 {
			f.text, rest, more = rec[:n], rec[n+1:], true
		}
		if quoting && bytes.IndexByte(f.text, '"') >= 0 {
			fault = strayQuote
		}
		return f, rest, more, fault
	}
	for at := 1; ; at += 2 {
		n := bytes.IndexByte(rec[at:], '"')
		if n < 0 {
			return f, nil, false, neverClose
		}
		at += n
		if at+1 < len(rec) && rec[at+1] == '"' {
			f.doubled = true
			continue
		}
		f.text, rest = rec[1:at], rec[at+1:]
		if len(rest) == 0 {
			return f, nil, false, ""
		}
		if rest[0] != delimiter {
			return f, nil, false, afterQuote
		}
		return f, rest[1:], true, ""
	}
}

// String returns the field's content.
func (f field) String() string {
	if f.doubled {
		return string(bytes.ReplaceAll(f.text, []byte(`""`), []byte(`"`)))
	}
	return string(f.text)
}

// appendJSON appends the field's content as a JSON string. It is valid UTF-8.
func (f field) appendJSON(dst []byte) []byte {
	dst = append(dst, '"')
	text := f.text
	for f.doubled {
		n := bytes.IndexByte(text, '"')
		if n < 0 {
			break
		}
		dst = appendEscaped(dst, text[:n])
		dst = append(dst, `\"`...)
		text = text[n+2:]
	}
	return append(appendEscaped(dst, text), '"')
}
