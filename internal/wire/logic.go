package wire

import (
	"fmt"
	"strconv"
	"strings"
)

// A version of the logic says what workflows do, and what activities, legs and clients are given: it is the number of
// the release that has changed one of these last. A job keeps to the version that it was started with, and everything
// that it starts goes to task queues of that version. So no worker is given what it does not know: it does not poll
// those queues. See docs/upgrading.md.

// Logics returns the versions that this program knows, the oldest first.
func Logics() []int { return logics[:] }

// Knows reports whether this program knows a version; 0 is the first one.
func Knows(logic int) bool {
	for _, known := range logics {
		if known == max(1, logic) {
			return true
		}
	}
	return false
}

// Release returns the release in which a version of the logic has come: 1 is 0.1, 102 is 1.2.
func Release(logic int) string { return fmt.Sprintf("%d.%d", max(1, logic)/100, max(1, logic)%100) }

// NeedsRelease says which workers run what follows a version of the logic: "needs stint ≥ 0.2".
func NeedsRelease(logic int) string {
	if logic = max(1, logic); logic < logics[0] {
		return fmt.Sprintf("needs an older stint: %s, or one of the next two minor versions", Release(logic))
	}
	return "needs stint ≥ " + Release(logic)
}

// logicMark separates the name of a task queue from the release of its logic. No name of a pool has one.
const logicMark = "@"

// AtLogic returns the task queue of a version of the logic: that of the first has no mark.
func AtLogic(queue string, logic int) string {
	if logic <= 1 {
		return queue
	}
	return queue + logicMark + Release(logic)
}

// LogicOf returns the version of the logic of a task queue.
func LogicOf(queue string) int {
	_, release, _ := strings.Cut(queue, logicMark)
	major, minor, ok := strings.Cut(release, ".")
	high, err := strconv.Atoi(major)
	low, err2 := strconv.Atoi(minor)
	if !ok || err != nil || err2 != nil {
		return 1
	}
	return 100*high + low
}

// FollowedLogic returns the version of the logic that the workflow of an input follows.
func (in *StartInput) FollowedLogic() int { return in.Version }

// FollowedLogic is described with [StartInput.FollowedLogic].
func (in *LegInput) FollowedLogic() int { return in.Version }

// FollowedLogic is described with [StartInput.FollowedLogic].
func (in *FeedLegInput) FollowedLogic() int { return in.Version }

// FollowedLogic is described with [StartInput.FollowedLogic].
func (in *LoopLegInput) FollowedLogic() int { return in.Version }
