package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAssess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		in   Strike
		want Risk
		cost uint64
	}{
		{"nothing happened", Strike{Damage: NoDamage, Size: "Small", Phase: "Approach"}, Low, 0},
		{"medium bird in approach", Strike{Damage: NoDamage, Size: "Medium", Phase: "Approach"}, Low, 0},
		{"medium bird in climb", Strike{Damage: NoDamage, Size: "Medium", Phase: "Climb"}, Moderate, 0},
		{"medium bird at take-off", Strike{Damage: NoDamage, Size: "Medium", Phase: "Take-off run"}, Moderate, 0},
		{"large bird on the ground", Strike{Damage: NoDamage, Size: "Large", Phase: "Taxi"}, Moderate, 0},
		{"one dollar", Strike{Damage: NoDamage, Size: "Small", Other: 1}, High, 1},
		{"minor damage", Strike{Damage: Minor}, High, 0},
		{"medium damage", Strike{Damage: Medium}, High, 0},
		{"class C", Strike{Damage: ClassC, Repair: 99_999}, High, 99_999},
		{"dear, both costs together", Strike{Damage: NoDamage, Repair: 60_000, Other: 40_000}, Severe, 100_000},
		{"class B", Strike{Damage: ClassB}, Severe, 0},
		{"class A", Strike{Damage: ClassA}, Severe, 0},
		{"substantial damage", Strike{Damage: Substantial}, Severe, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := Assess(t.Context(), c.in)
			require.NoError(t, err)
			require.Equal(t, Assessment{TotalCost: c.cost, Risk: c.want}, got)
		})
	}
}

// TestFilterInEveryAwk runs the filter alone in all kinds of awk that are at hand.
func TestFilterInEveryAwk(t *testing.T) {
	t.Parallel()
	lines := `{"Airport Name":"A \"B\\\" é","Effect Amount of damage":"None","Flight Date":"","Phase of flight":"Climb","Wildlife Size":"Medium","Cost Other":"1","Cost Repair":"12345678901"}
{"Airport Name":"\\","Effect Amount of damage":"Minor","Flight Date":"1990-01-08","Phase of flight":"Climb","Wildlife Size":"Large","Cost Other":"0","Cost Repair":"0"}
`
	var want bytes.Buffer
	encoder := json.NewEncoder(&want)
	for line := range bytes.Lines([]byte(lines)) {
		var s Strike
		require.NoError(t, json.Unmarshal(line, &s))
		a, err := Assess(t.Context(), s)
		require.NoError(t, err)
		require.NoError(t, encoder.Encode(a))
	}
	for _, argv := range [][]string{{"awk"}, {"mawk"}, {"gawk"}, {"gawk", "--posix"}, {"original-awk"}, {"busybox", "awk"}} {
		t.Run(strings.Join(argv, " "), func(t *testing.T) {
			t.Parallel()
			program, err := exec.LookPath(argv[0])
			if err != nil {
				t.Skip(err)
			}
			cmd := exec.CommandContext(t.Context(), program, append(argv[1:], "-f", "risk.awk")...)
			cmd.Stdin = bytes.NewReader([]byte(lines))
			got, err := cmd.Output()
			require.NoError(t, err)
			require.Equal(t, want.String(), string(got))
		})
	}
}
