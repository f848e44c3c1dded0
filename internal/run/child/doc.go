// Package child runs the child processes of a worker: each in its own process group, known to
// a guard that outlives the worker, and reaped only once its group is dead.
//
// On Linux, what a child has started ends with it even if it has left the group, as timeout(1), setsid(1)
// and daemons do. Each child leads a session, and has a mark in its environment. While children run,
// this process is a child subreaper: orphans become its children. It knows them by their session or by
// the mark, kills them when their child has ended, and collects them. The guard does the same when the
// worker is gone. A child may also be one that leaves daemons: then only its session ends with it.
//
// The limits:
//   - A process that has begun its own session and was started with another environment has neither mark. It is known
//     if it was seen below its child: that is looked at once a second, and before each signal. It stays if it loses its
//     parent before that, for example because its child ends by itself soon after it was started, or starts it after
//     TERM.
//   - The guard looks once the worker has ended, and most children with it: it finds sessions and marks, and what is
//     below those. Processes with neither whose parents have ended stay.
//   - What root has moved into another PID namespace may be orphaned to that one's first process and stay.
//   - A process of another user cannot be killed. If it is a child that is logged, and tried again until it has ended.
//   - A zombie of unknown origin in another session than this process's is collected after a minute, while there are
//     Starters.
//
// What lies where:
//
//	child.go                  starts processes, signals them, waits for them
//	child_*.go, group_*.go    process groups, CPUs, kills for want of memory
//	orphans_linux.go          what has left its group; children that may leave daemons
//	self_unix.go              this program as its own child
//	pipes.go                  standard streams; writes frames to a process that may not read
//	pipes_linux.go            a pipe for bulk data that does not poll; one whose reader knows what was ever written to it
//	stderr.go                 keeps and logs what a process writes to its standard error
//
// # Who ends them
//
// internal/run/child runs child processes. A child leads its own session and process group and has a scrubbed
// environment, a parent-death signal and a mark in its environment. The worker is the subreaper of its descendants:
// processes that leave a child's group are found by their session or mark, killed with the child, and collected; those
// that have neither are found if they were seen below the child before, which is looked at every second and before each
// signal. The daemons of hooks are left alone. If the worker itself is killed, the guard does the same
// (internal/run/guard): a small process in its own session, which notices the end of the worker's pipe; a guard that
// dies is replaced at once. A child is awaited without being reaped, its group is killed, then it is reaped: its number
// cannot be another's in between. The wait is like that for a connection, not a blocking system call, which would keep
// a processor from the other goroutines for up to 10 ms. Restarts of a slot are counted by the worker
// (worker/restarts.go): kills that stint decides on (stop, drain, another call's expiry, isolation) do not count.
package child
