package workflows

// Signals between a job and its legs.
const (
	signalHalt   = "halt"   // job → leg: a stop; argument job.StopNotice
	signalGrant  = "grant"  // job or leg → leg: more places in the window; argument int
	signalFail   = "fail"   // leg → job: an error has ended the leg; argument job.Error
	signalLimits = "limits" // job → leg: the rate it may work at, and what it shall tell of; argument limits
	signalSlow   = "slow"   // leg → job: a handler has asked for less; argument slowWish
	signalCounts = "counts" // leg → job: how many of its items have failed; argument counts
	signalNext   = "next"   // job → leg: who gets the places that it does not need; argument string, a workflow ID
)
