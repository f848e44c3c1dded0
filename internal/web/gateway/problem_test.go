package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stretchr/testify/require"
)

// Each error of a feed has its status and its type.
func TestStatuses(t *testing.T) {
	t.Parallel()
	cases := []struct {
		err    error
		status int
		kind   string
	}{
		{&jobs.FeedError{Code: jobs.CodeFull, Feed: "f", MaxItems: 8}, 429, "FullError"},
		{&jobs.FeedError{Code: jobs.CodeTooLarge, Items: 9, MaxItems: 8}, 413, "TooLargeError"},
		{&jobs.FeedError{Code: jobs.CodeInvalidItem, Err: io.EOF}, 400, "InvalidItemError"},
		{&jobs.FeedError{Code: jobs.CodeClosed, Feed: "f"}, 409, "ClosedError"},
		{&jobs.FeedError{Code: jobs.CodeStopped, Feed: "f"}, 409, "StoppedError"},
		{&jobs.FailedError{}, 409, "FailedError"},
		{&jobs.NotFoundError{Name: "f"}, 404, "NotFoundError"},
		{&jobs.FeedError{Code: jobs.CodeNotFeed, Feed: "f"}, 404, "NotFeedError"},
		{&jobs.FeedError{Code: jobs.CodeUnserved, Feed: "f"}, 503, "UnservedError"},
		{&jobs.FeedError{Code: jobs.CodeTimeout, Queued: new(time.Second), Waited: 2 * time.Second}, 504, "TimeoutError"},
		{context.DeadlineExceeded, 504, "TimeoutError"},
		{&jobs.FeedError{Code: jobs.CodeUncertain, Err: &jobs.FeedError{Code: jobs.CodeTimeout}}, 504, "UncertainError"},
		{&jobs.FeedError{Code: jobs.CodeUncertain, Err: &jobs.FeedError{Code: jobs.CodeClosed}}, 502, "UncertainError"},
		{&jobs.FeedError{Code: jobs.CodeItem, Item: new(int64(5)), Failure: &job.Failure{Kind: "crash", Error: job.Error{Type: "Signal", Message: "killed"}}}, 422, "ItemError"},
		{&jobs.FeedError{Code: jobs.CodeDropped, Item: new(int64(5))}, 422, "DroppedError"},
		{&jobs.FeedError{Code: jobs.CodeDiscarded, Item: new(int64(5))}, 410, "DiscardedError"},
		{&jobs.FeedError{Code: jobs.CodeStored}, 410, "StoredError"},
		{&jobs.FeedError{Code: jobs.CodeDecode, Item: new(int64(5)), Err: io.EOF}, 502, "DecodeError"},
		{&jobs.FeedError{Code: jobs.CodeReleased}, 503, "UnavailableError"},
		{&jobs.FeedError{Code: jobs.CodeSilent}, 504, "TimeoutError"},
		{errors.New("connection refused"), 502, "UnavailableError"},
	}
	for _, c := range cases {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			s := serve(t, &fake{
				call:  func(context.Context, Value) (Value, error) { return nil, c.err },
				put:   func([]Value) error { return c.err },
				state: func() (job.FeedState, error) { return job.FeedState{}, c.err },
			}, nil)
			replies := []reply{
				s.post("/v1/feeds/f/call", jsonType, `1`),
				s.post("/v1/feeds/f/put", jsonType, `1`),
				s.send(http.MethodGet, "/v1/feeds/f", "", nil),
			}
			if !ofItem(c.err) {
				replies = append(replies, s.post("/v1/feeds/f/call", lineType, "1\n2\n"))
			}
			for _, r := range replies {
				require.Equal(t, c.status, r.status, r.body)
				p := r.problem(t)
				require.Equal(t, c.kind, p.Type)
				require.NotEmpty(t, p.Message)
				require.Equal(t, c.status == 429 || c.status == 503, r.header.Get("Retry-After") == "1")
			}
		})
	}
	p := func(err error) problem { _, p := explain(err); return p }
	require.Equal(t, 8, p(cases[0].err).Capacity)
	require.InDelta(t, 1.0, *p(cases[9].err).Queued, 1e-9)
	require.Nil(t, p(cases[11].err).Reason.Queued)
	require.Equal(t, &job.Error{Type: "Signal", Message: "killed"}, p(cases[13].err).Cause)
	require.EqualValues(t, 5, *p(cases[13].err).Item)
}
