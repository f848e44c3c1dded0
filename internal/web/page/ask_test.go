package page

import (
	"net/http"
	"net/http/httptest"
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

// Addresses that show the same are one thing to ask for, whatever else they say.
func TestListSource_Key(t *testing.T) {
	t.Parallel()
	p, _ := setup(t, Options{})
	key := func(query string) string {
		s := p.listSource(httptest.NewRequest(http.MethodGet, "/stint/?"+query, nil), true)
		require.NoError(t, s.err)
		return s.key
	}
	same := key("state=failed&state=running&pool=p&name=n")
	require.Equal(t, same, key("x=1&name=+n&html=true&state=running&pool=p&state=failed&state=failed&pool=&token="))
	require.Equal(t, key(""), key("x=200"))
	for _, other := range []string{"", "state=failed&pool=p&name=n", "state=failed&state=running&pool=q&name=n", "state=failed&state=running&pool=p&name=n&from=YQ"} {
		require.NotEqual(t, same, key(other))
	}
}
