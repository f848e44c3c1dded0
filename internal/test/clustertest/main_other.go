//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "clustertest needs Linux: network namespaces, TUN devices and control groups")
	os.Exit(1)
}
