// Package valuelists has the lists of values of a command line, which take the place of inputs, as GNU parallel's.
package valuelists

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Before a list of values on the command line: its values go with each of the list before, or (linked) the first one
// with the first one there, and so on, as with GNU parallel.
const (
	Mark       = ":::"
	linkedMark = ":::+"
	fileMark   = "::::"
)

// Lists are the lists of values of a command line, which take the place of inputs: an item for each combination.
type Lists [][][]string // a group for each list that is not linked: rows, each with the values of the linked lists

// Split takes the lists of values off a command line. What follows the first mark are no flags.
func Split(args []string) (rest []string, lists Lists, err error) {
	marks := []string{Mark, linkedMark}
	first := slices.IndexFunc(args, func(arg string) bool { return slices.Contains(marks, arg) })
	if first < 0 || args[0] != "run" {
		return args, nil, nil
	}
	var mark string
	var values []string
	end := func() error {
		switch {
		case mark == "":
		case len(values) == 0:
			return fmt.Errorf("there is no value after %s", mark)
		case mark == linkedMark && lists == nil:
			return fmt.Errorf("%s links a list to the one before, and it is the first: write %s", linkedMark, Mark)
		case mark == linkedMark:
			lists.link(values)
		default:
			var rows [][]string
			for _, value := range values {
				rows = append(rows, []string{value})
			}
			lists = append(lists, rows)
		}
		return nil
	}
	for _, arg := range args[first:] {
		switch {
		case slices.Contains(marks, arg):
			if err := end(); err != nil {
				return nil, nil, err
			}
			mark, values = arg, nil
		case strings.HasPrefix(arg, fileMark) && strings.Trim(arg, ":+") == "":
			return nil, nil, fmt.Errorf("%s is not known: name the file as an input, each line of which is an item", arg)
		case !utf8.ValidString(arg):
			return nil, nil, fmt.Errorf("value %q of %s is not UTF-8: name an input instead, each line of which is an item", arg, mark)
		default:
			values = append(values, arg)
		}
	}
	return args[:first], lists, end()
}

// link adds a value to each row of the last group, which becomes as short as the shorter of the two lists.
func (l Lists) link(values []string) {
	group := &l[len(l)-1]
	*group = (*group)[:min(len(*group), len(values))]
	for i := range *group {
		(*group)[i] = append((*group)[i], values[i])
	}
}

// Identity distinguishes lists from others.
func (l Lists) Identity() string {
	text, _ := json.Marshal(l) // texts can always be written
	return string(text)
}

// Reader returns the items: each a list in JSON, on a line. The values of the last group change first.
func (l Lists) Reader() io.Reader {
	return &listReader{lists: l, at: make([]int, len(l))}
}

type listReader struct {
	lists Lists
	at    []int // of the next item, by group; nil: there is none
	buf   bytes.Buffer
}

// Read implements io.Reader.
func (r *listReader) Read(p []byte) (int, error) {
	for r.at != nil && r.buf.Len() < len(p) {
		var item []string
		for i, group := range r.lists {
			item = append(item, group[r.at[i]]...)
		}
		line := json.NewEncoder(&r.buf)
		line.SetEscapeHTML(false)
		if err := line.Encode(item); err != nil {
			return 0, err
		}
		r.advance()
	}
	return r.buf.Read(p)
}

// advance goes on to the next item.
func (r *listReader) advance() {
	for i := len(r.at) - 1; i >= 0; i-- {
		if r.at[i]++; r.at[i] < len(r.lists[i]) {
			return
		}
		r.at[i] = 0
	}
	r.at = nil
}
