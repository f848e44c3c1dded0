package job

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Rate is a limit in thousandths of an item a second (workflows compute with integers). 0: no limit.
// People write it as items a second ("250", "0.5"), or in another unit
// ("250/s", "90/m", "1000/h"); in JSON it is a number of items a second, or such a text.
type Rate int64

// MaxRate is the highest limit that can be set: a billion items a second.
const MaxRate = Rate(1_000_000_000_000)

// Per returns the rate of that many items in d, at most [MaxRate]. It is 0 if either is 0 or less.
func Per(items int64, d time.Duration) Rate {
	if d <= 0 || items <= 0 {
		return 0
	}
	const most = int64(MaxRate)
	ms := max(1, d.Milliseconds())
	if items/ms >= most/1_000_000 {
		return MaxRate
	}
	if items >= most {
		return Rate(items / ms * 1_000_000) // precise enough, and within 64 bits
	}
	return Rate(max(1, items*1_000_000/ms))
}

// ParseRate reads a rate as people write it; "0" and "none" are no limit.
func ParseRate(text string) (Rate, error) {
	bad := fmt.Errorf("rate %q: write items a second as 250 or 0.5, or with a unit as 250/s, 90/m, 1000/h; 0 for no limit", text)
	if text == noneText {
		return 0, nil
	}
	number, unit, _ := strings.Cut(text, "/")
	seconds, ok := map[string]float64{"": 1, "s": 1, "m": 60, "h": 3600}[unit]
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || !ok || strings.HasSuffix(text, "/") || !(value >= 0) {
		return 0, bad
	}
	thousandths := value / seconds * 1000
	switch {
	case value == 0:
		return 0, nil
	case thousandths > float64(MaxRate) || thousandths < 0.5:
		return 0, fmt.Errorf("rate %q: use 0.001 to %d items a second", text, MaxRate/1000)
	}
	return Rate(float64(thousandths) + 0.5), nil
}

// String returns the rate in items a second, or "none".
func (r Rate) String() string {
	if r == 0 {
		return noneText
	}
	s := fmt.Sprintf("%d.%03d", r/1000, r%1000)
	return strings.TrimRight(strings.TrimRight(s, "0"), ".")
}

// MarshalJSON writes the rate as a number of items a second.
func (r Rate) MarshalJSON() ([]byte, error) {
	if r == 0 {
		return []byte("0"), nil
	}
	return []byte(r.String()), nil
}

// UnmarshalJSON reads a number of items a second, or a text as [ParseRate] does.
func (r *Rate) UnmarshalJSON(data []byte) error {
	text := string(data)
	if len(text) > 0 && text[0] == '"' {
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	}
	parsed, err := ParseRate(text)
	if err != nil {
		return err
	}
	*r = parsed
	return nil
}
