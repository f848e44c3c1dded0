package main

import (
	"log/slog"
	"os"
	"testing"

	"github.com/stint-run/stint/internal/devserver"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// environment is what the program finds around it: an envconfig.EnvLookup.
type environment map[string]string

func (e environment) LookupEnv(name string) (string, bool) {
	value, ok := e[name]
	return value, ok
}

func (e environment) Environ() []string {
	var all []string
	for name, value := range e {
		all = append(all, name+"="+value)
	}
	return all
}

// setup starts a Temporal server, which ends with the test, and returns an environment that leads
// to it and to no other.
func setup(t *testing.T) environment {
	t.Helper()
	server, err := devserver.Start(t.Context(), devserver.Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	return environment{"TEMPORAL_ADDRESS": server.Address(), "TEMPORAL_CONFIG_FILE": os.DevNull}
}
