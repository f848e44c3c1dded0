package starter_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/temporal/devserver"
	"github.com/stint-run/stint/internal/temporal/search"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	sdkclient "go.temporal.io/sdk/client"
)

// ticks makes schedules tick in the past.
type ticks struct {
	b         *box
	schedules sdkclient.ScheduleClient
}

// scheduling starts a server, which the box's commands reach.
func scheduling(t *testing.T) (*box, *ticks) {
	t.Helper()
	b := setup(t)
	server := b.server()
	return b, &ticks{b, b.dial(server.Address()).ScheduleClient()}
}

// at has a daily schedule act as at three o'clock of a day of January 2026.
func (s *ticks) at(schedule string, day int) {
	s.b.t.Helper()
	at := time.Date(2026, 1, day, 3, 0, 0, 0, time.UTC)
	require.NoError(s.b.t, s.schedules.GetHandle(s.b.t.Context(), schedule).Backfill(s.b.t.Context(), sdkclient.ScheduleBackfillOptions{
		Backfill: []sdkclient.ScheduleBackfill{{Start: at.Add(-time.Minute), End: at.Add(time.Minute)}},
	}))
}

// run is the name of the job that starts then.
func run(schedule string, day int) string {
	return fmt.Sprintf("%s-2026-01-%02dT03:00:00Z", schedule, day)
}

// ran lets a schedule tick and waits until the job has ended.
func (s *ticks) ran(schedule string, day, code int) {
	s.b.t.Helper()
	s.at(schedule, day)
	name := run(schedule, day)
	eventually(s.b.t, "the start of "+name, func() bool {
		return strings.Contains(s.b.stint("list").exits(starter.ExitOK).stdout.String(), name)
	})
	s.b.stint("watch", name).exits(code)
}

func (b *box) schedules() []jobs.Scheduled {
	b.t.Helper()
	var all []jobs.Scheduled
	b.reads(&all, "schedule", "list", "--json")
	return all
}

func TestSchedule_EveryTickStartsAJobOfItsOwn(t *testing.T) {
	t.Parallel()
	b, s := scheduling(t)
	b.worker("p", "--exec", "tr a-z A-Z")
	made := b.stint("start", "--cron", "0 3 * * *", "--name", "nightly", "--pool", "p", "in-{date}.jsonl", "-o", "out-{time}.jsonl",
		"--report", "report-{date}.json", "--batch-items", "1").exits(starter.ExitOK)
	require.Equal(t, "nightly\n", made.stdout.String())
	require.Contains(t, made.stderr.String(), "nightly starts first at ")
	require.Equal(t, 1, strings.Count(b.stint("list").exits(starter.ExitOK).stdout.String(), "\n"), "nothing starts now: there is the heading alone")
	for day := range 2 {
		day++
		input := records(150 + day) // more than the job runs without a leg
		b.write(fmt.Sprintf("in-2026-01-%02d.jsonl", day), input)
		s.ran("nightly", day, starter.ExitOK)
		requireSame(t, upper(t, input), b.read(fmt.Sprintf("out-202601%02dT030000Z.jsonl", day)))
		r := b.report(fmt.Sprintf("report-2026-01-%02d.json", day))
		require.Equal(t, run("nightly", day), r.Job)
		require.Equal(t, 2, r.Legs)
	}
	requireSame(t, upper(t, records(152)), b.stint("results", run("nightly", 2)).exits(starter.ExitOK).stdout.String())
	require.Contains(t, b.stint("status", run("nightly", 1)).exits(starter.ExitOK).stdout.String(), "completed")
	var jobs []jobs.Listed
	b.reads(&jobs, "list", "--json")
	require.Len(t, jobs, 2)
	require.Equal(t, b.path("out-20260102T030000Z.jsonl"), jobs[0].Output, "of the latest, as it is really called")

	all := b.schedules()
	require.Len(t, all, 1)
	require.Equal(t, "nightly", all[0].Name)
	require.Equal(t, []string{"0 3 * * *"}, all[0].Cron)
	require.Equal(t, "UTC", all[0].TimeZone)
	require.Equal(t, job.OverlapSkip, all[0].Overlap)
	require.Equal(t, "p", all[0].Pool)
	require.Equal(t, 2, all[0].Runs)
	require.NotNil(t, all[0].Next)
	require.Equal(t, run("nightly", 2), all[0].Last.Name)
	require.Equal(t, job.Completed, all[0].Last.State)
	require.Regexp(t, `nightly +0 3 \* \* \* \(UTC\) +p +skip .* completed `, b.stint("schedule", "list").exits(starter.ExitOK).stdout.String())

	b.stint("schedule", "delete", "nightly").exits(starter.ExitOK)
	require.Empty(t, b.schedules())
	b.reads(&jobs, "list", "--json")
	require.Len(t, jobs, 2, "its runs are still listed")
}

