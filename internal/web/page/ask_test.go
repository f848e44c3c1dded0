package page

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The beginning of a name finds scheduled jobs, too; one that no name has is refused.
func TestReadListQuery_Name(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "n", "nightly-", "nightly-2026-11-21T", "nightly-2026-11-21T03:0", "nightly-2026-11-21T03:00:00Z", "2026"} {
		q, err := readListQuery(url.Values{"name": {" " + name + " "}})
		require.NoError(t, err)
		require.Equal(t, name, q.filter.Name)
	}
	for _, name := range []string{"Nightly", "-n", "a b", "a'", "a%", "aT03", "a:", "nightly-2026-11-21T03:00:00Zz", strings.Repeat("a", 201)} {
		_, err := readListQuery(url.Values{"name": {name}})
		require.Error(t, err, name)
		status, _ := explain(err)
		require.Equal(t, 400, status)
	}
}
