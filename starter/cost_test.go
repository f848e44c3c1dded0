package starter_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// till is a model that charges: the tokens of each answer follow from the request's length.
type till struct {
	*api
	mu    sync.Mutex
	all   job.Usage            // that it has answered
	items map[string]job.Usage // by key, of the first answer
}

const (
	priceIn, priceOut = 150_000_000_000, 600_000_000_000 // 0.15 and 0.6 for a million tokens
	mostOut           = 23
)

// till starts one. trouble is asked before each answer, and says whether it has given another one.
func (b *box) till(trouble func(w http.ResponseWriter, r asked, before int) bool) *till {
	s := &till{items: map[string]job.Usage{}}
	s.api = b.api(func(w http.ResponseWriter, r asked, before int) {
		if trouble != nil && trouble(w, r, before) {
			return
		}
		s.says(w, r, "fine")
	})
	return s
}

// says answers, and charges for it.
func (s *till) says(w http.ResponseWriter, r asked, text string) {
	in, out := int64(len(r.body)), int64(len(r.body)%mostOut+1)
	used := job.Usage{TokensIn: in, TokensOut: out, TokensCached: in / 4, Cost: job.Money(in*priceIn+out*priceOut) / 1_000_000}
	s.mu.Lock()
	s.all.Add(used)
	key := furtherTry.ReplaceAllString(r.key, "")
	if _, known := s.items[key]; !known {
		s.items[key] = used
	}
	s.mu.Unlock()
	says(w, 200, fmt.Sprintf(`{"choices": [{"message": {"role": "assistant", "content": %s}, "finish_reason": "stop"}],
		"usage": {"prompt_tokens": %d, "completion_tokens": %d, "prompt_tokens_details": {"cached_tokens": %d}}}`, jsonText(text), in, out, in/4))
}

// charged is what it has answered.
func (s *till) charged() job.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

// ofItems is what it would have charged if it remembered the keys of requests.
func (s *till) ofItems() (sum job.Usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, used := range s.items {
		sum.Add(used)
	}
	return sum
}

// asks are the flags of a job that asks it.
func (s *till) asks(more ...string) []string {
	return append([]string{"--llm", s.url + "/v1", "--model", "m", "--price-in", "0.15", "--price-out", "0.6"}, more...)
}

// H3: Every token that was answered is counted, that of answers which do not fit too, and nothing of refused requests.
func TestCost_IsExact(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var s *till
	s = b.till(func(w http.ResponseWriter, r asked, _ int) bool {
		switch before := s.tries(r.body) - 1; {
		case strings.Contains(r.body, "item 1") && before == 0:
			says(w, 503, `{"error": {"message": "not now"}}`)
		case strings.Contains(r.body, "item 27") && before < 2: // few, or the job slows down
			w.Header().Set("Retry-After-Ms", "1")
			says(w, 429, `{}`)
		case strings.Contains(r.body, "item 3") && before < 3:
			s.says(w, r, "not JSON") // it costs all the same
		default:
			s.says(w, r, `{"good": true}`)
		}
		return true
	})
	b.write("in.jsonl", objects(400))
	b.write("p.txt", "item {n}\n")
	b.write("answer.json", `{"type": "object", "required": ["good"]}`)
	c := b.stint(append([]string{"run", "in.jsonl", "-o", "out.jsonl", "--prompt", "p.txt", "--schema", "answer.json", "--backoff", "1ms", "--concurrency", "8", "--report", "report.json"}, s.asks()...)...).exits(starter.ExitOK)
	r := b.report("report.json")
	require.Equal(t, s.charged(), r.Usage)
	require.Zero(t, r.LostUsage)
	require.Greater(t, r.Usage.TokensIn, s.ofItems().TokensIn, "some were asked again")
	require.Contains(t, c.stderr.String(), r.Usage.String())
	require.Equal(t, strings.Repeat(`{"good":true}`+"\n", 400), b.read("out.jsonl"))
}

