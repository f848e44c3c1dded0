// Package files has jobs that run a handler over the items of files: their pages are ranges of the inputs.
package files
