// Package wire holds the names and messages that only stint's own parts exchange: task queues,
// workflow IDs, queries, memo fields, what heartbeats carry. What users of stint need lies in job.
package wire
