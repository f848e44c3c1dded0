package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	cmdline "github.com/stint-run/stint/internal/run/command"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/starter"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
)

// command runs a command of this program, with env as its environment if that is not empty.
func command(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	var out, errs bytes.Buffer
	code = starter.Execute(t.Context(), starter.Program{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Env: env, Dir: dir, Exit: os.Exit,
		Handler: worker.Each(Assess), Options: starter.Options{Name: "birdstrikes"},
	}, args)
	return code, out.String(), errs.String()
}

// goHandler has this program run the input, with everything embedded, and returns the results and
// what it says. It must exit with the code.
func goHandler(t *testing.T, wantCode int, input string) (results []byte, said string) {
	t.Helper()
	output := filepath.Join(t.TempDir(), "risk.jsonl")
	code, _, said := command(t, nil, "run", input, "-o", output, "--state", t.TempDir(), "--ui-port", "0")
	require.Equal(t, wantCode, code, said)
	results, err := os.ReadFile(output)
	require.NoError(t, err)
	return results, said
}

// execFilter runs the command of the README, with other inputs and further arguments if there are
// any, and returns its results.
func execFilter(t *testing.T, wantCode int, inputs []string, args ...string) []byte {
	t.Helper()
	argv := readmeCommand(t, "stint run ")
	if inputs != nil {
		at := len(argv) - 3 // INPUT -o OUTPUT
		argv = append(argv[:at:at], append(inputs, argv[at+1:]...)...)
	}
	dir := t.TempDir()
	output := filepath.Join(dir, "risk.jsonl")
	argv[len(argv)-1] = output
	argv = append(argv, "--quiet", "--ui-port", "0", "--state", filepath.Join(dir, "state"))
	var stderr bytes.Buffer
	wd, err := os.Getwd()
	require.NoError(t, err)
	code := starter.Execute(t.Context(), starter.Program{
		Stdin: strings.NewReader(""), Stdout: &stderr, Stderr: &stderr, Env: os.Environ(), Dir: wd, Exit: os.Exit,
	}, append(argv[1:], args...))
	require.Equal(t, wantCode, code, stderr.String())
	results, err := os.ReadFile(output)
	require.NoError(t, err)
	return results
}

// readmeCommand returns the command in the README that begins with prefix, as a shell splits it.
func readmeCommand(t *testing.T, prefix string) []string {
	t.Helper()
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for line := range strings.Lines(string(readme)) {
		command, isCommand := strings.CutPrefix(strings.TrimSpace(line), "$ ")
		if isCommand && strings.HasPrefix(command, prefix) {
			argv, err := cmdline.Split(command)
			require.NoError(t, err)
			return argv
		}
	}
	require.Failf(t, "no such command in the README", "%q", prefix)
	return nil
}

// parse reads results, one JSON object a line.
func parse(t *testing.T, results []byte) []Assessment {
	t.Helper()
	var all []Assessment
	for line := range bytes.Lines(results) {
		var a Assessment
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		require.NoError(t, decoder.Decode(&a), "%s", line)
		all = append(all, a)
	}
	return all
}

func TestGoHandlerAndExecFilter(t *testing.T) {
	t.Parallel()
	results, said := goHandler(t, starter.ExitOK, filepath.Join("..", "data", "birdstrikes.csv"))
	require.Contains(t, said, ": completed: 10,000 items ok, 0 failed in ")

	all := parse(t, results)
	require.Len(t, all, 10_000)
	number, cost := map[Risk]int{}, map[Risk]uint64{}
	for _, a := range all {
		number[a.Risk]++
		cost[a.Risk] += a.TotalCost
	}
	require.Equal(t, map[Risk]int{Severe: 322, High: 794, Moderate: 1766, Low: 7118}, number)
	require.Equal(t, map[Risk]uint64{Severe: 38_499_469, High: 2_045_807, Moderate: 0, Low: 0}, cost)

	require.Equal(t, Assessment{"BARKSDALE AIR FORCE BASE ARPT", "1990-01-08", 0, Moderate}, all[0], "a large bird")
	require.Equal(t, Assessment{"NEW ORLEANS INTL", "1990-01-11", 0, Severe}, all[3], "substantial damage")
	require.Equal(t, Assessment{"ATLANTIC CITY INTL", "1990-09-26", 23_656, High}, all[299], "a class C mishap")
	require.Equal(t, Assessment{"CHARLESTON AFB/INTL ARPT", "2002-06-29", 636_405, Severe}, all[9881], "a class B mishap")
	require.Equal(t, Assessment{"GREATER PITTSBURGH", "2002-07-25", 0, Moderate}, all[9999], "the last one")

	require.Equal(t, string(results), string(execFilter(t, starter.ExitOK, nil)), "the filter gives the same")
}

