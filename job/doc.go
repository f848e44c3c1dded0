// Package job describes stint jobs: what is to be done (a [Spec]), how it goes (a [Report]), and what became of items
// that failed (a [Failure]). It is data; package jobs starts, watches and stops jobs.
//
// A job is one coordinating Temporal workflow and all that it coordinates; its name is its workflow ID. The items
// themselves never travel through Temporal: a job carries the location of its input, and the workers of its pool
// (package worker) read it and write the output.
//
// A [FieldError] names a field that cannot be used; use errors.As.
package job
