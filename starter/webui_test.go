package starter_test

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// uiOf starts `stint server` in the box, with its web UI, and returns it and the addresses that it has printed, by
// name.
func (b *box) uiOf() (server *process, addresses map[string]string) {
	b.t.Helper()
	server = b.spawn("server", "--port", portOf(b.t), "--ui-port", portOf(b.t))
	server.says("jobs in trouble: ")
	addresses = map[string]string{}
	for _, line := range regexp.MustCompile(`(?m)^([^:]+): +(\S+)$`).FindAllStringSubmatch(server.stderr.String(), -1) {
		addresses[line[1]] = line[2]
	}
	require.Len(b.t, addresses, 5, server.stderr.String())
	return server, addresses
}

func portOf(t *testing.T) string {
	_, port, _ := strings.Cut(freeAddress(t), ":")
	return port
}

// pageOf is the address that a command has printed of a job's page.
func pageOf(t *testing.T, said string) string {
	t.Helper()
	address := regexp.MustCompile(`(?m)^page:? +(http://127\.0\.0\.1:[0-9]+/\S+)$`).FindStringSubmatch(said)
	require.NotNil(t, address, said)
	return address[1]
}

// inTemporal is the address of a page of a job in Temporal's web UI.
func (b *box) inTemporal(addresses map[string]string, name, what string) string {
	b.t.Helper()
	return addresses["web UI"] + "/namespaces/default/workflows/" + name + "/" + b.status(name).Run + "/" + what
}

// summaryLine is how the page of a running job of 4,000 items begins.
var summaryLine = regexp.MustCompile(`running · ([0-9,]+) of 4,000 items \([0-9]+%\) · 0 failed`)

// 14.2, 14.5: `start` prints the address of the job's page; in Temporal's, the summary stands first. While the job runs it
// counts what is done in legs that have not ended: more than half of a job whose own, first page is a sixth of it.
func TestWebUI_PageOfARunningJob(t *testing.T) {
	t.Parallel()
	chromium(t)
	b := setup(t)
	b.write("in.txt", numbers(4000))
	_, addresses := b.uiOf()
	// From item 2,500 on batches take so long that the leg has the time to report those before; from 3,500 on the job
	// waits until it has been looked at.
	slow := b.script("slow", `while read -r n; do case $n in
		0002[5-9]*) [ -e $BOX/gate ] || sleep 0.05;;
		0003[5-9]*) while [ ! -e $BOX/gate ]; do sleep 0.05; done;;
		esac; echo "$n"; done`)
	b.worker("p", "--exec", slow, "--slots", "2")
	started := b.stint("start", "--pool", "p", "--name", "half", "in.txt", "-o", "out.txt", "--batch-items", "40").exits(starter.ExitOK)
	ours := pageOf(t, started.stderr.String())
	require.Equal(t, addresses["page"]+"/jobs/half", ours)
	address := b.inTemporal(addresses, "half", "user-metadata")
	require.Equal(t, ours, pageOf(t, b.stint("status", "half").exits(starter.ExitOK).stdout.String()), "all commands print the same")
	browser := b.browse()
	page := browser.open(address)
	counted := func(text string) int {
		found := summaryLine.FindStringSubmatch(text)
		if found == nil {
			return 0
		}
		n, err := strconv.Atoi(strings.ReplaceAll(found[1], ",", ""))
		require.NoError(t, err)
		return n
	}
	looked := time.Now()
	text := page.shows("what open legs have done", func(text string) bool {
		if counted(text) >= 2000 {
			return true
		}
		if time.Since(looked) > 5*time.Second { // the page itself looks only once
			page.press("r")
			looked = time.Now()
		}
		return false
	})
	page.picture("running")
	done := b.status("half").Done()
	require.LessOrEqual(t, int64(counted(text)), done)
	require.Regexp(t, `attempts 3\s+`+summaryLine.String(), text, "the summary comes first, after what the job was started with")
	require.Regexp(t, `Counted at [0-9:]{8} UTC`, text)
	require.NotContains(t, text, "in flight", "nothing is said of what only the leg knows")
	b.open()
	b.stint("watch", "half").exits(starter.ExitOK)
	page.goTo(address)
	page.shows("the end", func(text string) bool {
		return strings.Contains(text, "completed · 4,000 of 4,000 items (100%) · 0 failed")
	})
	page.picture("ended")
	browser.requireLoopback()
}

