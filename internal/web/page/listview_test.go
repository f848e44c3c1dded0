package page

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

// A job that was resumed or redriven is in the list once for each run, and each is an entry of its own.
func TestListView_RunsOfOneName(t *testing.T) {
	t.Parallel()
	list := JobList{Jobs: []ListedJob{
		{Listed: jobs.Listed{Name: "nightly", Run: "run-2", State: job.Running}}, {Listed: jobs.Listed{Name: "nightly", Run: "run-1", State: job.Stopped}},
	}}
	content, err := contentOf("jobs", newListView(list, url.Values{}, time.Now()))
	require.NoError(t, err)
	for _, run := range []string{"run-1", "run-2"} {
		require.Equal(t, 1, strings.Count(content, `data-key="`+run+`"`))
	}
}

// A whole percentage is shown as it is.
func TestListView_Percent(t *testing.T) {
	t.Parallel()
	for percent := range int64(101) {
		row := newListRow(ListedJob{Numbers: Numbers{Percent: &percent}}, time.Now())
		require.Equal(t, fmt.Sprintf("%d%%", percent), row.Share)
		require.Equal(t, row.Share, percentage(float64(percent)/100))
	}
}
