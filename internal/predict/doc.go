// Package predict predicts a job before it is started: how many items and batches it has, what it costs
// Temporal, and how long it takes, going by a sample of its items. The sample is run as a small job; whoever
// starts that has its report, and the sample's Sampler has the times of its calls.
//
//	survey.go    counts the items of the inputs
//	draw.go      draws a sample of them, and writes it to the inputs of a small job
//	sampler.go   has that job's calls cut in two sizes, and times them
//	predict.go   extrapolates from the sample to the whole job
//	pipeline.go  the same for a job with stages
package predict
