package guard

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServe_KillsWhatIsLeft(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, sent string
		left       []int
		broken     error
		killed     []int
	}{
		{name: "nothing"},
		{name: "groups left", left: []int{10, 11}, killed: []int{10, 11}},
		{name: "a table that cannot be read", left: []int{10}, broken: errors.New("broken")},
		{name: "garbage", sent: "hello\n\n=\n+x\n10\n", left: []int{10}, killed: []int{10}},
		{name: "dismissed", sent: ".\n", left: []int{10}},
		{name: "a dismissal cut short", sent: ".", left: []int{10}, killed: []int{10}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			left := map[int]struct{}{}
			for _, group := range c.left {
				left[group] = struct{}{}
			}
			var killed []int
			serve(strings.NewReader(c.sent), func() (map[int]struct{}, error) { return left, c.broken }, func(group int) { killed = append(killed, group) })
			slices.Sort(killed)
			require.Equal(t, c.killed, killed)
		})
	}
}
