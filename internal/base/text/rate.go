package text

import (
	"math"
	"strconv"
)

// Rate writes a number with its first two digits, as 0.12, 3.4, 56 or 1,200; 0 if it is not positive.
func Rate(v float64) string {
	if v <= 0 {
		return "0"
	}
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'e', 1, 64), 64) // it has just been written
	if v >= 10 {
		return Thousands(int64(math.Round(v)))
	}
	return strconv.FormatFloat(v, 'f', 1-int(math.Floor(math.Log10(v))), 64)
}
