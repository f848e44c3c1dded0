// Package job says what a stint job is, and lets any Go program start, watch and stop one.
//
// A job is one coordinating Temporal workflow and all that it coordinates; its name is its workflow
// ID. A [Spec] describes it, a [Client] starts it, and a [Report] tells how it stands:
//
//	c := job.NewClient(temporalClient)
//	run, err := c.Start(ctx, job.Spec{Name: "nightly", Pool: "thumbnails", Input: []string{"in.jsonl"}, Output: "out.jsonl"})
//	report, err := run.Wait(ctx)
//
// The items themselves never travel through Temporal: a job carries where its input lies, and
// workers of its pool (package worker) read it and write the output.
package job
