// Package standard knows the standard files of this process, and what its system says of them.
package standard
