// Package predict predicts a job before it is started: how many items and batches it has, what it costs
// Temporal, and how long it takes, going by a sample of its items.
//
//	survey.go    counts the items of the inputs
//	sample.go    draws a sample and cuts it into calls
//	trial.go     makes the calls and times them
//	predict.go   extrapolates from the sample to the whole job
//	pipeline.go  does both for a job with stages
//	predictor.go the parts of a worker that it needs
package predict
