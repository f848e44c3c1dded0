// Package coordinate does what every job does. A [Coordinator] opens legs and shares the window out to them, stops, runs hooks,
// takes settings, watches tolerance and rate, reports, salvages, continues as new and concludes. It knows no kind of job: that is its
// [Work], which finds the next [Assignment] and finishes the output. A leg is reached by its [Handle].
//
//	work.go, run.go            what is special to a kind of job; a job from its start to its end
//	coordinator.go             signals, queries, and the loop that starts whatever can start
//	planning.go, presence.go   what an earlier run has left, the next assignment; a pool that nobody serves
//	openlegs.go, window.go     open legs, and how many places of the window each of them gets
//	stop.go, conclude.go       how a job ends
//	settings.go, hooks.go, tolerance.go, throttle.go
//	check.go                   input that makes no sense
package coordinate
