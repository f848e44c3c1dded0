package devserver

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// get returns the answer to a request on a new connection, so that no
// idle one outlives the test.
func get(t *testing.T, url string) (int, http.Header, []byte) {
	t.Helper()
	return do(t, http.MethodGet, url, nil)
}

func do(t *testing.T, method, url string, header http.Header) (int, http.Header, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(contextWithPatience(t), method, url, strings.NewReader("{}"))
	require.NoError(t, err)
	request.Header = header.Clone()
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, response.Header, body
}

func TestUI(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{UIPort: AnyPort, Namespace: "photos"})
	require.True(t, strings.HasPrefix(s.UIURL(), "http://127.0.0.1:"))

	for _, path := range []string{"/", "/namespaces/photos/workflows"} {
		status, header, body := get(t, s.UIURL()+path)
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, header.Get("Content-Type"), "text/html")
		require.Contains(t, string(body), "/_app/")
	}

	status, _, body := get(t, s.UIURL()+"/api/v1/settings")
	require.Equal(t, http.StatusOK, status)
	var settings struct{ DefaultNamespace string }
	require.NoError(t, json.Unmarshal(body, &settings))
	require.Equal(t, "photos", settings.DefaultNamespace)

	status, _, body = get(t, s.UIURL()+"/api/v1/namespaces")
	require.Equal(t, http.StatusOK, status)
	var namespaces struct {
		Namespaces []struct{ NamespaceInfo struct{ Name string } }
	}
	require.NoError(t, json.Unmarshal(body, &namespaces))
	var names []string
	for _, n := range namespaces.Namespaces {
		names = append(names, n.NamespaceInfo.Name)
	}
	require.Contains(t, names, "photos")

	c := dial(t, s)
	startWaiting(t, c, "w")
	status, _, body = get(t, s.UIURL()+"/api/v1/namespaces/photos/workflows/w")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, string(body), "WORKFLOW_EXECUTION_STATUS_RUNNING")
}

// Pages of other sites cannot act through the browser of whoever runs a server.
// R26: a short address leads to a list whose own address is long.
func TestR26_ShortAddressesOfLists(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{UIPort: AnyPort, Namespace: "photos", Lists: map[string]string{"/jobs": "WorkflowType = 'Job'"}})
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	request, err := http.NewRequestWithContext(contextWithPatience(t), http.MethodGet, s.UIURL()+"/jobs", nil)
	require.NoError(t, err)
	response, err := client.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusFound, response.StatusCode)
	require.Equal(t, "/namespaces/photos/workflows?query=WorkflowType+%3D+%27Job%27", response.Header.Get("Location"))
}

func TestUIRefusesWritesFromElsewhere(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{UIPort: AnyPort})
	startWaiting(t, dial(t, s), "w")
	url := s.UIURL() + "/api/v1/namespaces/default/workflows/w/cancel"
	for name, header := range map[string]http.Header{
		"no token":   {},
		"cross-site": {"Sec-Fetch-Site": {"cross-site"}, "Origin": {"http://example.com"}},
	} {
		status, _, _ := do(t, http.MethodPost, url, header)
		require.Contains(t, []int{http.StatusForbidden, http.StatusBadRequest}, status, name)
	}
	status, _, body := do(t, http.MethodPost, url, http.Header{"Sec-Fetch-Site": {"same-origin"}})
	require.Equal(t, http.StatusOK, status, string(body))
}
