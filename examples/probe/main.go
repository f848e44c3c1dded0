// Command probe asks a web address how it is, at an interval, and records the answers. It is a whole program of stint
// around a Go function: `probe worker` serves a pool with it, `probe loop` has the pool run it.
package main

import (
	"os"

	"github.com/stint-run/stint/starter"
	"github.com/stint-run/stint/worker"
)

func main() { starter.Main(worker.Each(Probe{URL: os.Getenv("PROBE_URL")}.Ask)) }
