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

// The docs, the gateway's document and the client for Python know every code, with its status.
func TestFeedCodes_AreDocumented(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(text)
	}
	docs, document, python := read("../docs/feeds.md"), read("../internal/gateway/openapi.json"), read("../python/stint_client.py")
	for code, row := range feedCodes {
		kind, status := code.Problem()
		if kind == string(code) {
			require.Contains(t, docs, fmt.Sprintf("\n| %d | `%s` | %s |\n", status, code, row.meaning))
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
