// Package jobs lets any Go program start, watch and stop stint jobs, which package job describes:
//
//	c := jobs.NewClient(temporalClient, nil)
//	files := &job.Files{Input: []string{"in.jsonl"}}
//	run, err := c.Start(ctx, job.Spec{Name: "nightly", Pool: "thumbnails", Files: files, Output: "out.jsonl"}, nil)
//	report, err := run.Wait(ctx)
//
// Errors that a caller may want to handle have exported types, such as [ExistsError]; use errors.As. Methods that need
// an answer from the server wait for it until their context ends.
package jobs

// What lies where: client.go and wait.go have the client and its runs, kinds.go what it knows of each kind of job,
// given.go and progress.go reports of jobs whose workflows do not answer, payloadcodec.go encryption of what Temporal
// sees, feed.go a feed's items, feedstream.go streams of them, running.go what workers have in hand, stop.go stops of
// one job, a pool or all.
