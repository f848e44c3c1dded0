//go:build nextlogic

package workflows

import (
	"os"
	"time"

	"go.temporal.io/sdk/workflow"
)

// A program of a release to come, for the tests of upgrades: from version 2 of the logic on each workflow begins with a
// timer. A history of one version is no history of the other one.

// logicTimer is the gate of that timer.
const logicTimer = 2

// ungated is the mistake that the tests make once: the gate is missing, so jobs that run already get the timer, too.
var ungated = os.Getenv("STINT_TEST_UNGATED") != ""

func begin(ctx workflow.Context, version int) {
	if ungated || hasLogic(version, logicTimer) {
		_ = workflow.Sleep(ctx, time.Millisecond)
	}
}
