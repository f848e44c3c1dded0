package workflows

import (
	"github.com/stint-run/stint/workflows/internal/feed"
	"github.com/stint-run/stint/workflows/internal/loop"
)

// ShortLegs has legs of feeds be sealed after so many exchanges, and jobs continue as new after so many legs. It is for
// the tests' beginning.
func ShortLegs(exchanges, legs int) { feed.SealUpdates, feed.LegsARun = exchanges, legs }

// ShortLoops has legs of loops continue as new after so many events. It is for the tests' beginning.
func ShortLoops(events int) { loop.LoopEvents = events }
