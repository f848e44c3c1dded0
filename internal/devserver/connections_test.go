package devserver

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// waiting is a server that ends once its services' connections are cut.
type waiting struct{ cut chan struct{} }

func (w *waiting) Start() error { return nil }

func (w *waiting) Stop() error {
	<-w.cut
	return nil
}

// A call between the services that nobody answers does not hold up the end of the server.
func TestStop_CutsCallsOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &waiting{cut: make(chan struct{})}
		s := &Server{temporal: w, logger: newLogger(nil)}
		s.kept.add(w, func() { close(w.cut) })
		began := time.Now()
		s.Stop()
		require.Equal(t, callsTimeout, time.Since(began)) // the clock of a synctest bubble
	})
}

// Connections that services open while they end are closed too.
func TestConnections_AfterClose(t *testing.T) {
	t.Parallel()
	var c connections
	closed := 0
	c.add(1, func() { closed++ })
	c.add(1, func() { closed++ })
	c.close()
	c.add(2, func() { closed++ })
	c.close()
	require.Equal(t, 2, closed)
}
