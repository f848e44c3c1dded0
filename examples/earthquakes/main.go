// Command earthquakes finds the large airport nearest to each earthquake of a file of GeoJSON
// features, one a line. It is a whole program of stint around a Go handler that holds its data in
// memory: `earthquakes run` does everything in one process, `earthquakes worker` and
// `earthquakes start` do the same on a cluster.
package main

import "github.com/stint-run/stint/starter"

func main() { starter.Main(handler) }
