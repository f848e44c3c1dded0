// Package jobs lets any Go program start, watch and stop stint jobs, which package job describes:
//
//	c := jobs.NewClient(temporalClient, nil)
//	run, err := c.Start(ctx, job.Spec{Name: "nightly", Pool: "thumbnails", Input: []string{"in.jsonl"}, Output: "out.jsonl"}, nil)
//	report, err := run.Wait(ctx)
//
// Errors that a caller may want to handle have exported types, such as [ExistsError]; use errors.As. Methods that need
// an answer from the server wait for it until their context ends.
package jobs
