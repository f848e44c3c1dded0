// Package python has the serve protocol's helper for Python, as it is given to the programs of workers.
package python

import _ "embed" // of Helper

// Helper is stint.py.
//
//go:embed stint.py
var Helper []byte
