package job

import (
	"encoding/json"
	"testing"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stretchr/testify/require"
)

func TestRate_Set(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Rate{
		"250": 250_000, "0.5": 500, "250/s": 250_000, "90/m": 1500, "1000/h": 278, "0": 0, "none": 0, "0.001": 1, "1e3": 1_000_000,
		"1000000000": limits.MaxRate,
	} {
		var got Rate
		require.NoError(t, got.Set(text), text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "fast", "-1", "1/d", "1/", "NaN", "Inf", "1e10", "0.0001", "1 000"} {
		require.ErrorContains(t, new(Rate).Set(text), "rate", text)
	}
}

func TestRate_Text(t *testing.T) {
	t.Parallel()
	for rate, want := range map[Rate]string{0: "none", 1: "0.001", 1500: "1.5", 250_000: "250", 1_000: "1"} {
		require.Equal(t, want, rate.String())
		data, err := json.Marshal(rate)
		require.NoError(t, err)
		var back Rate
		require.NoError(t, json.Unmarshal(data, &back))
		require.Equal(t, rate, back)
	}
	var rate Rate
	require.NoError(t, json.Unmarshal([]byte(`"90/m"`), &rate))
	require.Equal(t, Rate(1500), rate)
	require.Error(t, json.Unmarshal([]byte(`"x"`), &rate))
	require.Error(t, json.Unmarshal([]byte(`-1`), &rate))
}

func TestTolerance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		t            Tolerance
		done, failed int64
		final, want  bool
	}{
		{"", 10, 10, true, false}, {"none", 10, 10, true, false},
		{"0", 1, 1, false, true}, {"0", 1, 0, true, false},
		{"100", 5000, 100, true, false}, {"100", 5000, 101, false, true},
		{"5%", 999, 999, false, false}, {"5%", 999, 50, true, true}, {"5%", 1000, 50, false, false}, {"5%", 1000, 51, false, true},
		{"0.1%", 10_000, 11, false, true}, {"100%", 5000, 5000, true, false},
		{"50%", 1_000_000_000_001, 500_000_000_000, true, false}, {"50%", 1_000_000_000_001, 500_000_000_001, true, true},
	} {
		require.Equal(t, c.want, c.t.Exceeded(c.done, c.failed, c.final), "%+v", c)
	}
	for _, bad := range []Tolerance{"-1", "many", "5 %", "101%", "0%", "-5%", "NaN%", "%", "1.5"} {
		require.ErrorContains(t, bad.Validate(), "invalid tolerance", string(bad))
	}
}

func TestParseSettings(t *testing.T) {
	t.Parallel()
	var s Settings
	err := s.Parse([]string{"window=16", "batch-items=0", "max-failed=5%", "rate=90/m"})
	require.NoError(t, err)
	window, items, most, rate := 16, int64(0), Tolerance("5%"), Rate(1500)
	require.Equal(t, Settings{Window: &window, BatchItems: &items, MaxFailed: &most, Rate: &rate}, s)
	var auto Settings
	err = auto.Parse([]string{"window=auto"})
	require.NoError(t, err)
	require.Zero(t, *auto.Window)
	for text, numbers := range map[string][2]int{"64": {64, 64}, "auto": {0, 0}, "auto (400)": {0, 400}} {
		require.Equal(t, text, limits.DescribeWindow(numbers[0], numbers[1]))
	}
	spec := valid().With(s)
	require.Equal(t, spec, valid().With(spec.Settings()))
	require.Equal(t, valid(), valid().With(Settings{}))
	err = new(Settings).Parse([]string{"window=0", "colour=red", "rate", "max-failed=x", "batch-items=-1", "rate=x"})
	for _, text := range []string{"window 0: use 1 to 10000, or auto", `"colour": unknown setting: use batch-items, deadline, max-cost, max-failed, max-tokens, priority, rate, rpm, tpm, window, or STAGE.window`, `"rate": write name=value`, `max-failed "x"`, "batch-items -1", `rate "x"`} {
		require.ErrorContains(t, err, text)
	}
}

func TestSpec_HookNames(t *testing.T) {
	t.Parallel()
	s := valid()
	s.Init = []string{"prepare", "models/load"}
	require.NoError(t, s.Validate())
	pool, name := s.HookOf("models/load")
	require.Equal(t, []string{"models", "load"}, []string{pool, name})
	pool, name = s.HookOf("prepare")
	require.Equal(t, []string{s.Pool, "prepare"}, []string{pool, name})
	for _, bad := range []string{"", "/x", "x/", "a b", "a/b/c"} {
		s.Cleanup = []string{bad}
		require.ErrorContains(t, s.Validate(), "hook", bad)
	}
}
