package workflows

import (
	"fmt"
	"os"
	"testing"

	"github.com/stint-run/stint/internal/test/jobtest"
	"go.uber.org/goleak"
)

// StopServer is set by tests that run a Temporal server. Its goroutines outlive it.
var StopServer func()

func TestMain(m *testing.M) {
	jobtest.Overlap()
	code := m.Run()
	switch {
	case StopServer != nil:
		StopServer()
	case code == 0:
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
