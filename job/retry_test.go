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
		"":                                        "no condition given",
		"attempts=3":                              "no condition given: use conditions on kind, type, message or stage, attempts=N",
		"kind=crash":                              "no attempts given",
		"kind=crash attempts=0":                   "attempts=0: use 1 to 1000",
		"kind=crash attempts=1001":                "attempts=1001: use 1 to 1000",
		"kind=crash attempts>3":                   "attempts>3: a rule says one number",
		"kind=crash attempts=3,4":                 "attempts=3,4: a rule says one number",
		"kind=crash attempts=3 backoff=2m":        "backoff=2m: use 1ms to 1m0s",
		"kind=crash attempts=3 backoff=soon":      "backoff=soon: use 1ms",
		"source=a attempts=3":                     "source is not known while an item is tried",
		"name=a attempts=3":                       `"name": unknown key`,
		"RateLimit attempts=3":                    `"RateLimit" is no condition`,
		"type==RateLimit attempts=3":              `type: "=RateLimit": put a value that begins with "=" in quotes, or leave one "=" out`,
		"type=x attempts=3 attempts=10":           "attempts is given twice: use it once",
		"type=x attempts=3 attempts=3":            "attempts is given twice: use it once",
		"backoff=1s type=x backoff=2s attempts=3": "backoff is given twice: use it once",
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

// W3: a rule for a stage that the job does not have would never be used.
func TestSpec_RetryOfStages(t *testing.T) {
	t.Parallel()
	stages := []Stage{{Name: "fetch", Pool: "f"}, {Name: "both", Ensemble: []Stage{{Pool: "score"}, {Pool: "rank"}}}}
	for _, c := range []struct {
		stages []Stage
		rule   Retry
		want   string
	}{
		{stages, "stage=fetch attempts=5", ""},
		{stages, "stage=both.*,fetch attempts=5", ""},
		{stages, "stage!=both.rank attempts=5", ""},
		{stages, "stage=* attempts=5", ""},
		{nil, "stage=* attempts=5", ""},
		{stages, "stage=scoer attempts=5", `Retry "stage=scoer attempts=5": stage=scoer: no pool runs a stage of that name: use fetch, both.score, both.rank`},
		{stages, "stage=both attempts=5", "stage=both: no pool runs a stage of that name"},
		{stages, "stage=fetch,scoer attempts=5", "stage=scoer: no pool"},
		{stages, "type=x stage!=scoer attempts=5", "stage!=scoer: no pool"},
		{nil, "stage=score attempts=5", "stage=score: the job has no stages: leave it out"},
	} {
		s := valid()
		s.Stages, s.Retry = c.stages, []Retry{"kind=crash attempts=2", c.rule}
		if c.stages != nil {
			s.Pool = ""
		}
		err := s.WithDefaults().Validate()
		if c.want == "" {
			require.NoError(t, err, c.rule)
		} else {
			require.ErrorContains(t, err, c.want)
		}
	}
}
