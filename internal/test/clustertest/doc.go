// Command clustertest runs a job on a cluster whose parts fail, for real: workers on hosts of their own, each service of
// Temporal a process of its own, on PostgreSQL, and a bucket. The job reads lines from the bucket and writes them to it;
// what it has written is compared with what the filter gives, byte by byte, after every failure. It needs root, Linux, a
// PostgreSQL of Debian's packages, and ip, mount and setpriv.
//
//		go run ./internal/test/clustertest -items 10000000 -weed .stint/images/weed
//		go run ./internal/test/clustertest -only 'server, longer'
//
//	  - wire.go: a wire between hosts, which can be cut, lose packets and be slow
//	  - host.go: a host: its network, disk, memory, and programs
//	  - servers.go: PostgreSQL, Temporal and the bucket
//	  - job.go: the job, and whether its output is exact
//	  - scenarios.go: what fails, as a table
//	  - main.go: the command
//	  - clock.go: a stint whose clock is wrong
package main
