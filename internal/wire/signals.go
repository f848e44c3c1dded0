package wire

// Signals between a job and its legs.
const (
	SignalHalt     = "stop the leg"        // job → leg: a stop; argument StopNotice
	SignalGrant    = "places to leg"       // job → leg: more places in the window, or fewer; argument int
	SignalPlaces   = "places from leg"     // leg → job: places that it has no batches for; argument PlacesBack
	SignalFail     = "leg failed"          // leg → job: an error has ended the leg; argument job.Error
	SignalLimits   = "limits of leg"       // job → leg: the rate it may work at, and when to report counts; argument LegLimits
	SignalSlow     = "slow down"           // leg → job: a handler has asked to slow down; argument SlowDownRequest
	SignalCounts   = "progress of leg"     // leg → job: how many of its items have failed; argument Counts
	SignalPool     = "workers seen by leg" // leg → job: what has become known of the pool; argument PoolNews
	SignalKept     = "leg has committed"   // leg → job: what a leg that continues as new has committed; argument KeptResult
	SignalDisowned = "disowned"            // job → leg that an earlier run of the job has started: the leg's own job has ended
	SignalRetire   = "retire"              // job → leg of a loop: it ends once its slot's execution has
)

// Signals of a feed.
const (
	SignalOpen      = "open"      // leg → its successor: it takes items from now on; argument FeedOpening
	SignalSuccessor = "successor" // job → leg: the leg that follows stands by; argument its number
	SignalSealed    = "sealed"    // leg → job: it takes no more items, its successor does; argument SealedNotice
	SignalFreed     = "freed"     // leg → job: what a sealed leg has freed since then; argument FreedNotice
	SignalAllFreed  = "all-freed" // job → open leg: what all sealed legs have freed, and items of earlier runs; argument Freed
	SignalSession   = "session"   // leg → job → other legs: a reset has begun a session; argument its number
	SignalResize    = "resize"    // job → leg: how many items a batch gets from now on; argument FeedResize
	SignalClose     = "close"     // job → leg: the feed is closed
	SignalEnded     = "ended"     // leg → job: all that it has accepted is done and committed; argument KeptResult
	SignalStalled   = "stalled"   // leg → job: nothing has finished for 30 s, or something has again; argument StalledNotice
	SignalAlive     = "alive"     // leg → job: nothing; it fails if the job has ended, and another run of it disowns the leg
)