// H3: A budget is exceeded by calls in hand at most; the job stops in order, and goes on with a larger one. No item is asked
// about twice.
func TestCost_Budget(t *testing.T) {
	t.Parallel()
	for name, budget := range map[string]func(sixths int64) []string{
		"cost":   func(n int64) []string { return []string{"--max-cost", job.Money(n * 5_000_000_000).String()} },
		"tokens": func(n int64) []string { return []string{"--max-tokens", fmt.Sprint(n * 30_000)} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			s := b.till(nil)
			b.write("in.jsonl", objects(2000))
			run := append([]string{"run", "in.jsonl", "-o", "out.jsonl", "--slots", "2", "--concurrency", "10", "--report", "report.json"}, s.asks()...)
			const callsInHand, mostIn = 20, 400
			for n := int64(1); ; n++ {
				require.Less(t, n, int64(100))
				c := b.stint(append(run, budget(n)...)...)
				r := b.report("report.json")
				require.Equal(t, s.charged(), r.Usage)
				if name == "tokens" {
					require.LessOrEqual(t, r.Usage.Tokens(), n*30_000+callsInHand*(mostIn+mostOut))
				} else {
					require.LessOrEqual(t, r.Usage.Cost, job.Money(n*5_000_000_000+callsInHand*(mostIn*priceIn+mostOut*priceOut)/1_000_000))
				}
				require.Len(t, s.requests(), int(r.OK), "requests for %d items", r.OK)
				if r.State == job.Completed {
					require.GreaterOrEqual(t, n, int64(3))
					break
				}
				require.Equal(t, starter.ExitStopped, c.code)
				require.Contains(t, r.Reason, "is spent: resume the job with more")
				require.Contains(t, c.stderr.String(), r.Reason)
			}
			require.Equal(t, 2000, strings.Count(b.read("out.jsonl"), "\n"))
		})
	}
}

// H3: With 'resume' the budget is a setting.
func TestCost_ResumeWithMore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.till(nil)
	b.server()
	b.write("in.jsonl", objects(300))
	b.worker("ask", s.asks("--allow-origin", s.url)...)
	b.stint("start", "--pool", "ask", "--name", "j", "--max-tokens", "1000", "in.jsonl", "-o", "out.jsonl", "--wait").exits(starter.ExitStopped)
	b.stint("resume", "j", "max-tokens=1000", "--wait").exits(starter.ExitStopped)
	before := s.charged().Tokens()
	c := b.stint("resume", "j", "max-tokens=none", "--wait").exits(starter.ExitOK)
	require.Contains(t, c.stderr.String(), "300 items ok")
	require.Less(t, before, int64(3000))
	var status job.Report
	require.NoError(t, json.Unmarshal([]byte(b.stint("status", "j", "--json").exits(starter.ExitOK).stdout.String()), &status))
	require.Equal(t, s.charged(), status.Usage)
	require.Contains(t, b.stint("status", "j").exits(starter.ExitOK).stdout.String(), status.Usage.String())
}

// H3: What a killed worker had used is not counted as the job's: the requests are made again, with the same keys, and counted
// then. As far as its heartbeats have told it is counted apart.
func TestCost_OverKills(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	held := make(chan struct{})
	var once sync.Once
	killed := make(chan struct{})
	s := b.till(func(_ http.ResponseWriter, r asked, _ int) bool {
		if strings.Contains(r.body, `\"n\":150}`) || strings.Contains(r.body, `\"n\":151}`) {
			once.Do(func() { close(held) })
			<-killed
		}
		return false
	})
	b.write("in.jsonl", objects(400))
	worker := append([]string{"worker", "--pool", "ask", "--allow", b.dir, "--concurrency", "4", "--slots", "1"}, s.asks("--allow-origin", s.url)...)
	first := b.spawn(worker...)
	started := b.start("start", "--pool", "ask", "--name", "j", "--expiry", "2s", "--batch-items", "100", "in.jsonl", "-o", "out.jsonl", "--report", "report.json", "--wait")
	<-held
	eventually(t, "a heartbeat that says what was used", func() bool {
		var status job.Report
		return json.Unmarshal([]byte(b.stint("status", "j", "--json").stdout.String()), &status) == nil && status.InHand > 0
	})
	first.signal(syscall.SIGKILL)
	close(killed)
	b.spawn(worker...)
	started.exits(starter.ExitOK)
	r := b.report("report.json")
	require.Equal(t, s.ofItems(), r.Usage)
	require.NotZero(t, r.LostUsage)
	require.LessOrEqual(t, r.Spent().TokensIn, s.charged().TokensIn)
	require.EqualValues(t, 400, r.OK)
}

// A budget, or a limit, that cannot hold is refused before anything starts.
func TestCost_Refused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.jsonl", objects(3))
	for says, flags := range map[string][]string{
		"tokens have no price: give --price-in and --price-out":      {"--llm", "http://127.0.0.1:1/v1", "--model", "m", "--max-cost", "5"},
		"--limit-by tenant: it says for which values":                {"--exec", "cat", "--limit-by", "tenant"},
		"give the name of a field of the items, such as tenant":      {"--exec", "cat", "--limit-by", "{tenant}", "--rpm", "5"},
		"write units of money as 25 or 0.15":                         {"--exec", "cat", "--max-cost", "$5"},
		"write a number a minute as 500":                             {"--exec", "cat", "--rpm", "fast"},
		"deadline \"noon\": use a time such as 2026-01-31T18:00:00Z": {"--exec", "cat", "--deadline", "noon"},
	} {
		c := b.stint(append([]string{"run", "in.jsonl", "-o", "out.jsonl"}, flags...)...).exits(starter.ExitUsage)
		require.Contains(t, c.stderr.String(), says)
	}
}

