package workflows

import "github.com/stint-run/stint/activities"

// acts names activities by their methods; it is never called.
var acts *activities.Activities

// Signals between a job and its legs.
const (
	signalHalt   = "halt"   // job → leg: a stop; argument protocol.StopNotice
	signalGrant  = "grant"  // job → leg: more places in the window, or fewer; argument int
	signalPlaces = "places" // leg → job: places that it has no batches for; argument placesBack
	signalFail   = "fail"   // leg → job: an error has ended the leg; argument job.Error
	signalLimits = "limits" // job → leg: the rate it may work at, and when to report counts; argument limits
	signalSlow   = "slow"   // leg → job: a handler has asked to slow down; argument slowDownRequest
	signalCounts = "counts" // leg → job: how many of its items have failed; argument counts
	signalPool   = "pool"   // leg → job: what has become known of the pool; argument poolNews
	signalKept   = "kept"   // leg → job: what a leg that continues as new has committed; argument keptResult
)
