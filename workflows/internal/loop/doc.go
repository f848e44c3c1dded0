// Package loop has jobs whose items are the ticks of a clock: its slots as the coordinator deals with them (work.go), and the leg that
// runs one (leg.go).
package loop