// N1: a tick that is made up for has the places of its own time, whenever its run starts: offsets and layouts, too.
func TestSchedule_PlacesWithOffsetsAndLayouts(t *testing.T) {
	t.Parallel()
	b, s := scheduling(t)
	b.worker("p", "--exec", "tr a-z A-Z")
	b.stint("start", "--cron", "0 3 * * *", "--name", "nightly", "--pool", "p", "in/{date-1:2006/01}/*-{date-1:02}.txt", "-o", "{date-1:out-2006/01}/{time-3h:02T15}.txt",
		"--report", "reports/{date:2006}/{date}.json").exits(starter.ExitOK)
	b.write("in/2025/12/a-31.txt", "december\n")
	b.write("in/2026/01/a-01.txt", "january\n")
	b.write("in/2026/01/a-02.txt", "not yet\n")
	s.ran("nightly", 1, starter.ExitOK)
	s.ran("nightly", 2, starter.ExitOK)
	require.Equal(t, "DECEMBER\n", b.read("out-2025/12/01T00.txt"))
	require.Equal(t, "JANUARY\n", b.read("out-2026/01/02T00.txt"))
	require.Equal(t, run("nightly", 2), b.report("reports/2026/2026-01-02.json").Job, "the directories of a run are made")
	require.Equal(t, "JANUARY\n", b.stint("results", run("nightly", 2)).exits(starter.ExitOK).stdout.String())
	b.refused(starter.ExitUsage, []string{"start", "--cron", "@daily", "--name", "n", "--pool", "p", "in-{date:YYYY}.txt", "-o", "out.txt"},
		"input 1 of 1", "layout of placeholder {date:YYYY}", "{date:2006/01/02}")
}

// 14.4: the server's own list filters jobs of a schedule, too, by pool, state and failed items.
func TestSchedule_SearchAttributesOfItsJobs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.dial(b.serverWith(devserver.Options{SearchAttributes: search.Types()}).Address())
	s := &ticks{b, c.ScheduleClient()}
	b.worker("p", "--exec", "sed /bad/d")
	b.write("in.txt", "a\nbad\nb\n")
	b.stint("start", "--cron", "0 3 * * *", "--name", "nightly", "--pool", "p", "in.txt", "-o", "out.txt", "--backoff", "1ms").exits(starter.ExitOK)
	s.ran("nightly", 1, starter.ExitSomeFailed)
	count := func(query string) int64 {
		resp, err := c.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{Query: query})
		require.NoError(t, err)
		return resp.GetCount()
	}
	eventually(t, "the job in the server's list", func() bool {
		return count("StintPool = 'p' AND StintState = 'completed' AND StintFailed = 1 AND StintPercent = 100") == 1
	})
	require.Zero(t, count("StintState = 'running'"))
}

func TestSchedule_RunsReplaceTheOutputOfThoseBefore(t *testing.T) {
	t.Parallel()
	b, s := scheduling(t)
	b.worker("p", "--exec", "sed /bad/d")
	b.stint("start", "--cron", "@daily", "--cron", "0 3 * * *", "--name", "nightly", "--pool", "p", "in.txt", "-o", "out.txt", "--backoff", "1ms").exits(starter.ExitOK)
	b.write("in.txt", "a\nbad\nb\n")
	s.ran("nightly", 1, starter.ExitSomeFailed)
	require.Equal(t, "a\nb\n", b.read("out.txt"))
	require.Len(t, b.failures("out.txt.errors.jsonl"), 1)
	b.write("in.txt", "c\n")
	s.ran("nightly", 2, starter.ExitOK)
	require.Equal(t, "c\n", b.read("out.txt"))
	require.NoFileExists(t, b.path("out.txt.errors.jsonl"), "the errors of the run before are not this one's")
}