// A job stops at its deadline, and goes on with a later one.
func TestCost_Deadline(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.till(func(http.ResponseWriter, asked, int) bool {
		time.Sleep(50 * time.Millisecond) // so that all take longer than the deadline
		return false
	})
	b.write("in.jsonl", objects(50))
	run := append([]string{"run", "in.jsonl", "-o", "out.jsonl", "--batch-items", "5", "--report", "report.json"}, s.asks()...)
	b.stint(append(run, "--deadline", "1s", "--slots", "1")...).exits(starter.ExitStopped)
	require.Contains(t, b.report("report.json").Reason, "the deadline, ")
	b.stint(append(run, "--deadline", "2036-01-31T18:00:00Z")...).exits(starter.ExitOK)
	require.EqualValues(t, 50, b.report("report.json").OK)
}

// H2: Limits by a field are those of each value: all items together would take a day.
func TestLimits_ByField(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.till(nil)
	b.write("in.jsonl", objects(25))
	b.stint(append([]string{"run", "in.jsonl", "-o", "out.jsonl", "--rpm", "1/h", "--limit-by", "n"}, s.asks()...)...).exits(starter.ExitOK)
	require.Len(t, s.requests(), 25)
}

// H2: Of a handler that makes no requests the calls are limited.
func TestLimits_OfCalls(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", strings.Repeat("a\n", 40))
	began := time.Now()
	b.stint("run", "--exec", "cat", "--call-items", "1", "--rpm", "1200", "in.txt", "-o", "out.txt").exits(starter.ExitOK)
	require.GreaterOrEqual(t, time.Since(began), 1800*time.Millisecond)
	require.Equal(t, strings.Repeat("a\n", 40), b.read("out.txt"))
}

// H2: Requests of two workers together keep to the limit, and so do those of each value of a field; they come in no burst.
func TestLimits_OverWorkers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags         []string
		items, perSec int
	}{
		"all":   {[]string{"--rpm", "1200"}, 60, 20},
		"field": {[]string{"--rpm", "600", "--limit-by", "k"}, 60, 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.server()
			s := b.till(nil)
			var in strings.Builder
			for i := range c.items {
				fmt.Fprintf(&in, "{\"n\":%d,\"k\":%d}\n", i, i%2)
			}
			b.write("in.jsonl", in.String())
			for range 2 {
				b.worker("ask", s.asks("--allow-origin", s.url, "--concurrency", "10")...)
			}
			began := time.Now()
			b.stint(append([]string{"start", "--pool", "ask", "--name", "j", "--batch-items", "7", "in.jsonl", "-o", "out.jsonl", "--wait"}, c.flags...)...).exits(starter.ExitOK)
			require.GreaterOrEqual(t, time.Since(began), time.Duration(c.items-c.perSec/5)*time.Second/time.Duration(c.perSec)*98/100)
			require.Len(t, s.requests(), c.items)
		})
	}
}

// A sample predicts what the whole job uses, and what a budget is enough for.
func TestCost_Predicted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.till(nil)
	b.write("in.jsonl", strings.Repeat(`{"n":12345}`+"\n", 1000))
	c := b.stint(append([]string{"plan", "in.jsonl", "--sample", "50", "--max-tokens", "10000", "--json"}, s.asks()...)...).exits(starter.ExitOK)
	var p struct {
		Usage      job.Usage `json:"usage"`
		Affordable int64     `json:"affordable"`
	}
	require.NoError(t, json.Unmarshal([]byte(c.stdout.String()), &p), c.stdout.String())
	sample := s.charged()
	require.Equal(t, 20*sample.TokensIn, p.Usage.TokensIn)
	require.Equal(t, 20*sample.Cost, p.Usage.Cost)
	require.InDelta(t, float64(1000*10_000/p.Usage.Tokens()), float64(p.Affordable), 2)
	c = b.stint(append([]string{"plan", "in.jsonl", "--sample", "50", "--max-tokens", "10000", "--rpm", "3000", "--deadline", "10s"}, s.asks()...)...).exits(starter.ExitOK)
	require.Contains(t, c.stdout.String(), "the budget is enough for about ")
	require.Contains(t, c.stdout.String(), "the deadline seems to come before that")
	require.Contains(t, c.stdout.String(), "cost 0.")
}
