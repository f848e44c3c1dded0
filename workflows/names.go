package workflows

// Signals between a job and its legs.
const (
	signalHalt  = "halt"  // job → leg: a stop; argument job.StopNotice
	signalGrant = "grant" // job or leg → leg: more places in the window; argument int
	signalFail  = "fail"  // leg → job: an error has ended the leg; argument job.Error
	signalNext  = "next"  // job → leg: who gets the places that it does not need; argument string, a workflow ID
)