func TestSchedule_TriggerPauseAndResume(t *testing.T) {
	t.Parallel()
	b, s := scheduling(t)
	b.write("in.txt", "a\n")
	b.worker("p", "--exec", b.gated())
	b.stint("start", "--cron", "0 3 * * *", "--name", "nightly", "--pool", "p", "in.txt", "-o", "out.txt").exits(starter.ExitOK)
	b.stint("schedule", "pause", "nightly", "--reason", "holidays").exits(starter.ExitOK)
	paused := b.schedules()[0]
	require.True(t, paused.Paused)
	require.Equal(t, "holidays", paused.Note)
	require.Nil(t, paused.Next)
	require.Regexp(t, `nightly .* paused `, b.stint("schedule", "list").exits(starter.ExitOK).stdout.String())

	b.stint("schedule", "trigger", "nightly").exits(starter.ExitOK)
	eventually(t, "the run, although the schedule is paused", func() bool { return len(b.schedules()[0].Running) == 1 })
	b.stint("schedule", "resume", "nightly").exits(starter.ExitOK)
	going := b.schedules()[0]
	require.False(t, going.Paused)
	require.NotNil(t, going.Next)
	require.Equal(t, job.Running, going.Last.State)
	name := going.Running[0]

	b.refused(starter.ExitFailed, []string{"schedule", "trigger", "nightly"}, name, "stint stop "+name)
	s.at("nightly", 1)
	eventually(t, "the tick that is left out", func() bool { return b.schedules()[0].Skipped == 1 })
	b.open()
	b.stint("watch", name).exits(starter.ExitOK)
	require.Equal(t, "a\n", b.read("out.txt"))
	require.Equal(t, 1, b.schedules()[0].Runs)
}

// With --overlap stop a run ends for the next: the calls in hand are finished, the rest is not. It can be
// resumed, as the run of its tick.
func TestSchedule_RunGivesWayToTheNext(t *testing.T) {
	t.Parallel()
	b, s := scheduling(t)
	b.write("in.txt", numbers(100))
	b.worker("p", "--exec", b.gated(), "--slots", "1")
	b.stint("start", "--cron", "0 3 * * *", "--name", "nightly", "--pool", "p", "in.txt", "-o", "out-{time}.txt",
		"--batch-items", "10", "--overlap", "stop").exits(starter.ExitOK)
	s.at("nightly", 1)
	eventually(t, "the first run's filter", func() bool { return b.lines("started") > 0 })
	s.at("nightly", 2)
	eventually(t, "its stop", func() bool {
		var jobs []jobs.Listed
		b.reads(&jobs, "list", "--json")
		return jobs[0].State == job.Stopping
	})
	b.open()
	b.stint("watch", run("nightly", 1)).exits(starter.ExitStopped)
	eventually(t, "the second run", func() bool { return b.schedules()[0].Runs == 2 })
	b.stint("watch", run("nightly", 2)).exits(starter.ExitOK)
	requireSame(t, numbers(100), b.read("out-20260102T030000Z.txt"))

	require.NoFileExists(t, b.path("out-20260101T030000Z.txt"))
	b.stint("resume", run("nightly", 1), "--wait").exits(starter.ExitOK)
	requireSame(t, numbers(100), b.read("out-20260101T030000Z.txt"))
}

func TestSchedule_RunsAtTheSameTime(t *testing.T) {
	t.Parallel()
	b, s := scheduling(t)
	b.write("in.txt", "a\n")
	b.worker("p", "--exec", b.gated(), "--slots", "2")
	b.stint("start", "--cron", "0 3 * * *", "--name", "nightly", "--pool", "p", "in.txt", "-o", "out-{time}.txt", "--overlap", "allow").exits(starter.ExitOK)
	for day := range 2 { // the server may lose a tick that another one follows at once
		s.at("nightly", day+1)
		eventually(t, "the filter", func() bool { return b.lines("started") == day+1 })
	}
	b.open()
	for day := range 2 {
		b.stint("watch", run("nightly", day+1)).exits(starter.ExitOK)
		require.Equal(t, "a\n", b.read(fmt.Sprintf("out-2026010%dT030000Z.txt", day+1)))
	}
}

func TestSchedule_NameThatExists(t *testing.T) {
	t.Parallel()
	b, _ := scheduling(t)
	line := []string{"start", "--cron", "@daily", "--name", "nightly", "--pool", "p", "in.txt", "-o", "out.txt", "--json"}
	var made map[string]any
	b.reads(&made, line...)
	require.Equal(t, "nightly", made["schedule"])
	require.Equal(t, "p", made["pool"])
	require.NotEmpty(t, made["next"])
	b.refused(starter.ExitFailed, line, `schedule named "nightly" exists already`, "--fresh", "stint schedule delete nightly")
	b.stint(append(line, "--fresh", "--cron", "@hourly", "--overlap", "queue")...).exits(starter.ExitOK)
	all := b.schedules()
	require.Len(t, all, 1)
	require.Equal(t, []string{"@daily", "@hourly"}, all[0].Cron)
	require.Equal(t, job.OverlapQueue, all[0].Overlap)
	for _, command := range []string{"delete", "pause", "resume", "trigger"} {
		b.refused(starter.ExitFailed, []string{"schedule", command, "weekly"}, `no schedule named "weekly"`, "'stint schedule list'")
	}
}

