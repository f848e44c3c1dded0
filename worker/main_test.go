package worker

import (
	"os"
	"testing"

	"github.com/stint-run/stint/internal/test/jobtest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if kind := os.Getenv(asProgram); kind != "" {
		runProgram(kind)
	}
	if role := os.Getenv(asRole); role != "" {
		roles[role]()
		return
	}
	ChildMain()
	if os.Getenv(asHandler) != "" {
		processTests()
	}
	ChildMain(exiting)
	jobtest.Overlap()
	goleak.VerifyTestMain(m)
}
