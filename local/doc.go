// Package local runs a job with everything embedded: a Temporal server, a worker and the job itself,
// inside any Go program or test. Nothing else has to be installed or started.
//
//	report, err := local.Run(ctx, job.Spec{
//		Input: []string{"strikes.csv"}, Output: "risk.jsonl",
//	}, worker.Each(Assess), local.Options{})
//
// A program that imports this package links the server. One that serves a pool of a cluster imports
// packages worker and job only. `stint run` is this package with a command line around it.
//
// What lies where: local.go has Run and its options, spec.go completes and checks the spec, pools.go gives the pools of
// a pipeline their workers, embed.go runs server, workers and job side by side, resumerun.go starts the job or
// continues an earlier one, printed.go prints results and removes what no later command reads.
package local