// Invalid flags are refused before a server is looked for.
func TestSchedule_Usage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.env = append(b.env, "TEMPORAL_ADDRESS=127.0.0.1:1")
	line := func(more ...string) []string {
		return append([]string{"start", "--pool", "p", "in.txt", "-o", "out.txt"}, more...)
	}
	b.refused(starter.ExitUsage, line("--name", "n", "--cron", "0 25 * * *"), `hour "25"`, "0 to 23")
	b.refused(starter.ExitUsage, line("--name", "n", "--cron", "daily"), "5 to 7 fields", "@daily")
	b.refused(starter.ExitUsage, line("--name", "n", "--cron", "@daily", "--time-zone", "Mars"), `time zone "Mars"`)
	b.refused(starter.ExitUsage, line("--name", "n", "--cron", "@daily", "--overlap", "forbid"), `overlap "forbid"`, "queue-one")
	b.refused(starter.ExitUsage, line("--name", "n", "--cron", "@daily", "--overlap", "allow"), "out.txt", "{time}")
	b.refused(starter.ExitUsage, line("--name", "n", "--cron", "@daily", "--report", "r-{now}.json"), "unknown placeholder {now}", "{time}")
	b.refused(starter.ExitUsage, line("--cron", "@daily"), "--name")
	b.refused(starter.ExitUsage, line("--name", "n", "--cron", "@daily", "--wait"), "--wait", "stint watch")
	b.refused(starter.ExitUsage, line("--overlap", "queue"), "--cron")
	b.refused(starter.ExitUsage, []string{"schedule", "remove", "n"}, `unknown command "schedule remove"`)
	b.refused(starter.ExitUsage, []string{"schedule", "delete"}, "delete")
}

// The light check accepts exactly what a server accepts.
func TestSchedule_CronIsWhatTheServerTakes(t *testing.T) {
	t.Parallel()
	_, s := scheduling(t)
	spec := job.Spec{Name: "n", Pool: "p", Files: &job.Files{Input: []string{"in.txt"}}, Output: "out-{time}.txt"}.WithDefaults()
	for i, expression := range []string{
		"0 3 * * *", "*/15 9-17 * * MON-FRI", "0 0 1,15 jan-mar/2 *", "0 0 * * 0-7", "0 0 * * 7", "0 0 * * thu", "0 0 * september *",
		"1/5 * * * *", "0 0 1 1 * 2030", "30 0 0 1 1 * 2030-2040/2", "  0   3 * * *  ", "0 3 * * * # nightly",
		"@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually", "@every 90m", "@every 1h30m/20m", "@every 1.5d",
		"TZ=Europe/Berlin 0 3 * * *", "CRON_TZ=UTC @daily", "@every 6h/",
		"", "x", "* * * *", "* * * * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 13 *", "* * * * 8",
		"0 0 * ja *", "0 0 * * m", "0 0 1 1 * 1999", "0 0 1 1 * 2101", "5-1 * * * *", "1-2-3 * * * *", "*/0 * * * *", "*/ * * * *", "1/2/3 * * * *",
		", * * * *", "-1 * * * *", "0 0 * * fri-mon", "@reboot", "@every", "@every ", "@every 10ms", "@every x", "@every 1h/1h", "@every 1h/-1m", "@every 1h 5m",
		"TZ=Mars 0 3 * * *", "TZ=UTC", "0 3 * * * #" + strings.Repeat("x", 201), "*/5,10 * * * *", "*-5 * * * *", "*/99999999999999999999 * * * *", "*/90 * * * *", "0 3 * * ?",
	} {
		handle, err := s.schedules.Create(t.Context(), sdkclient.ScheduleOptions{
			ID: fmt.Sprintf("cron-%d", i), Paused: true, Overlap: enums.SCHEDULE_OVERLAP_POLICY_SKIP,
			Spec:   sdkclient.ScheduleSpec{CronExpressions: []string{expression}},
			Action: &sdkclient.ScheduleWorkflowAction{ID: "none", Workflow: "None", TaskQueue: "none"},
		})
		if err == nil {
			require.NoError(t, handle.Delete(t.Context()))
		}
		checked := job.ScheduleOptions{Cron: []string{expression}}.Validate(spec)
		require.Equal(t, err == nil, checked == nil, "%q: the server says %v, the check %v", expression, err, checked)
	}
}
