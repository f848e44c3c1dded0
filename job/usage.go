package job

import (
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/stint-run/stint/internal/base/text"
)

// Money is an amount in millionths of a millionth of a unit of whatever currency the user's prices are in: 0 … 9,223,372
// units, at which sums stay. People write it as units ("25", "0.15"), and so does JSON.
type Money int64

// mostMoney is the largest amount, in units.
const mostMoney = 9_223_372

// moneyDigits are the digits behind the point that an amount may have.
const moneyDigits = 12

// Set reads an amount as people write it; "none" is 0. After an error it is 0.
func (m *Money) Set(written string) error {
	*m = 0
	if written == noneText {
		return nil
	}
	bad := fmt.Errorf("amount %q: write units of money as 25 or 0.15, up to 9223372, with up to %d digits behind the point", written, moneyDigits)
	whole, part, point := strings.Cut(written, ".")
	if len(part) > moneyDigits || point && part == "" || len(whole) == 0 {
		return bad
	}
	digits := whole + part + strings.Repeat("0", moneyDigits-len(part))
	amount, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return bad
	}
	*m = Money(amount)
	return nil
}

// String returns the amount in units.
func (m Money) String() string {
	s := fmt.Sprintf("%0*d", moneyDigits+1, max(0, int64(m)))
	whole, part := s[:len(s)-moneyDigits], strings.TrimRight(s[len(s)-moneyDigits:], "0")
	if part == "" {
		return whole
	}
	return whole + "." + part
}

// MarshalJSON writes the amount as a number of units.
func (m Money) MarshalJSON() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalJSON reads a number of units, which is rounded, and at most the largest amount, or a text as [Money.Set] does.
func (m *Money) UnmarshalJSON(data []byte) error {
	written := string(data)
	if written == "null" {
		return nil
	}
	if number, err := strconv.ParseFloat(written, 64); err == nil && number >= 0 {
		_, part, _ := strings.Cut(written, ".")
		switch {
		case number >= mostMoney:
			*m = math.MaxInt64
			return nil
		case len(part) > moneyDigits || strings.ContainsAny(written, "-eE"): // as programs write what they have computed
			written = strconv.FormatFloat(math.Abs(number), 'f', moneyDigits, 64)
		}
	}
	if len(written) > 0 && written[0] == '"' {
		if err := json.Unmarshal(data, &written); err != nil {
			return err
		}
	}
	return m.Set(written)
}

// Of returns what so many of something cost of which a million costs the amount.
func (m Money) Of(n int64) Money {
	if n <= 0 || m <= 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(m), uint64(n))
	if high >= perPrice {
		return math.MaxInt64
	}
	cost, _ := bits.Div64(high, low, perPrice)
	return Money(min(cost, math.MaxInt64))
}

// perPrice is how many tokens a price is for.
const perPrice = 1_000_000

// Plus returns the sum, which stays at the largest amount.
func (m Money) Plus(o Money) Money { return Money(plus(int64(m), int64(o))) }

// plus returns a sum, or the largest number if that is larger.
func plus(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Usage is what calls have used of services that are paid for, such as models.
type Usage struct {
	TokensIn     int64 `json:"tokens_in,omitempty"`     // of requests, with the cached ones
	TokensOut    int64 `json:"tokens_out,omitempty"`    // of answers
	TokensCached int64 `json:"tokens_cached,omitempty"` // of TokensIn, those that the service had in its cache
	Cost         Money `json:"cost,omitempty"`
}

// Add adds what others have used.
func (u *Usage) Add(o Usage) {
	u.TokensIn = plus(u.TokensIn, o.TokensIn)
	u.TokensOut = plus(u.TokensOut, o.TokensOut)
	u.TokensCached = plus(u.TokensCached, o.TokensCached)
	u.Cost = u.Cost.Plus(o.Cost)
}

// Per returns the n-th part, rounded up; of nothing if n is not above 0.
func (u Usage) Per(n int64) Usage {
	if n <= 0 {
		return Usage{}
	}
	part := func(of int64) int64 { return of/n + min(1, of%n) }
	return Usage{TokensIn: part(u.TokensIn), TokensOut: part(u.TokensOut), TokensCached: part(u.TokensCached), Cost: Money(part(int64(u.Cost)))}
}

// Tokens returns those of requests and answers.
func (u Usage) Tokens() int64 { return plus(u.TokensIn, u.TokensOut) }

// IsZero reports whether nothing has been used.
func (u Usage) IsZero() bool { return u == Usage{} }

// String describes the usage: "1,200 tokens in, 800 of them cached, 300 out, cost 0.25".
func (u Usage) String() string {
	var parts []string
	if u.Tokens() > 0 {
		parts = append(parts, text.Thousands(u.TokensIn)+" tokens in")
		if u.TokensCached > 0 {
			parts = append(parts, text.Thousands(u.TokensCached)+" of them cached")
		}
		parts = append(parts, text.Thousands(u.TokensOut)+" out")
	}
	if u.Cost > 0 {
		parts = append(parts, "cost "+u.Cost.String())
	}
	return strings.Join(parts, ", ")
}
