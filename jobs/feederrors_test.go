package jobs

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// isCode returns the error of a feed, which has that code.
func isCode(t *testing.T, err error, code FeedCode) *FeedError {
	t.Helper()
	e, _ := errors.AsType[*FeedError](err)
	require.NotNil(t, e, "%v", err)
	require.Equal(t, code, e.Code, "%v", err)
	return e
}

// meanings are those of the codes in the docs of the gateway.
var meanings = map[FeedCode]string{
	CodeFull:        "the capacity is taken",
	CodeTooLarge:    "an item, a list or a body is too large",
	CodeInvalidItem: "an item is not JSON; `line` says where",
	CodeClosed:      "the feed has been closed",
	CodeStopped:     "the feed is stopping, or has stopped",
	CodeNotFeed:     "the job is not a feed",
	CodeUnserved:    "no worker serves the feed's pool",
	CodeUncertain:   "it is not known whether items were accepted",
	CodeTimeout:     "no outcome in time; an accepted item keeps its place",
	CodeItem:        "of one value: the item has failed",
	CodeDropped:     "of one value: the handler gave no result",
	CodeDiscarded:   "of one value: its session has ended",
	CodeStored:      "the gateway cannot read the outcome from the feed's store",
	CodeDecode:      "the result cannot be decoded",
}

// The docs, the gateway's document and the client for Python know every code, with its status.
func TestFeedCodes_AreDocumented(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(text)
	}
	docs, document, python := read("../docs/feeds.md"), read("../internal/web/gateway/openapi.json"), read("../python/stint_client.py")
	for code := range feedCodes {
		kind, status := code.Problem()
		if kind == string(code) {
			require.Contains(t, docs, fmt.Sprintf("\n| %d | `%s` | %s |\n", status, code, meanings[code]))
		}
		require.Contains(t, docs, "`"+kind+"`")
		require.Contains(t, document, "\""+kind+"\"")
		require.Contains(t, python, "\n"+kind+" = ")
	}
}

// An error is of the codes of all the feeds' errors that it wraps.
func TestIsCode(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("putting: %w", &FeedError{Code: CodeUncertain, Err: &FeedError{Code: CodeUnserved, Feed: "risk"}})
	require.True(t, IsCode(err, CodeFull, CodeUncertain))
	require.True(t, IsCode(err, CodeUnserved))
	require.False(t, IsCode(err, CodeFull))
	require.False(t, IsCode(&NotFoundError{Name: "risk"}, CodeNotFeed))
	require.False(t, IsCode(nil, CodeFull))
}
