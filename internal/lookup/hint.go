package lookup

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/converter"
)

// LastHint returns what a batch's last heartbeat has said, and when it came. The worker is known
// without any.
func LastHint(a *workflow.PendingActivityInfo, c converter.DataConverter) (hint wire.Hint, beat time.Time) {
	if details := a.GetHeartbeatDetails(); details != nil {
		_ = c.FromPayloads(details, &hint) // another version's: the worker is known
		beat = a.GetLastHeartbeatTime().AsTime()
	}
	worker, process := wire.WorkerOf(a.GetLastWorkerIdentity())
	hint.Worker, hint.Process = cmp.Or(hint.Worker, worker), cmp.Or(hint.Process, process)
	if hint.PID == 0 {
		hint.PID = workerPID(hint.Worker)
	}
	return hint, beat
}

// workerPID is the process of a worker, read from its name: "host-pid". 0 if the name has none.
func workerPID(name string) int {
	pid, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}
