package text

import (
	"slices"
	"strings"
)

// Spark draws values, 0 or more, as a line of bars that are as high as they are, the highest one a whole character; it is
// empty if no value is above 0. A value of 0 is a dot.
func Spark(values []float64) string {
	most := 0.0
	if len(values) > 0 {
		most = slices.Max(values)
	}
	if most <= 0 {
		return ""
	}
	const bars = "▁▂▃▄▅▆▇█"
	heights := []rune(bars)
	var b strings.Builder
	for _, v := range values {
		if v <= 0 {
			b.WriteRune('·')
			continue
		}
		b.WriteRune(heights[min(len(heights)-1, int(v/most*float64(len(heights))))])
	}
	return b.String()
}
