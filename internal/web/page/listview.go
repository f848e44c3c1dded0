package page

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/job"
)

// listView is what the list's template gets.
type listView struct {
	Rows         []listRow
	States       []stateChoice
	Name, Pool   string
	First, Next  string // addresses; empty: there is no other page
	Filtered     bool
	Empty        bool
	AllLink      string
	Running      int // on this page
	WithFailures int
}

// stateChoice is a state to filter by.
type stateChoice struct {
	State   string
	Class   string
	Chosen  bool
	Address string // that changes the choice
}

// listRow is a job of the list.
type listRow struct {
	Run                       string
	Name, Address, Pool, More string
	Badge                     badge
	Bar                       bar
	Share, Items              string
	Rate, Left, Failed        string
	Since                     when
	Age                       string
	Note                      string // what is wrong; empty: nothing
}

// newListView makes what the template gets. The values are those of the address.
func newListView(list JobList, values url.Values, now time.Time) listView {
	v := listView{Name: values.Get("name"), Pool: values.Get("pool"), AllLink: Path + "/"}
	for _, state := range stateNames {
		v.States = append(v.States, newStateChoice(string(state), values))
	}
	v.Filtered = v.Name != "" || v.Pool != "" || len(values["state"]) > 0
	for _, j := range list.Jobs {
		row := newListRow(j, now)
		if j.State == job.Running {
			v.Running++
		}
		if row.Failed != "" {
			v.WithFailures++
		}
		v.Rows = append(v.Rows, row)
	}
	v.Empty = len(v.Rows) == 0
	if list.Next != "" {
		v.Next = address(values, "from", list.Next)
	}
	if values.Get("from") != "" {
		v.First = address(values, "from", "")
	}
	return v
}

// address is that of the list with one value changed.
func address(values url.Values, name, value string) string {
	changed := url.Values{}
	for _, n := range []string{"state", "pool", "name", "from"} {
		for _, v := range values[n] {
			if n != name && v != "" {
				changed.Add(n, v)
			}
		}
	}
	if value != "" {
		changed.Set(name, value)
	}
	if len(changed) == 0 {
		return Path + "/"
	}
	return Path + "/?" + changed.Encode()
}

func newStateChoice(state string, values url.Values) stateChoice {
	chosen := slices.Contains(values["state"], state)
	rest := slices.DeleteFunc(slices.Clone(values["state"]), func(s string) bool { return s == state })
	if !chosen {
		rest = append(rest, state)
	}
	changed := url.Values{"state": rest, "pool": values["pool"], "name": values["name"]}
	return stateChoice{
		State: state, Chosen: chosen, Class: stateBadge(job.State(state), false, false, false, 0).Class, Address: address(changed, "", ""),
	}
}

func newListRow(j ListedJob, now time.Time) listRow {
	row := listRow{
		Run: j.Run, Name: j.Name, Address: Path + "/jobs/" + url.PathEscape(j.Name), Pool: cmp.Or(j.Pool, "–"), Since: at(j.Started),
		Rate: perSecond(j.ItemsPerSecond), Age: span(now.Sub(j.Started).Truncate(time.Second)),
	}
	if len(j.Pools) > 1 {
		row.More = text.Count(len(j.Pools)-1, "pool")
	}
	failed := int64(0)
	if j.Progress != nil {
		failed = j.Progress.Failed
	}
	if failed > 0 {
		row.Failed = text.Thousands(failed)
	}
	if j.Ended != nil {
		row.Age = span(j.Ended.Sub(j.Started))
	}
	row.Badge = stateBadge(j.State, j.PausedSince != nil, j.Stuck, j.SilentSince != nil, failed)
	if j.SecondsLeft != nil && !j.State.Final() {
		row.Left = span(seconds(j.SecondsLeft))
	}
	switch {
	case j.Needs != "":
		row.Note = j.Needs
	case j.SilentSince != nil:
		row.Note = "no answer since " + ago(*j.SilentSince, now)
	case j.PausedSince != nil:
		row.Note = "paused " + ago(*j.PausedSince, now)
	}
	row.measure(j)
	return row
}

// measure fills in how far the job is.
func (row *listRow) measure(j ListedJob) {
	share := 0.0
	if j.Numbers.Percent != nil {
		share = float64(*j.Numbers.Percent) / 100
		row.Share = fmt.Sprintf("%d%%", *j.Numbers.Percent)
	}
	p := j.Progress
	if p == nil {
		if j.State == job.Completed {
			row.Items = "all ok"
		}
		row.Bar = newBar(row.Share, 1, []part{{class: "ok", size: share}})
		return
	}
	row.Items = text.Thousands(p.Done())
	if p.PlanDone && p.Planned > 0 {
		row.Items += " of " + text.Thousands(p.Planned)
	}
	if row.Share == "" && j.State.Final() {
		share = 1
	}
	done := float64(max(1, p.Done()))
	row.Bar = newBar(cmp.Or(row.Share, row.Items), 1, []part{
		{class: "ok", size: share * float64(p.OK) / done}, {class: "failed", size: share * float64(p.Failed) / done},
	})
}
