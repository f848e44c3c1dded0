package job

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stretchr/testify/require"
)

// V3: versions of handlers are counted by stage, and mixing is said.
func TestOutcomes_Versions(t *testing.T) {
	t.Parallel()
	var o Outcomes
	require.Empty(t, o.DescribeVersions())
	add := func(shares ...WorkerShare) { o.Add(Outcomes{Versions: shares}) }
	add(WorkerShare{Version: "v1", Batches: 1, Items: 1200})
	require.Equal(t, "v1: 1,200 items", o.DescribeVersions())
	require.Zero(t, o.Mixed())
	add(WorkerShare{Version: "v2", Batches: 1, Items: 300})
	add(WorkerShare{Version: "v2", Batches: 2, Items: 1})
	require.Equal(t, "v1: 1,200 items, v2: 301 items (mixed)", o.DescribeVersions())
	require.EqualValues(t, 301, o.Mixed())
	require.EqualValues(t, 3, o.Versions[1].Batches)

	o = Outcomes{}
	add(WorkerShare{Stage: "b", Version: "v1", Items: 5}, WorkerShare{Stage: "a", Version: "v2", Items: 7})
	require.Equal(t, "a v2: 7 items, b v1: 5 items", o.DescribeVersions())
	require.Zero(t, o.Mixed(), "each stage has one")

	o = Outcomes{}
	for i := range 3 * limits.MaxVersions {
		add(WorkerShare{Version: fmt.Sprintf("v%02d", i), Items: int64(i)})
	}
	require.Len(t, o.Versions, limits.MaxVersions)
	require.EqualValues(t, 3*limits.MaxVersions-1, o.Versions[0].Items, "the most items first")
}

// V3: what a job can be pinned to.
func TestSpec_Pin(t *testing.T) {
	t.Parallel()
	for pin, good := range map[string]bool{
		"": true, limits.PinFirst: true, "v2": true, "2026-01-01T00:00:00Z": true, "9f86d081884c": true,
		"v 2": false, "#": false, "a@b": false, strings.Repeat("v", limits.MaxVersion+1): false,
	} {
		err := Spec{Pin: pin}.checkPin()
		require.Equal(t, good, err == nil, "%q: %v", pin, err)
	}
	pipeline := []Stage{{Name: "a"}}
	require.ErrorContains(t, Spec{Pin: limits.PinFirst, Stages: pipeline}.checkPin(), "name the version")
	require.NoError(t, Spec{Pin: "v2", Stages: pipeline}.checkPin())
}