func TestRecordsThatCannotBeJudgedFailAlone(t *testing.T) {
	t.Parallel()
	const header = "Airport Name,Effect Amount of damage,Flight Date,Phase of flight,Wildlife Size,Cost Other,Cost Repair\n"
	input := filepath.Join(t.TempDir(), "strikes.csv")
	require.NoError(t, os.WriteFile(input, []byte(header+
		"\"A \"\"B\"\" \\ é\",None,1990-01-08,Parked,Small,1,2\n"+
		"X,Shattered,1990-01-08,Parked,Small,0,0\n"+
		"Y,None,1990-01-08,Climb,Medium,0,0\n"+
		"Z,None,1990-01-08,Climb,Medium,0,much\n"), 0o600))

	fromGo, said := goHandler(t, starter.ExitSomeFailed, input)
	require.Contains(t, said, "2 items ok, 2 failed in ")
	require.Contains(t, said, "\n  first failed item: ")
	require.Equal(t, []Assessment{{`A "B" \ é`, "1990-01-08", 3, High}, {"Y", "1990-01-08", 0, Moderate}}, parse(t, fromGo))

	errorFile := filepath.Join(t.TempDir(), "errors.jsonl")
	fromExec := execFilter(t, starter.ExitSomeFailed, []string{input}, "--errors", errorFile, "--attempts", "1", "--backoff", "1ms")
	require.Equal(t, string(fromGo), string(fromExec))
	failures, err := os.ReadFile(errorFile)
	require.NoError(t, err)
	var first job.Failure
	require.NoError(t, json.NewDecoder(bytes.NewReader(failures)).Decode(&first))
	require.Equal(t, "exit 1: unknown damage \"Shattered\"", first.Error.Message)
	require.Contains(t, string(failures), `no amount: \"much\"`)
}

// TestGoHandlerContinuesAnEarlierJob: on a cluster a job that was started before there was a worker
// continues with it, and one that has ended is not run again without --fresh.
func TestGoHandlerContinuesAnEarlierJob(t *testing.T) {
	t.Parallel()
	env := setup(t)
	output := filepath.Join(t.TempDir(), "risk.jsonl")
	start := []string{"start", "--name", "strikes", "--pool", "birdstrikes", filepath.Join("..", "data", "birdstrikes.csv"), "-o", output}
	code, _, said := command(t, env, start...)
	require.Equal(t, starter.ExitOK, code, said)
	serve(t, env, "birdstrikes")
	code, first, said := command(t, env, "watch", "strikes", "--json")
	require.Equal(t, starter.ExitOK, code, said)
	require.NoError(t, os.Remove(output))
	code, _, said = command(t, env, start...)
	require.Equal(t, starter.ExitFailed, code, said)
	code, second, said := command(t, env, "watch", "strikes", "--json")
	require.Equal(t, starter.ExitOK, code, said)
	require.Equal(t, first, second)
	require.NoFileExists(t, output, "the job had ended: nothing was run again")
	code, _, said = command(t, env, append(start, "--fresh", "--wait")...)
	require.Equal(t, starter.ExitOK, code, said)
	require.FileExists(t, output)
}
