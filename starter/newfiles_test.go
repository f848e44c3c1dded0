package starter_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// N2, N3: a schedule over a directory that grows runs each file once: what a tick that was killed should have run, the
// next one does.
func TestNewFiles_Schedule(t *testing.T) {
	t.Parallel()
	b := setup(t)
	server := b.dial(b.server().Address())
	s := &ticks{b, server.ScheduleClient()}
	b.worker("p", "--exec", b.script("slow", `cat > $BOX/in-hand.$$; echo $$ >> $BOX/started; while [ -e $BOX/wait ]; do sleep 0.02; done; tee -a $BOX/witness < $BOX/in-hand.$$`))
	b.stint("start", "--cron", "0 3 * * *", "--name", "nightly", "--pool", "p", "--new-files", "in/", "-o", "out/{date:2006/01}/{date:02}.txt").exits(starter.ExitOK)

	b.write("in/a.txt", "a\n")
	b.write("in/b.txt", "b\n")
	s.ran("nightly", 1, starter.ExitOK)
	require.Equal(t, "a\nb\n", b.read("out/2026/01/01.txt"))

	b.write("in/c.txt", "c\n")
	b.write("wait", "")
	started := b.lines("started")
	s.at("nightly", 2)
	eventually(t, "the second run's filter", func() bool { return b.lines("started") > started })
	require.NoError(t, server.TerminateWorkflow(t.Context(), run("nightly", 2), "", "killed"))
	require.NoError(t, os.Remove(b.path("wait")))
	b.stint("watch", run("nightly", 2)).exits(starter.ExitFailed)

	b.write("in/d.txt", "d\n")
	s.ran("nightly", 3, starter.ExitOK)
	require.Equal(t, "c\nd\n", b.read("out/2026/01/03.txt"), "also what the killed run had begun")

	s.ran("nightly", 4, starter.ExitOK)
	require.Empty(t, b.read("out/2026/01/04.txt"))
	status := b.stint("status", run("nightly", 4)).exits(starter.ExitOK).stdout.String()
	require.Regexp(t, `old files +4 files among the inputs left out, because earlier runs have completed them`, status)
	require.NoFileExists(t, b.path("out/2026/01/02.txt"))
	require.FileExists(t, b.path("out/.nightly.completed-files"))
	for _, once := range []string{"a", "b", "d"} {
		require.Equal(t, 1, strings.Count("\n"+b.read("witness"), "\n"+once+"\n"), once)
	}
	b.refused(starter.ExitUsage, []string{"start", "--cron", "@daily", "--name", "n", "--pool", "p", "--new-files", "in/", "-o", "out.txt"},
		"output "+b.path("out.txt")+": each run has the results of its new files only", "put {date} or {time} into it")
}

// N2: each `stint run` of a name takes what has come since the last one that has completed.
func TestNewFiles_Run(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in/a.txt", "a\n")
	b.write("in/b.txt", "b\nbad\n")
	line := func(output string, more ...string) []string {
		return append([]string{"run", "--name", "nightly", "--new-files", "in/*.txt", "--exec", "sed /bad/d", "--backoff", "1ms", "-o", output}, more...)
	}
	b.stint(line("1.txt")...).exits(starter.ExitSomeFailed)
	require.Equal(t, "a\nb\n", b.read("1.txt"))

	b.write("in/c.txt", "c\n")
	plan := b.stint("plan", "--name", "nightly", "--new-files", "in/*.txt", "-o", "2.txt").exits(starter.ExitOK).stdout.String()
	require.Regexp(t, `1 input\n *2 files left out, because earlier runs have completed them\n *1 item\n`, plan)
	second := b.stint(line("2.txt", "--report", "r.json")...).exits(starter.ExitOK)
	require.Equal(t, "c\n", b.read("2.txt"))
	require.Contains(t, second.stderr.String(), "2 files among the inputs left out, because earlier runs have completed them\n")
	require.Equal(t, 2, b.report("r.json").OldFiles)

	third := b.stint(line("3.txt")...).exits(starter.ExitOK)
	require.Empty(t, b.read("3.txt"))
	require.Contains(t, third.stderr.String(), "3 files among the inputs left out, because earlier runs have completed them: nothing is new\n")

	b.refused(starter.ExitFailed, line("2.txt"), "output "+b.path("2.txt")+" has the results of files that an earlier run has completed")
	require.Equal(t, "c\n", b.read("2.txt"))

	b.write("job.yaml", "name: other\nnew-files: true\nnew-files-list: done.list\ninput: in/\nexec: cat\noutput: 5.txt\n")
	b.stint("run", "-f", "job.yaml").exits(starter.ExitOK)
	require.Equal(t, "a\nb\nbad\nc\n", b.read("5.txt"), "another name has files of its own")
	require.FileExists(t, b.path("done.list"))
}

// N2: results on the standard output replace nothing. A run that is stopped completes no file.
func TestNewFiles_Stdout(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in/a.txt", "a\n")
	line := func(handler string) []string {
		return []string{"run", "--name", "nightly", "--new-files", "in/", "--max-failed", "0", "--backoff", "1ms", "--exec", handler}
	}
	b.stint(line("false")...).exits(starter.ExitFailed)
	require.Equal(t, "a\n", b.stint(append(line("cat"), "--fresh")...).exits(starter.ExitOK).stdout.String())
	b.write("in/b.txt", "b\n")
	require.Equal(t, "b\n", b.stint(line("cat")...).exits(starter.ExitOK).stdout.String())
	require.Empty(t, b.stint(line("cat")...).exits(starter.ExitOK).stdout.String())
	require.Contains(t, b.stint(line("cat")...).exits(starter.ExitOK).stderr.String(), "nothing is new")
}

func TestNewFiles_Refused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", "a\n")
	run := func(words ...string) []string {
		return append([]string{"run", "--exec", "cat", "-o", "out.txt"}, words...)
	}
	b.refused(starter.ExitUsage, run("--new-files", "in.txt"), "--new-files", "give --name NAME")
	b.refused(starter.ExitUsage, run("--new-files", "--name", "n", "-"), "new-files is for files, and the standard input is none")
	b.refused(starter.ExitUsage, run("--new-files-list", "x", "in.txt"), "new-files-list "+b.path("x")+": it is for new-files")
	b.refused(starter.ExitUsage, run("--new-files", "--name", "n", "--new-files-list", "out.txt", "in.txt"), "is also the spec's Output")
	b.refused(starter.ExitUsage, []string{"start", "--feed", "--name", "n", "--pool", "p", "-o", "o/", "--new-files"}, "--new-files")
	b.refused(starter.ExitUsage, []string{"plan", "--new-files", "--name", "n", "in.txt"}, "give the job's --output, or --new-files-list FILE")
	b.refused(starter.ExitFailed, run("--new-files", "--name", "n", "none/"), "none")
}
