package protocol

// How many batches a job gives to a leg.
const (
	// PageBatches is the most batches of a page. A leg with so many, each of which takes six events of
	// history, stays below the 4,096 at which Temporal suggests to continue as new.
	PageBatches = 600
	// FirstPage is the most batches of a job's first page.
	FirstPage = 16
	// InsideBatches is the most batches of a second and last page for the job to run it in the leg inside
	// it: some 600 events.
	InsideBatches = 100
)
