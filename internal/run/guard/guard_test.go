package guard

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServe_KillsWhatIsLeft(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, sent string
		killed     []int
	}{
		{"nothing", "", nil},
		{"groups left", "+10\n+11\n", []int{10, 11}},
		{"a group taken back", "+10\n+11\n-10\n", []int{11}},
		{"a group that is added again", "+10\n-10\n+10\n", []int{10}},
		{"a group sent twice", "+10\n+10\n", []int{10}},
		{"a line cut short", "+10\n+1", []int{10}},
		{"a line cut short after its digits", "+10\n+11", []int{10}},
		{"groups that are everybody or init", "+0\n+1\n+-5\n", nil},
		{"garbage", "hello\n\n+\n-\n+x\n10\n", nil},
		{"dismissed", "+10\n.\n", nil},
		{"a dismissal cut short", "+10\n.", []int{10}},
		{"taken back without having come", "-10\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var killed []int
			serve(strings.NewReader(c.sent), func(group int) { killed = append(killed, group) })
			slices.Sort(killed)
			require.Equal(t, c.killed, killed)
		})
	}
}
