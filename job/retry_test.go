package job

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// W3: a rule says for which failures how often, and after which wait, an item is tried.
func TestRetry(t *testing.T) {
	t.Parallel()
	matches, attempts, backoff, err := Retry("type=Rate* attempts=10 stage=score backoff=5s").Rule()
	require.NoError(t, err)
	require.Equal(t, 10, attempts)
	require.Equal(t, 5*time.Second, backoff)
	require.True(t, matches(&Failure{Stage: "score", Kind: KindError, Error: Error{Type: "RateLimit"}, Attempts: 3}))
	require.False(t, matches(&Failure{Stage: "other", Error: Error{Type: "RateLimit"}}))
	require.False(t, matches(&Failure{Stage: "score", Error: Error{Type: "Other"}}))
	_, _, backoff, err = Retry("kind=crash attempts=1").Rule()
	require.NoError(t, err)
	require.Zero(t, backoff, "that of the job")

	for r, want := range map[Retry]string{
		"":                                   "no condition given",
		"attempts=3":                         "no condition given: use conditions on kind, type, message or stage, attempts=N",
		"kind=crash":                         "no attempts given",
		"kind=crash attempts=0":              "attempts=0: use 1 to 1000",
		"kind=crash attempts=1001":           "attempts=1001: use 1 to 1000",
		"kind=crash attempts>3":              "attempts>3: a rule says one number",
		"kind=crash attempts=3,4":            "attempts=3,4: a rule says one number",
		"kind=crash attempts=3 backoff=2m":   "backoff=2m: use 1ms to 1m0s",
		"kind=crash attempts=3 backoff=soon": "backoff=soon: use 1ms",
		"source=a attempts=3":                "source is not known while an item is tried",
		"name=a attempts=3":                  `"name": unknown key`,
		"RateLimit attempts=3":               `"RateLimit" is no condition`,
	} {
		require.ErrorContains(t, r.Validate(), want, r)
	}
}

func TestSpec_Retry(t *testing.T) {
	t.Parallel()
	s := valid()
	s.Retry, s.NoRetry = []Retry{"type=RateLimit attempts=10 backoff=5s", "kind=crash attempts=2"}, []string{"ValueError", "Key*", `odd "name", it is`}
	require.NoError(t, s.Validate())
	matches, err := s.Final().Matcher()
	require.NoError(t, err)
	for _, typ := range []string{"ValueError", "KeyError", `odd "name", it is`} {
		require.True(t, matches(&Failure{Error: Error{Type: typ}}), typ)
	}
	require.False(t, matches(&Failure{Error: Error{Type: "Other"}}))
	require.Empty(t, valid().Final())

	s.Retry = []Retry{"type=x"}
	require.ErrorContains(t, s.Validate(), `Retry "type=x": no attempts given`)
	s.Retry, s.NoRetry = nil, []string{""}
	require.ErrorContains(t, s.Validate(), "NoRetry has an empty type")
	s.NoRetry = []string{strings.Repeat("x", 1000)}
	require.ErrorContains(t, s.Validate(), "Retry and NoRetry take 1007 bytes as JSON: at most 1000 are allowed")
	s.NoRetry, s.Store = []string{strings.Repeat("x", 300)}, "/"+strings.Repeat("s", 2000)
	require.ErrorContains(t, s.Validate(), "at most 195 are allowed, fewer if Store is very long")
}
