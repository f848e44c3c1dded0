// Package pipeline makes steps of the stages of a pipeline: [Compile] returns a [Program], which says what a batch
// becomes from step to step. It is pure: workflows replay it.
package pipeline
