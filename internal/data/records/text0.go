package records

import "github.com/stint-run/stint/internal/wire"

// Text0 has texts that each end with a NUL byte, and may have line ends, as `find -print0` writes them. What a handler
// gets is a string in JSON.
const Text0 wire.Format = "text0"

var text0Format = format{
	name: Text0,
	scan: func(_ wire.Shape, scan *scanner) { scan.blanks, scan.terminator = true, 0 },
	appendJSON: func(_ *wire.Shape, dst, raw []byte) ([]byte, error) {
		dst = append(dst, '"')
		return append(appendEscaped(dst, raw), '"'), nil
	},
	ends: "\x00", binary: true,
}
