package starter

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// parseCPUs reads lists of CPUs: "0-3,6" is one for all slots, "0;1;2-3" one for each. They come
// out sorted and without repetitions.
func parseCPUs(text string) ([][]int, error) {
	if text == "" {
		return nil, nil
	}
	var lists [][]int
	for list := range strings.SplitSeq(text, ";") {
		var cpus []int
		for part := range strings.SplitSeq(list, ",") {
			first, last, err := parseRange(strings.TrimSpace(part))
			if err != nil {
				return nil, err
			}
			for cpu := first; cpu <= last; cpu++ {
				cpus = append(cpus, cpu)
			}
		}
		slices.Sort(cpus)
		lists = append(lists, slices.Compact(cpus))
	}
	return lists, nil
}

// maxCPU is above the number of any CPU.
const maxCPU = 1 << 16

func parseRange(text string) (first, last int, err error) {
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	first, err = strconv.Atoi(from)
	if err == nil {
		last, err = strconv.Atoi(to)
	}
	if err != nil || first < 0 || last < first || last > maxCPU {
		return 0, 0, fmt.Errorf("%q: use numbers and ranges such as 0-3,6, and semicolons between slots", text)
	}
	return first, last, nil
}
