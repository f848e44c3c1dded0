// Package records finds items in bytes: JSON lines, JSON values or the elements of an array, CSV or lines of text. It
// finds where items begin and end, cuts a stream into ranges of whole items, reads the items of such a range, and turns
// an item into the form that a handler gets. Its only I/O is an io.Reader.
//
// A format is a value of type format, in a file of its own (jsonl.go, json.go, csv.go, text.go): facts and functions.
// It is an entry of the table in table.go, and of the list in internal/base/formats. Nothing else knows it.
//
// # Where an item ends
//
// A line ends after its '\n', or where the input ends. A line that consists of spaces, tabs and carriage returns only
// is blank (but a tab that is CSV's delimiter is no blank): not an item, except in text, where every line is one. An
// item begins with the first line after the previous item that is not blank, in text with the next line. Of jsonl and
// text an item is one line. Of text0 it is what comes before a NUL byte, which is in the place of a '\n' there. Of CSV it is one record, which of CSV without quotes is one line: it ends at the first '\n'
// that is not inside a quoted field, and a quote opens a quoted field only as the first byte of a field. If that '\n'
// (or the end of the input, outside quotes) does not come within MaxItem bytes, or the input ends inside quotes, then
// the item is the single line it begins with, invalid, and the next line begins anew: one stray quote costs one line
// and not the rest of the file.
//
// Of json an item is one value, on as many lines as it takes. One that begins with a bracket ends with the bracket that
// brings their number, outside strings, back to zero; a string ends with its quote; anything else before white space, a
// comma, a quote or an opening bracket. In an array, which begins behind its opening bracket, an item ends before the
// comma or closing bracket that is outside strings and other brackets, without the white space before that. The comma
// before an item belongs to it: behind a comma that no value follows there is an item without bytes, invalid. A closing
// bracket without a comma ends the array, and only white space may follow. What is in an item is not looked at: a fault
// costs one item, unless it is a bracket or a quote too few.
//
// # Why a range holds the same items as the whole
//
// A Cutter and a Reader share one scanner, and a range that a Cutter cut begins where an item ends
// (or at the beginning of the input) and ends where a later item ends. So does what is left of a
// range after some of its items. Claim: reading such a range [a, b) finds, in the same places and
// with the same errors, the items that a read of the whole input finds there.
//
// The scanner carries nothing from one item to the next that influences where items lie (what it
// does carry, the place up to which a search has failed, only saves time; see scanner.record). So
// it is enough to look at one item that begins at p and ends at e <= b, and to show that hiding
// the bytes from b on changes nothing; the rest is induction over the items. The blank lines
// before p end before p, and both reads see them. Of the item itself:
//
//   - A line is hidden in part only if the range ends within it; it does not, for e, and with it
//     b, lies just after a '\n' or at the end of the input. This settles jsonl and text, blank
//     lines, and every item that is longer than MaxItem, since it is a single line.
//   - A CSV record that is complete within MaxItem bytes lies in [p, e), and so does all that
//     showed it to be complete: if it is ended by the end of the input, then e = b is that end.
//   - A CSV item cut as a single line because no '\n' outside quotes is among the first MaxItem+1
//     bytes from p, or before the end of the input. Hiding bytes brings no such '\n' to light. It
//     could only make b a new end of input, and one that is reached outside quotes would complete
//     the record. But b is then just after a '\n' (else nothing is hidden), which the search from
//     p has met inside quotes; and after a '\n' inside quotes the search is still inside quotes.
//     So it ends inside quotes, and the item is the same single line, with the same error.
//
// For JSON values the same holds with another end: a cut ends where an item does, in an array after white space behind
// it.
//
//   - A value that is complete by itself lies in [p, e), and whatever follows changes nothing. One that ends before a
//     byte which is not its own ends as well at the end of what is read: hiding the bytes from b on shows b = e as the
//     end of the input.
//   - An item without bytes begins with its comma at p; the byte behind, or the end, comes at b at the latest.
//   - Whether an array is closed a range does not show, so only the Cutter of the input's whole rest asks
//     ([Cutter.Incomplete]).
//   - What is left behind an item begins there with white space, or with the comma of the next one, as a cut may.
//
// None of this depends on whether the bytes make sense, on the size of the ranges, or on how many
// bytes one Read of the underlying reader returns. The fuzz tests check it.
package records
