package starter

import (
	"bytes"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// R15: what does not answer at the start is named after some seconds, although it is not known yet that it does not.
func TestR15_WhatIsLookedAt(t *testing.T) {
	t.Parallel()
	for want, spec := range map[string]job.Spec{
		"nothing is planned yet: still looking at s3://b/in, s3://b/out": {Files: &job.Files{Input: []string{"/x", "s3://b/in"}}, Output: "s3://b/out", Errors: "/errors"},
		"nothing is planned yet: still looking at /a, /b, /c, …":         {Files: &job.Files{Input: []string{"/a", "/b", "/c", "/d"}}, Output: "/out"},
		"nothing has come on the standard input yet":                     {Files: &job.Files{Input: []string{"-"}}, Output: "s3://b/out"},
	} {
		require.Equal(t, want, lookedAt(spec))
	}
	began := time.Now()
	var out bytes.Buffer
	show := newProgress(&out, true, false)
	show.lookedAt = "still looking"
	r := job.Report{Job: "j", State: job.Running, Started: began}
	show.waits(r, began.Add(2*time.Second))
	r.Outage = &job.Outage{}
	show.waits(r, began.Add(4*time.Second))
	r.Outage, r.Planned = nil, 1
	show.waits(r, began.Add(4*time.Second))
	require.Empty(t, out.String(), "early, or known otherwise")
	r.Planned = 0
	show.waits(r, began.Add(4*time.Second))
	show.waits(r, began.Add(5*time.Second))
	require.Equal(t, "still looking\n", out.String(), "once")
}

// R17: a job in which calls only ask to slow down says after a minute that nothing succeeds, from its start on or
// later.
func TestR17_NothingButRefusals(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	r := job.Report{State: job.Running, Started: began.Add(-time.Hour), SlowedSince: began, Outcomes: job.Outcomes{Totals: job.Totals{SlowDowns: 9}}}
	r.SlowedSince = time.Time{}
	require.False(t, new(refusals).see(r, began.Add(time.Hour)), "the request is not known to the job yet")
	r.SlowedSince = began
	var f refusals
	require.False(t, f.see(r, began.Add(time.Minute)))
	require.True(t, f.see(r, began.Add(61*time.Second)))
	r.OK = 3
	require.False(t, f.see(r, began.Add(62*time.Second)), "something has succeeded")
	r.SlowDowns++
	require.False(t, f.see(r, began.Add(200*time.Second)), "one request says nothing")
	r.SlowDowns++
	require.True(t, f.see(r, began.Add(201*time.Second)))
	r.Failed++
	require.False(t, f.see(r, began.Add(202*time.Second)), "an item that fails is an outcome")

	r = job.Report{State: job.Running, Started: began, SlowedSince: began, Outcomes: job.Outcomes{Totals: job.Totals{SlowDowns: 9, OK: 5}}, Resumed: 5}
	require.True(t, new(refusals).see(r, began.Add(61*time.Second)), "what earlier runs have done does not count")
	r.Outage = &job.Outage{}
	require.False(t, new(refusals).see(r, began.Add(61*time.Second)), "the outage is the reason")
	r.Outage, r.State = nil, job.Stopped
	require.False(t, new(refusals).see(r, began.Add(61*time.Second)))
}

// R17: it is said once by run and watch, and stands in the status.
func TestR17_RefusalsAreSaid(t *testing.T) {
	t.Parallel()
	r := job.Report{Job: "j", State: job.Running, SlowedSince: time.Now().Add(-time.Hour), Outcomes: job.Outcomes{Totals: job.Totals{SlowDowns: 9}}}
	var out bytes.Buffer
	show := newProgress(&out, false, false)
	show.show(r)
	show.show(r)
	require.Equal(t, onlyRefusals+"\n", out.String())
	out.Reset()
	w := tabwriter.NewWriter(&out, 0, 8, 2, ' ', 0)
	printHow(tableRows(w), r)
	require.NoError(t, w.Flush())
	require.Contains(t, out.String(), "warning  "+onlyRefusals)
}
