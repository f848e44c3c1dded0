// Package feed has jobs whose items come from clients.
//
//	work.go, handle.go     a feed: its legs as the coordinator deals with them
//	rules.go, stall.go     what rules count: outcomes by session, items of earlier runs; a feed in which nothing finishes
//	leg.go, exchange.go    the leg of a feed, and what it exchanges with clients
//	supply.go, commit.go   where its batches come from, and where results go
package feed
