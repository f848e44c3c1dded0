// Package redrive has jobs that run the failed items of a completed job again.
package redrive
