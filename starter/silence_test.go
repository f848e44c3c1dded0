package starter

import (
	"bytes"
	"testing"
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
