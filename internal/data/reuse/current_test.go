package reuse

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// J2: A run takes the results of its own job, or of the one that it names, if version, key and stages are the same.
func TestOffer_Begin(t *testing.T) {
	t.Parallel()
	has := func(of string) store.Dir {
		dir, err := new(store.Access).Open(t.Context(), t.TempDir())
		require.NoError(t, err)
		if of != "" {
			index := wire.ReuseIndex{Format: wire.ReuseFormat, Job: of, Run: "r", HashKey: NewHashKey(), Version: "1"}
			require.NoError(t, name(t.Context(), dir, &index))
		}
		return dir
	}
	for _, c := range []struct {
		what, own, from, name string
		reuse                 job.Reuse
		takes, why            string
	}{
		{what: "the last run", own: "a", name: "a", takes: "r of a"},
		{what: "the last tick", own: "a-2026-01-01T03:00:00Z", name: "a-2026-01-02T03:00:00Z", takes: "r of a-2026-01-01T03:00:00Z"},
		{what: "another job in the store", own: "b", name: "a", why: "they are of job b, and not of a: --reuse=b takes them"},
		{what: "an earlier store of the job", from: "a", name: "a", takes: "r of a"},
		{what: "the named job", own: "a", from: "b", name: "a", reuse: job.Reuse{Of: "b"}, takes: "r of b"},
		{what: "the first tick of a schedule after another job", from: "b", name: "a-2026-01-02T03:00:00Z", reuse: job.Reuse{Of: "b"}, takes: "r of b"},
		{what: "the next tick", own: "a-2026-01-02T03:00:00Z", from: "b", name: "a-2026-01-03T03:00:00Z", reuse: job.Reuse{Of: "b"}, takes: "r of a-2026-01-02T03:00:00Z"},
		{what: "another version", own: "a", name: "a", reuse: job.Reuse{Version: "2"}, why: "they are of version 1, and this run is of version 2"},
		{what: "another key", own: "a", name: "a", reuse: job.Reuse{Key: "id"}, why: "its items were known by their content"},
		{what: "nothing", name: "a", why: "no run has kept results before"},
	} {
		if c.reuse.Version == "" {
			c.reuse.Version = "1"
		}
		own, from := has(c.own), has(c.from)
		c.reuse.Store, c.reuse.From = own.Location(), from.Location()
		r, err := Offer{Own: own, From: from}.Begin(t.Context(), c.name, job.Spec{Reuse: &c.reuse})
		require.NoError(t, err, c.what)
		require.Equal(t, c.takes, r.Offer().From, c.what)
		require.Contains(t, r.Offer().Why, c.why, c.what)
	}
}

// What stages do with items counts, and how many at once does not.
func TestFormOf(t *testing.T) {
	t.Parallel()
	form := func(stages ...job.Stage) string {
		got, err := formOf(job.Spec{Stages: stages})
		require.NoError(t, err)
		return got
	}
	kinds := job.Stage{Name: "s", Switch: ".kind", Cases: []job.Case{{Value: "a", Stage: job.Stage{Name: "a", Pool: "p"}}}}
	types, wide := kinds, kinds
	types.Switch = ".type"
	wide.Cases = []job.Case{{Value: "a", Stage: job.Stage{Name: "a", Pool: "p", Window: 3, BatchItems: 5}}}
	require.NotEqual(t, form(kinds), form(types))
	require.Equal(t, form(kinds), form(wide))
	require.NotEqual(t, form(job.Stage{Name: "a", Pool: "p"}), form(job.Stage{Name: "a", Pool: "q"}))
}
