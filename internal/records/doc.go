// Package records finds items in bytes: JSON lines, CSV or lines of text. It finds where items begin
// and end, cuts a stream into ranges of whole items, reads the items of such a
// range, and turns an item into the form that a handler gets. Its only I/O is an io.Reader.
//
// # Where an item ends
//
// A line ends after its '\n', or where the input ends. A line that consists of spaces, tabs and
// carriage returns only is blank: not an item, in every format. An item begins with the first line
// after the previous item that is not blank. Of jsonl and text an item is one line. Of CSV it is
// one record: it ends at the first '\n' that is not inside a quoted field, and a quote opens a
// quoted field only as the first byte of a field. If that '\n' (or the end of the input, outside
// quotes) does not come within MaxItem bytes, or the input ends inside quotes, then the item is
// the single line it begins with, invalid, and the next line begins anew: one stray quote costs
// one line and not the rest of the file.
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
// None of this depends on whether the bytes make sense, on the size of the ranges, or on how many
// bytes one Read of the underlying reader returns. The fuzz tests check it.
package records
