package workflows

import "github.com/stint-run/stint/activities"

// acts names activities by their methods; it is never called.
var acts *activities.Activities

// signalKept goes from a leg to its job, with what a leg that continues as new has committed; argument keptResult. The
// others between a job and its legs are in package dispatch.
const signalKept = "kept"