// 14.4: the list of the web UI, at the address that `stint server` prints, has each job once and no leg; it filters
// jobs by state, failed items and pool, those of a schedule, too; and the history of a job has labels that say what
// happens.
func TestWebUI_ListOfJobs(t *testing.T) {
	t.Parallel()
	chromium(t)
	b := setup(t)
	b.write("in.txt", numbers(200))
	_, addresses := b.uiOf()
	s := &ticks{b, b.dial(addresses["Temporal server"]).ScheduleClient()}
	b.worker("quick", "--exec", "cat", "--slots", "1")
	b.worker("odd", "--exec", b.odd(), "--slots", "1", "--call-items", "1")
	b.worker("slow", "--exec", b.halfway(), "--slots", "1")
	start := func(pool, name string, more ...string) *command {
		return b.stint(append([]string{"start", "--pool", pool, "--name", name, "in.txt", "-o", name + ".txt", "--attempts", "1", "--window", "1"}, more...)...)
	}
	whole := start("quick", "all-right", "--batch-items", "50", "--wait").exits(starter.ExitOK)
	start("odd", "with-failures", "--batch-items", "10", "--wait").exits(starter.ExitSomeFailed)
	start("slow", "brought-to-a-stop").exits(starter.ExitOK)
	eventually(t, "item 50", func() bool { return b.lines("started") == 1 })
	b.stint("stop", "brought-to-a-stop", "--grace", "0s", "--wait").exits(starter.ExitOK)
	start("slow", "under-way").exits(starter.ExitOK)
	start("quick", "nightly", "--cron", "0 3 * * *").exits(starter.ExitOK)
	s.ran("nightly", 1, starter.ExitOK)

	b.stint("report", "with-failures", "-o", "with-failures.html").exits(starter.ExitOK)
	require.Contains(t, b.read("with-failures.html"), "stint redrive with-failures", "the page alone in a file")
	all := []string{"all-right", "with-failures", "brought-to-a-stop", "under-way", run("nightly", 1)}
	page := b.browse().open(addresses["jobs, no legs"])
	query := func(query string) string {
		return addresses["web UI"] + "/namespaces/default/workflows?query=" + url.QueryEscape(query)
	}
	shows := func(names ...string) {
		t.Helper()
		page.shows(strings.Join(names, ", "), func(text string) bool {
			for _, name := range all {
				wanted := 0
				if slices.Contains(names, name) {
					wanted = 1
				}
				if strings.Count(text, "\t"+name+"\t") != wanted {
					return false
				}
			}
			return !strings.Contains(text, "/leg-")
		})
	}
	shows(all...)
	page.picture("list")
	page.goTo(addresses["jobs in trouble"])
	shows("with-failures", "brought-to-a-stop")
	page.picture("trouble")
	page.goTo(query("StintState = 'running'"))
	shows("under-way")
	page.goTo(query("StintPool = 'quick' AND StintPercent = 100"))
	shows("all-right", run("nightly", 1))
	page.goTo(query("WorkflowId STARTS_WITH 'with-failures'"))
	page.shows("legs", func(text string) bool { return strings.Contains(text, "\twith-failures/leg-1\t") })

	require.Equal(t, addresses["page"]+"/jobs/all-right", pageOf(t, whole.stderr.String()))
	page.goTo(b.inTemporal(addresses, "all-right", "history"))
	text := page.shows("labels", func(text string) bool { return strings.Contains(text, "check the books and publish the output") })
	page.picture("history")
	for _, label := range []string{"plan page 1", "batch 1 · items 0–49", "commit 4 parts"} {
		require.Contains(t, text, label)
	}
	page.requireLoopback()
	b.stint("stop", "under-way", "--grace", "0s", "--wait").exits(starter.ExitOK)
}
