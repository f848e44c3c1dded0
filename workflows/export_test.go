package workflows

// ShortLegs has legs of feeds be sealed after so many exchanges, and jobs continue as new after so many legs. It is for the tests'
// beginning.
func ShortLegs(exchanges, legs int) { sealUpdates, legsARun = exchanges, legs }
