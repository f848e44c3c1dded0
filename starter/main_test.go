package starter_test

import (
	"os"
	"testing"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/worker"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	worker.ChildMain()
	if name := os.Getenv(asWorker); name != "" {
		os.Exit(serveAs(name))
	}
	jobtest.Overlap()
	goleak.VerifyTestMain(tests{m})
}

// tests ends the processes that tests have started before goleak looks for leaks: their guard has a goroutine.
type tests struct{ *testing.M }

func (t tests) Run() int {
	defer endProcesses()
	return t.M.Run()
}
