// Command birdstrikes gives each record of a CSV file of bird strikes its total cost and a risk
// class. It is a whole program of stint around a Go function: `birdstrikes run` does everything in
// one process, `birdstrikes worker` and `birdstrikes start` do the same on a cluster.
package main

import (
	"github.com/stint-run/stint/starter"
	"github.com/stint-run/stint/worker"
)

func main() { starter.Main(worker.Each(Assess)) }
