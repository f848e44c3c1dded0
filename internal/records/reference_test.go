package records

import "strings"

// reference finds the items of a whole input in the plainest way, byte by byte, as the package
// comment has it.
func reference(data string, s Shape) []Item {
	limit := s.maxItem()
	var items []Item
	for at := 0; at < len(data); {
		line, _, _ := strings.Cut(data[at:], "\n")
		if strings.Trim(line, " \t\r") == "" {
			at += len(line) + 1
			continue
		}
		size, complete := len(line), true
		if s.Format == CSV {
			if size, complete = referenceRecord(data[at:], limit); !complete {
				size = len(line)
			}
		}
		it := Item{Offset: int64(at), Size: int64(size), Raw: []byte(data[at : at+size])}
		if s.Format == CSV {
			it.Raw = []byte(strings.TrimSuffix(string(it.Raw), "\r"))
		}
		if size > limit {
			it.Raw = nil
			it.Err = invalid("is %d bytes long, over the limit of %d bytes", size, limit)
		} else if !complete {
			it.Err = invalid("has a quoted field that is not closed, "+
				"at least not within the limit of %d bytes", limit)
		}
		items = append(items, it)
		at += size + 1
	}
	return items
}

// referenceRecord returns the size of the CSV record that data begins with, unless it is not
// complete within limit bytes.
func referenceRecord(data string, limit int) (size int, complete bool) {
	quoted := false
	for i := 0; i < len(data) && i <= limit; i++ {
		switch {
		case quoted && data[i] == '"' && i+1 < len(data) && data[i+1] == '"':
			i++
		case quoted && data[i] == '"':
			quoted = false
		case quoted:
		case data[i] == '\n':
			return i, true
		case data[i] == '"' && (i == 0 || data[i-1] == ','):
			quoted = true
		}
	}
	return len(data), !quoted && len(data) <= limit
}
