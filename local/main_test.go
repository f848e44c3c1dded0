package local_test

import (
	"testing"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/worker"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	worker.ChildMain()
	jobtest.Overlap()
	goleak.VerifyTestMain(m)
}
