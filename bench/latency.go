package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"go.temporal.io/api/enums/v1"
)

// series is something that is done over and over, in lanes beside each other: what waits for timers
// leaves the machine idle.
type series struct {
	lanes, each int // clusters, and how often in each
	spec        job.Spec
	calls       int           // after so many have begun it is done
	call        time.Duration // which one takes; 0: until it is asked to end
	spread      time.Duration // it is done later by up to that, by another share of it each time
	noPush      bool
	limit       time.Duration // of the longest
}

// run has once done so many times in every lane, and returns what comes of it, in no order. once gets
// another share of 1 each time.
func run[T any](ctx context.Context, s series, state string, once func(ctx context.Context, c *cluster, share float64) (T, error)) ([]T, error) {
	var mu sync.Mutex
	var all []T
	var first error
	var lanes sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for lane := range s.lanes {
		lanes.Go(func() {
			found, err := runLane(ctx, s, filepath.Join(state, strconv.Itoa(lane)), lane, once)
			mu.Lock()
			defer mu.Unlock()
			if err != nil && first == nil {
				first = err
				cancel()
			}
			all = append(all, found...)
		})
	}
	lanes.Wait()
	return all, first
}

func runLane[T any](ctx context.Context, s series, dir string, lane int, once func(context.Context, *cluster, float64) (T, error)) ([]T, error) {
	c, err := startCluster(ctx, dir, !s.noPush, s.call)
	if err != nil {
		return nil, err
	}
	defer c.close()
	var all []T
	for i := range s.each {
		one, err := once(ctx, c, float64(i*s.lanes+lane)/float64(s.lanes*s.each))
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// begin starts a job and waits until the calls of the series have begun, and then for its share of the
// spread. It returns where each runs.
func (c *cluster) begin(ctx context.Context, input string, s series, share float64) (*jobs.Run, map[int]*process, error) {
	c.jobs++
	spec := s.spec
	spec.Files = &job.Files{Input: []string{input}}
	spec.Name, spec.Pool = fmt.Sprintf("latency-%d", c.jobs), "bench"
	spec.Output = filepath.Join(c.dir, spec.Name+".jsonl")
	spec.BatchItems = 1
	r, err := jobs.NewClient(c.client, nil).Start(ctx, spec, nil)
	if err != nil {
		return nil, nil, err
	}
	places := map[int]*process{}
	for len(places) < s.calls {
		e, err := c.next(ctx)
		if err != nil {
			return nil, nil, err
		}
		if e.what == eventBegan {
			places[e.item] = e.from
		}
	}
	time.Sleep(time.Duration(share * float64(s.spread)))
	return r, places, nil
}

// ended waits for the end of a job that has been stopped, and returns when its last call was told.
func (c *cluster) ended(ctx context.Context, r *jobs.Run) (told time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	over := make(chan error, 1)
	go func() {
		_, err := r.Wait(ctx)
		over <- err
	}()
	hear := func(e event) {
		if e.what == eventStopping && e.at.After(told) {
			told = e.at
		}
	}
	for {
		select {
		case e := <-c.events:
			hear(e)
		case err := <-over:
			for len(c.events) > 0 {
				hear(<-c.events)
			}
			return told, err
		}
	}
}

// coordinator returns the worker that has done the job's last workflow task: the next one goes to it.
func (c *cluster) coordinator(ctx context.Context, name string) (*process, error) {
	last := ""
	events := c.client.GetWorkflowHistory(ctx, name, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			return nil, err
		}
		if done := e.GetWorkflowTaskCompletedEventAttributes(); done != nil {
			last = done.GetIdentity()
		}
	}
	for _, p := range c.workers {
		if strings.Contains(last, fmt.Sprintf("-%d ", p.cmd.Process.Pid)) { // HOST-PID, and then its pool
			return p, nil
		}
	}
	return nil, fmt.Errorf("no worker of this cluster has coordinated %s, but %q", name, last)
}

// quantile returns the least of the times that a share of them, 0 to 1, does not exceed; 0 if there are none.
// It sorts them.
func quantile(of []time.Duration, share float64) time.Duration {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	rank := int(share * float64(len(of)))
	if float64(rank) < share*float64(len(of)) {
		rank++
	}
	return of[max(0, rank-1)]
}
