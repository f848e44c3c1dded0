package starter_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(asWorker); name != "" {
		os.Exit(serveAs(name))
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		endProcesses()
		os.Exit(code)
	}))
}
