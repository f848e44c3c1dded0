package starter_test

import (
	"errors"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// refused runs a command line that must fail with the exit code and a message that holds every
// text: what is wrong, where, and what to do next. Nothing may be left under the name of an output.
func (b *box) refused(code int, args []string, says ...string) *command {
	b.t.Helper()
	c := b.stint(args...).exits(code)
	message := c.stderr.String()
	for _, text := range says {
		require.Contains(b.t, message, text, "%s", c.line)
	}
	require.NotContains(b.t, message, "level=", "%s: a log is not a message", c.line)
	require.NotContains(b.t, message, "goroutine ", "%s: a message is not a stack trace", c.line)
	require.NotContains(b.t, message, "rpc error", "%s: a message is not about the machinery", c.line)
	require.Empty(b.t, saidTwice(message), "%s: %s", c.line, message)
	require.Empty(b.t, c.stdout.String())
	b.requireNoOutput()
	return c
}

var (
	clauseEnd = regexp.MustCompile(`: |; |, | \(|\n`)
	doing     = regexp.MustCompile(`^(\w+ing) `)
)

// saidTwice returns a clause of a message that stands in it twice, or what two clauses, one after the other, say to
// have been done; empty: there is none.
func saidTwice(message string) string {
	const short = 8 // a name, a number
	for line := range strings.Lines(message) {
		seen := map[string]bool{}
		before := ""
		for _, clause := range clauseEnd.Split(strings.TrimSpace(line), -1) {
			if len(clause) > short && seen[clause] {
				return clause
			}
			seen[clause] = true
			done := ""
			if found := doing.FindStringSubmatch(clause); found != nil {
				if done = found[1]; done == before {
					return clause
				}
			}
			before = done
		}
	}
	return ""
}

// R23: what says a thing twice is found.
func TestR23_SaidTwice(t *testing.T) {
	t.Parallel()
	require.Equal(t, "reading /x", saidTwice("stint: reading /x: reading /x: input/output error\n"))
	require.Equal(t, "starting the Temporal server", saidTwice("starting the embedded server: starting the Temporal server: no"))
	require.Equal(t, "there is no such file", saidTwice("there is no such file: check it\na: there is no such file; there is no such file"))
	require.Empty(t, saidTwice("reading /x: there is no such file: check the name\nreading /x failed"))
}

// requireNoOutput requires that no output stands under its final name, in part or whole.
func (b *box) requireNoOutput() {
	b.t.Helper()
	for _, name := range []string{"out.txt", "out.jsonl", "out.jsonl.errors.jsonl", "out.txt.errors.jsonl", "out/manifest.jsonl"} {
		require.NoFileExists(b.t, b.path(name))
	}
}

// requireNotStarted requires that nothing was started: no state directory has been made.
func (b *box) requireNotStarted() {
	b.t.Helper()
	require.NoDirExists(b.t, b.path(".stint"))
}

func TestBadInput_RefusedBeforeAnythingStarts(t *testing.T) {
	t.Parallel()
	run := func(args ...string) []string {
		return append([]string{"run", "--exec", "cat", "-o", "out.txt"}, args...)
	}
	for _, c := range []struct {
		name string
		code int
		args []string
		says []string
	}{
		{"input missing", 1, run("missing.txt"), []string{"/missing.txt", "there is no such file"}},
		{"one input of several missing", 1, run("in.txt", "missing.txt"), []string{"/missing.txt", "there is no such file"}},
		{"glob without a match", 1, run("none-*.txt"), []string{"/none-*.txt", "matches no file", "check the pattern"}},
		{"empty directory", 1, run("empty/"), []string{"/empty/", "holds no files"}},
		{"bad pattern", 1, run("in[.txt"), []string{"/in[.txt", "not a valid pattern", "close every ["}},
		{"unknown scheme", 2, run("ftp://host/in.txt"), []string{"ftp://host/in.txt", "scheme ftp:// is unknown", "linked are file://"}},
		{"no input", 2, run(), []string{"no input", "name at least one file"}},
		{"no handler", 2, []string{"run", "in.txt", "-o", "out.txt"}, []string{"no handler given", "--exec COMMAND"}},
		{"a command that does not exist", 2, run("in.txt", "--exec", "no-such-program -x"), []string{`"no-such-program"`, "no such program", "$PATH"}},
		{"a command that is not a program", 2, run("in.txt", "--exec", "/etc/passwd"), []string{`"/etc/passwd"`, "cannot be run", "permission denied"}},
		{"a command with shell syntax", 2, run("in.txt", "--exec", "tr a b | cat"), []string{"tr a b | cat", "without a shell", "sh -c"}},
		{"a command with a variable", 2, run("in.txt", "--exec", "grep $HOME"), []string{"grep $HOME", "needs a shell", "sh -c"}},
		{"an empty command", 2, run("in.txt", "--exec", ""), []string{"--exec COMMAND"}},
		{"a directory that is none", 2, run("in.txt", "--dir", "nowhere"), []string{"dir", "nowhere", "no such file"}},
		{"unknown flag", 2, run("in.txt", "--wat"), []string{"unknown flag: --wat", "--help"}},
		{"unknown command", 2, []string{"frob", "in.txt"}, []string{`unknown command "frob"`, "--help"}},
		{"unknown format", 2, run("in.txt", "--format", "xml"), []string{`format "xml"`, "use jsonl, json, csv, tsv, text, text0 or auto"}},
		{"negative window", 2, run("in.txt", "--window", "-1"), []string{"window -1", "use 1 to 10000"}},
		{"absurd window", 2, run("in.txt", "--window", "1000000000000"), []string{"window 1000000000000", "use 1 to 10000"}},
		{"number too large for a number", 2, run("in.txt", "--batch-items", "99999999999999999999"), []string{"batch-items", "out of range"}},
		{"negative batch", 2, run("in.txt", "--batch-items", "-7"), []string{"batch-items -7", "use 0 to 10000000"}},
		{"negative size", 2, run("in.txt", "--batch-bytes", "-7"), []string{"batch-bytes", "-7", "64KiB"}},
		{"absurd size", 2, run("in.txt", "--max-item", "1PB"), []string{"max-item", "use 1 to"}},
		{"no item at all", 2, run("in.txt", "--max-item", "0"), []string{"max-item 0", "use 1 to"}},
		{"no window", 2, run("in.txt", "--window", "0"), []string{"window 0", "use 1 to"}},
		{"no number", 2, run("in.txt", "--attempts", "many"), []string{"attempts", `"many"`}},
		{"no attempts", 2, run("in.txt", "--attempts", "-1"), []string{"attempts -1", "use 1 to 1000"}},
		{"negative expiry", 2, run("in.txt", "--expiry", "-5s"), []string{"expiry -5s", "use 1s to"}},
		{"negative grace", 2, run("in.txt", "--grace", "-5s"), []string{"grace -5s"}},
		{"negative call timeout", 2, run("in.txt", "--call-timeout", "-1h"), []string{"call-timeout -1h"}},
		{"negative backoff", 2, run("in.txt", "--backoff", "-1s"), []string{"backoff -1s"}},
		{"negative slots", 2, run("in.txt", "--slots", "-1"), []string{"slots -1", "use 1 to"}},
		{"absurd slots", 2, run("in.txt", "--slots", "100000"), []string{"slots 100000", "use 1 to"}},
		{"negative call items", 2, run("in.txt", "--call-items", "-1"), []string{"call-items -1", "use 0"}},
		{"a duration without a unit", 2, run("in.txt", "--expiry", "30"), []string{"expiry", `"30"`, "unit"}},
		{"a name that is none", 2, run("in.txt", "--name", "No Name"), []string{`"No Name"`, "lower-case letters, digits and dashes"}},
		{"a port that is none", 2, run("in.txt", "--ui-port", "99999"), []string{"--ui-port 99999", "65535"}},
		{"an environment without a name", 2, run("in.txt", "--env", "=x"), []string{"env has an entry without a name", "NAME=value"}},
		{"too many arguments", 2, []string{"status", "a", "b"}, []string{"status", "takes no more arguments than these: 'stint status JOB'"}},
		{"no job named", 2, []string{"stop"}, []string{"stop", "name one, or use --pool POOL or --all"}},
		{"a worker without a pool", 2, []string{"worker", "--exec", "cat"}, []string{"no pool given", "--pool NAME"}},
		{"a worker with a pool that is none", 2, []string{"worker", "--pool", "P?", "--exec", "cat"}, []string{`"P?"`, "lower-case letters, digits and dashes"}},
		{"a worker without a handler", 2, []string{"worker", "--pool", "p"}, []string{"--exec COMMAND"}},
		{"a worker that lends nothing", 2, []string{"worker", "--pool", "p", "--exec", "cat"}, []string{"no --allow given", "--allow all", "account"}},
		{"a worker that lends all and more", 2, []string{"worker", "--pool", "p", "--exec", "cat", "--allow", "all", "--allow", "in"}, []string{"allow all", "use it alone", "./all"}},
		{"a root that is empty", 2, []string{"worker", "--pool", "p", "--exec", "cat", "--allow", ""}, []string{`--allow ""`, "it is empty"}},
		{"an empty root for a run", 2, []string{"run", "in.txt", "--exec", "cat", "--allow", ""}, []string{`--allow ""`, "it is empty"}},
		{"no slots", 2, []string{"run", "in.txt", "--exec", "cat", "--slots", "0"}, []string{"--slots 0: use 1 to 1000"}},
		{"no calls at once", 2, []string{"run", "in.txt", "--exec", "cat", "--concurrency", "0"}, []string{"--concurrency 0: use 1 to 1000"}},
		{"less than no calls at once", 2, []string{"run", "in.txt", "--exec", "cat", "--concurrency", "-1"}, []string{"--concurrency", "use 1 to 1000, or auto"}},
		{"some calls at once", 2, []string{"run", "in.txt", "--exec", "cat", "--concurrency", "some"}, []string{"--concurrency", "use 1 to 1000, or auto"}},
		{"no time to get ready", 2, []string{"run", "in.txt", "--serve", "cat", "--ready", "0s"}, []string{"--ready 0s: use a duration above 0"}},
		{"no time to drain", 2, []string{"run", "in.txt", "--exec", "cat", "--drain", "0"}, []string{"--drain 0s: use a duration above 0"}},
		{"no time between TERM and KILL", 2, []string{"run", "in.txt", "--exec", "cat", "--kill-after", "0"}, []string{"--kill-after 0s: use a duration above 0, up to 15s"}},
		{"no time between TERM and KILL for a worker", 2, []string{"worker", "--pool", "p", "--allow", "all", "--exec", "cat", "--kill-after", "0s"}, []string{"--kill-after 0s: use a duration above 0, up to 15s"}},
		{"a port that is none", 2, []string{"run", "in.txt", "--exec", "cat", "--ui-port", "-1"}, []string{"--ui-port -1: a port is 1 to 65535"}},
		{"a server's port that is none", 2, []string{"server", "--port", "-1"}, []string{"--port -1: a port is 1 to 65535"}},
		{"stdin for a cluster", 2, []string{"start", "--pool", "p", "-", "-o", "out.txt"}, []string{"standard input", "name a file", "stint run"}},
		{"a job without a pool", 2, []string{"start", "in.txt", "-o", "out.txt"}, []string{"no pool given", "--pool NAME", "stint worker"}},
		{"a job without an output", 2, []string{"start", "in.txt", "--pool", "p"}, []string{"no output", "name a file"}},
		{"negative grace of a stop", 2, []string{"stop", "job", "--grace", "-1s"}, []string{"grace", "-1s", "0 or more"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.write("in.txt", "a\nb\n")
			require.NoError(t, os.Mkdir(b.path("empty"), 0o755))
			b.refused(c.code, c.args, c.says...)
			b.requireNotStarted()
		})
	}
}

func TestBadInput_OutputCannotBeWritten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		says []string
	}{
		{"directory missing", []string{"-o", "nowhere/out.txt"}, []string{"/nowhere/out.txt", "there is no directory", "make it first"}},
		{"directory of the parts missing", []string{"-o", "nowhere/out/"}, []string{"/nowhere/out/", "there is no directory", "make it first"}},
		{"a file in the place of the directory", []string{"-o", "in.txt/out.txt"}, []string{"/in.txt", "a file stands where a directory is needed"}},
		{"a directory in the place of the file", []string{"-o", "dir"}, []string{"/dir is a directory", "to keep the parts in it, or name a file"}},
		{"errors cannot be written", []string{"-o", "out.txt", "--errors", "nowhere/e.jsonl"}, []string{"/nowhere/e.jsonl", "there is no directory", "make it first"}},
		{"report cannot be written", []string{"-o", "out.txt", "--report", "nowhere/r.json"}, []string{"/nowhere/r.json", "there is no directory", "make it first"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.write("in.txt", "a\nb\n")
			require.NoError(t, os.Mkdir(b.path("dir"), 0o755))
			filter := b.script("filter", `echo run >> $BOX/witness; cat`)
			b.refused(starter.ExitFailed, append([]string{"run", "--exec", filter, "in.txt"}, c.args...), c.says...)
			require.Zero(t, b.lines("witness"), "no work is done for an output that cannot be written")
			require.Equal(t, "a\nb\n", b.read("in.txt"))
		})
	}
}

