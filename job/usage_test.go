package job

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMoney_IsReadAndWritten(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]Money{
		"0": 0, "none": 0, "25": 25e12, "0.15": 15e10, "0.000000000001": 1, "9223372": 9223372e12, "007.50": 75e11,
	} {
		var m Money
		require.NoError(t, m.Set(written), written)
		require.Equal(t, want, m, written)
		var again Money
		require.NoError(t, again.Set(m.String()), written)
		require.Equal(t, m, again)
	}
	for _, bad := range []string{"", ".5", "1.", "-1", "1e3", "1,5", "0.0000000000001", "9223373", "1 ", "$5", "NaN", "+1", "1_0"} {
		m := Money(7)
		require.ErrorContains(t, m.Set(bad), "write units of money", bad)
		require.Zero(t, m, bad)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		m := Money(random.Int64N(math.MaxInt64))
		data, err := json.Marshal(m)
		require.NoError(t, err)
		var again Money
		require.NoError(t, json.Unmarshal(data, &again), "%s", data)
		require.Equal(t, m, again)
	}
	for data, want := range map[string]Money{`1e-05`: 1e7, `0.30000000000000004`: 3e11, `"0.25"`: 25e10, `1.5E2`: 150e12, `0.1234567890126`: 123456789013, `null`: 0, `-0.0`: 0, `1e7`: math.MaxInt64, `1e300`: math.MaxInt64} {
		var m Money
		require.NoError(t, json.Unmarshal([]byte(data), &m), data)
		require.Equal(t, want, m, data)
	}
	for _, bad := range []string{`-1`, `-1e-5`, `"x"`, `true`, `[]`} {
		require.Error(t, json.Unmarshal([]byte(bad), new(Money)), bad)
	}
}

// A token's share of a price is exact, however small, and nothing overflows.
func TestMoney_OfTokens(t *testing.T) {
	t.Parallel()
	price := func(text string) (m Money) {
		require.NoError(t, m.Set(text))
		return m
	}
	require.Equal(t, "0.000000075", price("0.075").Of(1).String())
	require.Equal(t, "0.15", price("0.15").Of(1_000_000).String())
	require.Equal(t, "1234.567891125", price("0.075").Of(16_460_905_215).String())
	require.Zero(t, price("0.15").Of(-5))
	require.Zero(t, Money(0).Of(5))
	require.Equal(t, Money(math.MaxInt64), price("9000000").Of(math.MaxInt64))
	require.Equal(t, Money(math.MaxInt64), Money(math.MaxInt64).Plus(1))
	var sum Usage
	for range 3 {
		sum.Add(Usage{TokensIn: 10, TokensOut: 2, TokensCached: 4, Cost: math.MaxInt64 / 2})
	}
	require.Equal(t, Usage{TokensIn: 30, TokensOut: 6, TokensCached: 12, Cost: math.MaxInt64}, sum)
	require.Equal(t, int64(36), sum.Tokens())
	require.Equal(t, "1,200 tokens in, 800 of them cached, 300 out, cost 0.25", Usage{TokensIn: 1200, TokensOut: 300, TokensCached: 800, Cost: 25e10}.String())
	require.Equal(t, "cost 2", Usage{Cost: 2e12}.String())
	require.Empty(t, Usage{}.String())
}

func TestSpec_LimitsOfUse(t *testing.T) {
	t.Parallel()
	good := valid()
	good.RequestRate, good.TokenRate, good.LimitBy, good.MaxCost, good.MaxTokens, good.Deadline = 100, 5000, "tenant.id", 1, 1, "90m"
	require.NoError(t, good.Validate())
	data, err := json.Marshal(good)
	require.NoError(t, err)
	var again Spec
	require.NoError(t, json.Unmarshal(data, &again))
	require.Equal(t, good, again)
	for field, change := range map[string]func(*Spec){
		"RequestRate": func(s *Spec) { s.RequestRate = -1 },
		"TokenRate":   func(s *Spec) { s.TokenRate = math.MaxInt64 },
		"MaxCost":     func(s *Spec) { s.MaxCost = -1 },
		"MaxTokens":   func(s *Spec) { s.MaxTokens = -1 },
		"LimitBy":     func(s *Spec) { s.LimitBy = "{tenant}" },
		"Deadline":    func(s *Spec) { s.Deadline = "tomorrow" },
	} {
		bad := valid()
		change(&bad)
		require.ErrorContains(t, bad.Validate(), field)
	}
	for _, bad := range []string{"0s", "-5m", "100000000h", "18:00", "2026-01-31"} {
		s := valid()
		s.Deadline = bad
		require.ErrorContains(t, s.Validate(), "Deadline", bad)
	}
}

func TestSettings_LimitsOfUse(t *testing.T) {
	t.Parallel()
	var s Settings
	require.NoError(t, s.Parse([]string{"rpm=500", "tpm=10/s", "max-cost=2.5", "max-tokens=1000", "deadline=2026-01-31T18:00:00Z"}))
	spec := valid().With(s)
	require.Equal(t, Rate(500_000), spec.RequestRate)
	require.Equal(t, Rate(600_000), spec.TokenRate)
	require.Equal(t, Money(25e11), spec.MaxCost)
	require.Equal(t, int64(1000), spec.MaxTokens)
	require.Equal(t, "2026-01-31T18:00:00Z", spec.Deadline)
	require.False(t, s.IsZero())
	var none Settings
	require.NoError(t, none.Parse([]string{"rpm=none", "tpm=0", "max-cost=none", "max-tokens=none", "deadline=none"}))
	require.Equal(t, valid(), spec.With(none))
	for text, want := range map[string]string{
		"rpm=fast": "rate", "max-cost=-1": "amount", "max-tokens=1.5": "max-tokens", "deadline=soon": "Deadline",
	} {
		require.ErrorContains(t, new(Settings).Parse([]string{text}), want)
	}
}

func TestRate_PerMinute(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Rate{"500": 500_000, "1": 1000, "10/s": 600_000, "1000/h": 16_666, "2/h": 33, "none": 0, "0": 0, "0.5": 500, "90/m": 90_000} {
		var r Rate
		require.NoError(t, r.SetPerMinute(text), text)
		require.Equal(t, want, r, text)
	}
	for _, bad := range []string{"", "fast", "-1", "1/", "1/d", "0.0001", "1e13", "NaN", "Inf"} {
		require.ErrorContains(t, new(Rate).SetPerMinute(bad), "rate", bad)
	}
}

func TestUsage_Per(t *testing.T) {
	t.Parallel()
	u := Usage{TokensIn: 10, TokensOut: 9, TokensCached: 1, Cost: 7}
	require.Equal(t, Usage{TokensIn: 4, TokensOut: 3, TokensCached: 1, Cost: 3}, u.Per(3))
	require.Zero(t, u.Per(0))
	require.Zero(t, Usage{}.Per(5))
}
