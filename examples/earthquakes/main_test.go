package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runProgram has this program run the inputs, with everything embedded, and returns the results and
// what it says. It must exit with the code.
func runProgram(t *testing.T, wantCode int, inputs ...string) (results []Nearest, said string) {
	t.Helper()
	output := filepath.Join(t.TempDir(), "nearest.jsonl")
	dir, err := os.Getwd()
	require.NoError(t, err)
	var stderr bytes.Buffer
	code := starter.Execute(t.Context(), starter.Program{
		Stdin: strings.NewReader(""), Stdout: &stderr, Stderr: &stderr, Env: os.Environ(), Dir: dir, Exit: os.Exit,
		Handler: handler, Options: starter.Options{Name: "earthquakes"},
	}, append([]string{"run", "-o", output, "--state", t.TempDir(), "--ui-port", "0"}, inputs...))
	require.Equal(t, wantCode, code, stderr.String())
	lines, err := os.ReadFile(output)
	require.NoError(t, err)
	for line := range bytes.Lines(lines) {
		var n Nearest
		require.NoError(t, json.Unmarshal(line, &n), "%s", line)
		results = append(results, n)
	}
	return results, stderr.String()
}

func TestEarthquakes(t *testing.T) {
	t.Parallel()
	all, said := runProgram(t, starter.ExitOK, filepath.Join("..", "data", "earthquakes.jsonl"))
	require.Contains(t, said, ": completed: 1,707 items ok, 0 failed in ")
	require.Contains(t, said, "  28 items without a result\n")
	require.Len(t, all, 1679)

	number := map[string]int{}
	for _, n := range all {
		number[n.Airport]++
	}
	require.Equal(t, map[string]int{
		"SFO": 504, "SEA": 338, "SAN": 289, "LAS": 127, "HNL": 119, "MIA": 83, "LAX": 74, "SLC": 62, "BOS": 27,
		"PDX": 25, "DFW": 12, "FLL": 7, "ATL": 6, "IAH": 3, "DEN": 3,
	}, number)
	require.Equal(t, nearest("ci37868143", "4km W of Castaic, CA", 2, "LAX", 65.8), all[0])
	require.Equal(t, nearest("uw61345682", "37km NNE of Amboy, Washington", 0.31, "PDX", 75.1), all[1678], "the last one")
	require.Contains(t, all, nearest("us1000chhc", "22km NNE of Hualian, Taiwan", 6.4, "HNL", 8131.4), "the strongest")
	require.Contains(t, all, nearest("us1000ceuw", "Southeast Indian Ridge", 5.1, "HNL", 13775.4), "the farthest")
}

func nearest(id, place string, magnitude float64, airport string, km float64) Nearest {
	return Nearest{ID: id, Place: place, Magnitude: &magnitude, Airport: airport, DistanceKM: km}
}

func TestEventsThatCannotBeLocatedFailAlone(t *testing.T) {
	t.Parallel()
	input := filepath.Join(t.TempDir(), "events.jsonl")
	require.NoError(t, os.WriteFile(input, []byte(
		`{"id":"a","properties":{"type":"earthquake","mag":null,"place":null},"geometry":{"coordinates":[-118,34,9]}}
{"id":"b","properties":{"type":"earthquake"},"geometry":null}
{"id":"c","properties":{"type":"earthquake"},"geometry":{"coordinates":[-118,134,9]}}
{"id":"d","properties":{"type":"quarry blast"},"geometry":null}
`), 0o600))
	all, said := runProgram(t, starter.ExitSomeFailed, input)
	require.Contains(t, said, ": completed: 2 items ok, 2 failed in ")
	require.Contains(t, said, "  1 item without a result\n")
	require.Contains(t, said, "first failed item: ")
	require.Equal(t, []Nearest{{ID: "a", Airport: "LAX", DistanceKM: 38.2}}, all)
}