func TestBadInput_ItemsThatAreNone(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 2000)
	for _, c := range []struct {
		name, file, input, want string
		args                    []string
		item, offset            int64
		message, kept           string
	}{
		{"malformed JSON in the middle", "in.jsonl", "{\"a\":1}\n{\"a\":\n{\"a\":2}\n", "{\"a\":1}\n{\"a\":2}\n", nil, 1, 8, "not JSON", `"{\"a\":"`},
		{"a line over the limit", "in.txt", "a\n" + long + "\nb\n", "a\nb\n", []string{"--max-item", "1000"}, 1, 2, "is 2000 bytes long, over the limit of 1000 bytes (max-item)", "null"},
		{"a last line over the limit without its end", "in.txt", "a\n" + long, "a\n", []string{"--max-item", "1000"}, 1, 2, "over the limit", "null"},
		{"binary garbage in JSON", "in.jsonl", "1\n\x00\xff\xfe\x01\n2\n", "1\n2\n", nil, 1, 2, "not valid UTF-8", `{"base64":"AP/+AQ=="}`},
		{"a CSV record with a field too many", "in.csv", "a,b\n1,2\n1,2,3\n", `{"a":"1","b":"2"}` + "\n", nil, 1, 8, "has 3 fields, the header has 2", `"1,2,3"`},
		{"a CSV quote that is not closed", "in.csv", "a\n1\n\"2\n", `{"a":"1"}` + "\n", nil, 1, 4, "not closed", `"\"2"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.write(c.file, c.input)
			args := append([]string{"run", "--exec", "cat", c.file, "-o", "out"}, c.args...)
			out := b.stint(args...).exits(starter.ExitSomeFailed)
			require.Contains(t, out.stderr.String(), "first failed item: 1 (invalid)")
			require.Equal(t, c.want, b.read("out"))
			failures := b.failures("out.errors.jsonl")
			require.Len(t, failures, 1)
			f := failures[0]
			require.Equal(t, c.item, f.Item)
			require.Equal(t, c.offset, f.Offset)
			require.Equal(t, b.path(c.file), f.Source)
			require.Equal(t, job.KindInvalid, f.Kind)
			require.Contains(t, f.Error.Message, c.message)
			require.JSONEq(t, c.kept, string(f.Input))
		})
	}
}

func TestBadInput_GarbageEndsNoJob(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var mixed strings.Builder
	for part := range slices.Chunk([]byte(randomBytes(t, 200_000)), 10_000) {
		mixed.Write(part)
		mixed.WriteString("\n1\n") // a thousand failures before the first success would show that nothing works
	}
	garbage := mixed.String()
	b.write("in.jsonl", garbage)
	b.write("in.txt", garbage)
	b.stint("run", "--exec", "cat", "in.jsonl", "-o", "out.jsonl").exits(starter.ExitSomeFailed)
	b.stint("run", "--exec", "cat", "in.txt", "-o", "out.txt").exits(starter.ExitOK)
	requireSame(t, garbage, b.read("out.txt"))
}

func TestBadInput_WholeInputs(t *testing.T) {
	t.Parallel()
	truncated := gzipped(t, records(5000))
	for _, c := range []struct {
		name, file, input string
		says              []string
	}{
		{"gzip cut short", "in.jsonl.gz", truncated[:len(truncated)/2], []string{"/in.jsonl.gz", "unexpected EOF"}},
		{"no gzip at all", "in.jsonl.gz", records(10), []string{"/in.jsonl.gz", "gzip"}},
		{"no zstandard at all", "in.jsonl.zst", records(10), []string{"/in.jsonl.zst"}},
		{"an extension that says nothing", "in.data", "a\n", []string{"in.data", `its extension is ".data"`, "--format jsonl, json, csv, tsv, text or text0"}},
		{"a header that is none", "in.csv", "a,a\n1,2\n", []string{"/in.csv", "CSV header", "give each its own name"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.write(c.file, c.input)
			b.refused(starter.ExitFailed, []string{"run", "--exec", "cat", c.file, "-o", "out.txt"}, c.says...)
		})
	}
}

func TestBadInput_EmptyFile(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"in.txt", "in.jsonl", "in.csv", "in.jsonl.gz"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			content := ""
			if strings.HasSuffix(file, ".gz") {
				content = gzipped(t, "")
			}
			b.write(file, content)
			filter := b.script("filter", `echo run >> $BOX/witness; cat`)
			c := b.stint("run", "--exec", filter, file, "-o", "out.txt").exits(starter.ExitOK)
			require.Contains(t, c.stderr.String(), "completed: 0 items ok, 0 failed")
			require.Empty(t, b.read("out.txt"))
			require.Zero(t, b.lines("witness"))
		})
	}
}

func TestBadInput_InputThatChangesWhileItIsRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(b *box) error
		says   string
	}{
		{"shrinks", func(b *box) error { return os.Truncate(b.path("in.txt"), 100) }, "now has 100 bytes"},
		{"grows", func(b *box) error { b.write("in.txt", numbers(5000)); return nil }, "now has 40000 bytes"},
		{"is rewritten", func(b *box) error {
			b.write("in.txt", strings.ReplaceAll(numbers(4000), "1", "7"))
			return os.Chtimes(b.path("in.txt"), time.Time{}, time.Now().Add(time.Hour))
		}, "last modified"},
		{"is removed", func(b *box) error { return os.Remove(b.path("in.txt")) }, "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.write("in.txt", numbers(4000))
			line := []string{"run", "--exec", b.gated(), "in.txt", "-o", "out.txt", "--batch-items", "1000"}
			running := b.start(line...)
			eventually(t, "the filter", func() bool { return b.lines("started") > 0 })
			require.NoError(t, c.change(b))
			b.open()
			running.exits(starter.ExitFailed)
			require.Contains(t, running.stderr.String(), b.path("in.txt"))
			require.Contains(t, running.stderr.String(), c.says)
			b.requireNoOutput()
		})
	}
}

func TestBadInput_ServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, never answers
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	closed := closedAddress(t)
	for _, line := range [][]string{
		{"start", "--pool", "p", "in.txt", "-o", "out.txt"},
		{"worker", "--pool", "p", "--exec", "cat", "--allow", "all", "--wait-for-server", "0"},
		{"list"}, {"status", "job"}, {"watch", "job"}, {"results", "job"}, {"stop", "job"},
	} {
		t.Run(line[0], func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.write("in.txt", "a\n")
			b.refused(starter.ExitFailed, append(line, "--address", closed), closed, "no Temporal server answers", "stint server", "--address", "TEMPORAL_ADDRESS")
			b.env = append(b.env, "TEMPORAL_ADDRESS="+closed)
			b.refused(starter.ExitFailed, line, closed, "no Temporal server answers")
			if line[0] == "list" || line[0] == "worker" { // each takes its time
				b.refused(starter.ExitFailed, append(line, "--address", listener.Addr().String()), listener.Addr().String(), "stint server")
			}
		})
	}
}

// freeAddress is an address at which nobody listens, for a server of the test.
func freeAddress(t *testing.T) string {
	t.Helper()
	for {
		port := lowPorts + (int64(os.Getpid())+lowPort.Add(1))%(1<<13)
		address := net.JoinHostPort("127.0.0.1", strconv.FormatInt(port, 10))
		listener, err := net.Listen("tcp", address)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		require.NoError(t, err)
		require.NoError(t, listener.Close())
		return address
	}
}

// lowPorts are below those that the system gives to whoever asks for any: nobody gets one by chance before it is used.
// No two tests of this process get the same.
const lowPorts = 20_000

var lowPort atomic.Int64
