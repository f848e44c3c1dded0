//go:build !noserver

package devserver

import (
	"maps"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"go.temporal.io/server/common/dynamicconfig"
)

// unlimited stands for no limit if the server needs a number, and leaves it room to multiply.
const unlimited = 1_000_000

// dynamicConfig tunes the server for one namespace on one machine: prompt, never throttled, small when idle. The keys
// are taken from the server's own variables, so that one which a later server no longer has does not compile. push:
// cancellations are pushed to workers.
func dynamicConfig(push bool) dynamicconfig.StaticClient {
	all := dynamicconfig.StaticClient{}
	maps.Copy(all, promptness())
	maps.Copy(all, pushes(push))
	maps.Copy(all, limits())
	maps.Copy(all, footprint())
	return all
}

// promptness makes the server react at once. Its defaults spread the load of thousands of shards; here there is one.
func promptness() map[dynamicconfig.Key]any {
	return map[dynamicconfig.Key]any{
		// With one process there is nothing to spread, and no task waits in a partition that nobody polls.
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():  1,
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(): 1,

		// Every step of a workflow waits for a read of these queues.
		dynamicconfig.TransferProcessorMaxPollRPS.Key():   2000,
		dynamicconfig.VisibilityProcessorMaxPollRPS.Key(): 200,
		dynamicconfig.OutboundProcessorMaxPollRPS.Key():   200,
		dynamicconfig.TimerProcessorMaxPollRPS.Key():      200,
		// Timers, retries and timeouts are up to this much late.
		dynamicconfig.TimerProcessorMaxTimeShift.Key(): 50 * time.Millisecond,

		// A worker whose slots are taken hears soon that a batch of a higher priority waits.
		dynamicconfig.TaskQueueInfoByBuildIdTTL.Key(): time.Second,

		// No task is handed to a worker that is shutting down, to wait there for its timeout.
		dynamicconfig.EnableCancelWorkerPollsOnShutdown.Key(): true,

		// On a busy machine the server now and then loses the notice that a workflow has closed, and whoever waits for
		// the result notices when the long poll ends: after 20 seconds by default.
		dynamicconfig.HistoryLongPollExpirationInterval.Key(): time.Second,
	}
}

// pushes makes a cancellation reach a running activity without a heartbeat, or not.
func pushes(on bool) map[dynamicconfig.Key]any {
	return map[dynamicconfig.Key]any{
		dynamicconfig.WorkerHeartbeatsEnabled.Key():           on,
		dynamicconfig.WorkerCommandsEnabled.Key():             on,
		dynamicconfig.EnableCancelActivityWorkerCommand.Key(): on,
	}
}

// limits lifts the rates that protect a shared cluster from its users.
func limits() map[dynamicconfig.Key]any {
	const unlimitedRate = float64(unlimited)
	return map[dynamicconfig.Key]any{
		// Each process that uses a feed has one to three in flight. The default is 10, and whoever finds them taken
		// asks again after 200 ms.
		dynamicconfig.WorkflowExecutionMaxInFlightUpdates.Key(): 100,
		// A workflow task sends back what came with it, and a workflow whose task sends 4 MB is terminated. The default
		// is 20 MB.
		dynamicconfig.WorkflowExecutionMaxInFlightUpdatePayloads.Key(): wire.MaxInFlight,

		dynamicconfig.FrontendRPS.Key():                                            unlimited,
		dynamicconfig.FrontendMaxNamespaceRPSPerInstance.Key():                     unlimited,
		dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key():           unlimited,
		dynamicconfig.FrontendMaxConcurrentLongRunningRequestsPerInstance.Key():    unlimited,
		dynamicconfig.FrontendPersistenceMaxQPS.Key():                              unlimited,
		dynamicconfig.HistoryRPS.Key():                                             unlimited,
		dynamicconfig.HistoryPersistenceMaxQPS.Key():                               unlimited,
		dynamicconfig.MatchingRPS.Key():                                            unlimited,
		dynamicconfig.MatchingPersistenceMaxQPS.Key():                              unlimited,
		dynamicconfig.WorkerPersistenceMaxQPS.Key():                                unlimited,
		dynamicconfig.VisibilityPersistenceMaxReadQPS.Key():                        unlimited,
		dynamicconfig.VisibilityPersistenceMaxWriteQPS.Key():                       unlimited,
		dynamicconfig.AdminMatchingNamespaceToPartitionDispatchRate.Key():          unlimitedRate,
		dynamicconfig.AdminMatchingNamespaceTaskqueueToPartitionDispatchRate.Key(): unlimitedRate,
		dynamicconfig.SchedulerNamespaceStartWorkflowRPS.Key():                     unlimitedRate,
	}
}

// footprint keeps an idle server small and still, and silent towards the outside.
func footprint() map[dynamicconfig.Key]any {
	return map[dynamicconfig.Key]any{
		// The server would ask its makers for newer versions.
		dynamicconfig.EnableServerVersionCheck.Key(): false,

		// The scanners clean up after years in a shared cluster. Each costs pollers, a system workflow in the database,
		// and workers that the server never stops.
		dynamicconfig.TaskQueueScannerEnabled.Key(): false,
		dynamicconfig.HistoryScannerEnabled.Key():   false,
		// Without this worker the server follows parent close policies at once.
		dynamicconfig.EnableParentClosePolicyWorker.Key(): false,

		// A goroutine each. A transfer task may wait 0.2 s for a poller, so there are enough of those that an idle
		// queue does not hold up the others.
		dynamicconfig.TransferProcessorSchedulerWorkerCount.Key():               256,
		dynamicconfig.TimerProcessorSchedulerWorkerCount.Key():                  64,
		dynamicconfig.VisibilityProcessorSchedulerWorkerCount.Key():             32,
		dynamicconfig.MemoryTimerProcessorSchedulerWorkerCount.Key():            16,
		dynamicconfig.ReplicationProcessorSchedulerWorkerCount.Key():            1,
		dynamicconfig.ReplicationLowPriorityProcessorSchedulerWorkerCount.Key(): 1,

		// Nobody reads these figures.
		dynamicconfig.PersistenceHealthSignalAggregationEnabled.Key(): false,
		dynamicconfig.PersistenceHealthSignalMetricsEnabled.Key():     false,
		dynamicconfig.HistoryHealthSignalMetricsEnabled.Key():         false,
		// A stopped and resumed process looks like a deadlock.
		dynamicconfig.DeadlockDumpGoroutines.Key(): false,

		// Workflows in memory, closed ones included, at tens of KB each.
		dynamicconfig.HistoryCacheHostLevelMaxSize.Key(): 2000,
		// Events of activities under way. The default of 512 KB has the server read them back from the database when
		// inputs are large: with 20 KB each that is a third of its work.
		dynamicconfig.EventsCacheMaxSizeBytes.Key(): 8 << 20,
	}
}
