package worker_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/timers"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
)

// kept are the snapshots of a sink.
type kept struct {
	mu  sync.Mutex
	all []worker.Snapshot
}

func (k *kept) Record(_ context.Context, s worker.Snapshot) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = append(k.all, s)
	return nil
}

// last is the last one.
func (k *kept) last(t *testing.T) worker.Snapshot {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	require.NotEmpty(t, k.all)
	return k.all[len(k.all)-1]
}

// probe returns the status of an endpoint's answer.
func probe(t *testing.T, address, path string) int {
	t.Helper()
	response, err := http.Get("http://" + address + path)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}

func health(t *testing.T, address string) (int, worker.Health) {
	t.Helper()
	response, err := http.Get("http://" + address + "/health")
	require.NoError(t, err)
	defer response.Body.Close()
	var h worker.Health
	require.NoError(t, json.NewDecoder(response.Body).Decode(&h))
	return response.StatusCode, h
}

// requireGone fails if a worker of this name answers at the address. Something else may have got its port meanwhile.
func requireGone(t *testing.T, address, name string) {
	t.Helper()
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + address + "/health")
	if err != nil {
		return
	}
	defer response.Body.Close()
	said, _ := io.ReadAll(response.Body)
	require.NotContains(t, string(said), name)
}

// T14, B10, M5: the endpoint answers for as long as the worker lives, and shows whether it takes batches;
// the sink's last snapshot agrees with the job's report.
func TestT14_HealthOverALife(t *testing.T) {
	t.Parallel()
	c := setup(t)
	begun, gate := make(chan struct{}, 10), make(chan struct{})
	h := worker.Each(func(ctx context.Context, i int) (int, error) {
		release, err := timers.Expires(ctx, time.Hour, timers.Named("gate"))
		if err != nil {
			return 0, err
		}
		defer release()
		begun <- struct{}{}
		<-gate
		return i, nil
	})
	sink := &kept{}
	w, err := worker.New(jobs.NewClient(c.client, nil), "pool", h, worker.Options{
		Name: "over-a-life", Logger: silent, Slots: 2, Metrics: "127.0.0.1:0", Sinks: []worker.Sink{sink},
	})
	require.NoError(t, err)
	address := w.MetricsAddress()
	ctx, drain := context.WithCancel(t.Context())
	defer drain()
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	require.Eventually(t, func() bool { status, _ := health(t, address); return status == http.StatusOK }, patience, pollEvery)
	run, _ := c.start("in.jsonl", "1\n2\n3\n", func(s *job.Spec) { s.BatchItems = 10 })
	<-begun
	status, now := health(t, address)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, http.StatusOK, probe(t, address, "/readyz"))
	require.Equal(t, http.StatusOK, probe(t, address, "/livez"))
	require.True(t, slices.ContainsFunc(now.Slots, func(s worker.SlotHealth) bool {
		return s.State == "busy" && s.Batches[0].Job == "job"
	}), "%+v", now)
	require.Len(t, now.Timers, 1)
	require.Equal(t, "gate", now.Timers[0].Scope)
	require.Equal(t, "job/items 0–2", now.Timers[0].Worker)

	drain()
	require.Eventually(t, func() bool { return w.Health().State == "draining" }, patience, pollEvery)
	status, now = health(t, address)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, []string{"it is draining"}, now.Why)
	require.Equal(t, http.StatusServiceUnavailable, probe(t, address, "/readyz"))
	require.Equal(t, http.StatusOK, probe(t, address, "/livez"), "whoever ends it now takes the rest of its drain")
	close(gate)
	require.NoError(t, <-ended)
	requireGone(t, address, "over-a-life")

	first := sink.last(t)
	require.True(t, first.Last)
	second := &kept{}
	c.serve(h, worker.Options{Sinks: []worker.Sink{second}, SinkInterval: time.Millisecond})
	report := c.wait(run)
	require.Equal(t, job.Completed, report.State)
	require.Eventually(t, func() bool { return second.last(t).Total.OK == report.OK-first.Total.OK }, patience, pollEvery)
}

// B10: the sinks get the last snapshot after an error, too.
func TestB10_FlushedAfterAnError(t *testing.T) {
	t.Parallel()
	c := setup(t)
	sink := &kept{}
	w, err := worker.New(jobs.NewClient(c.client, nil), "pool", worker.Serve("false"), worker.Options{Logger: silent, Sinks: []worker.Sink{sink}})
	require.NoError(t, err)
	require.ErrorContains(t, w.Run(t.Context()), "starting false")
	require.Len(t, sink.all, 1)
	require.True(t, sink.last(t).Last)
}

// M1: an address that is taken keeps a worker from starting, and nothing of it is left.
func TestM1_AddressIsTaken(t *testing.T) {
	t.Parallel()
	c := setup(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	_, err = worker.New(jobs.NewClient(c.client, nil), "pool", worker.Exec("cat"), worker.Options{Logger: silent, Metrics: taken.Addr().String()})
	require.ErrorContains(t, err, taken.Addr().String())
	require.ErrorContains(t, err, "in use")

	w, err := worker.New(jobs.NewClient(c.client, nil), "pool", worker.Exec("cat"), worker.Options{Logger: silent})
	require.NoError(t, err)
	require.Empty(t, w.MetricsAddress())
	w.Close()

	for tries := 1; ; tries++ { // another test may take the port in between
		w, err = worker.New(jobs.NewClient(c.client, nil), "pool", worker.Exec("cat"), worker.Options{Logger: silent, Metrics: ":0"})
		require.NoError(t, err)
		address := w.MetricsAddress()
		w.Close()
		again, err := net.Listen("tcp", address)
		if err == nil {
			require.NoError(t, again.Close())
			break
		}
		require.Less(t, tries, 10, "a worker that has never run gives its address back: %v", err)
	}
}
