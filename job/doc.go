// Package job describes stint jobs, and lets any Go program start, watch and stop them.
//
// A job is one coordinating Temporal workflow and all that it coordinates; its name is its workflow
// ID. A [Spec] describes it, a [Client] starts, watches and stops it, and a [Report] describes its state:
//
//	c := job.NewClient(temporalClient)
//	run, err := c.Start(ctx, job.Spec{Name: "nightly", Pool: "thumbnails", Input: []string{"in.jsonl"}, Output: "out.jsonl"})
//	report, err := run.Wait(ctx)
//
// The items themselves never travel through Temporal: a job carries the location of its input, and
// the workers of its pool (package worker) read it and write the output.
//
// Errors that a caller may want to handle have exported types, such as [ExistsError] and [FieldError]; use
// errors.As. Methods that need an answer from the server wait for it until their context ends.
package job
