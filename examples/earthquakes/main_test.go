package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// runProgram runs this program, arguments and all, against a server of its own. It returns the
// results and what the program says.
func runProgram(t *testing.T, args ...string) (results []Nearest, said string) {
	t.Helper()
	output := filepath.Join(t.TempDir(), "nearest.jsonl")
	var stdout bytes.Buffer
	require.NoError(t, run(t.Context(), setup(t), append([]string{"-o", output}, args...), &stdout))
	lines, err := os.ReadFile(output)
	require.NoError(t, err)
	for line := range bytes.Lines(lines) {
		var n Nearest
		require.NoError(t, json.Unmarshal(line, &n), "%s", line)
		results = append(results, n)
	}
	return results, stdout.String()
}

func TestEarthquakes(t *testing.T) {
	t.Parallel()
	all, said := runProgram(t)
	require.Contains(t, said, "earthquakes: completed, 1,707 events ok, 28 of them no earthquakes, 0 failed\n")
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
	all, said := runProgram(t, input)
	require.Contains(t, said, "earthquakes: completed, 2 events ok, 1 of them no earthquakes, 2 failed\n")
	require.Contains(t, said, "first failed event: ")
	require.Equal(t, []Nearest{{ID: "a", Airport: "LAX", DistanceKM: 38.2}}, all)
}
