package starter_test

import "testing"

// TestChaos_EachShort is a short round of TestChaos_Each.
func TestChaos_EachShort(t *testing.T) {
	t.Parallel()
	withstandEach(t, 2_000, 3)
}

// TestChaos_Each: whatever fails, each item has the result of its own command, once and in order.
func TestChaos_Each(t *testing.T) {
	t.Parallel()
	chaotic(t, func(t *testing.T) { withstandEach(t, 5_000, 15) })
}

// withstandEach is withstand for a command that is run for each item.
func withstandEach(t *testing.T, n, number int) {
	t.Helper()
	c := newChaos(t, n)
	c.batch = 20
	c.handler = []string{"--each", c.witness("sleep 0.02; "), "--stdin", "item"}
	c.flags = []string{"--item-attempts", "10", "--flatten"} // a command whose child is killed has failed
	c.begin(c.write("in.txt", numbers(n)), "out.txt")
	c.rage(c.choose(faults, number))
	c.end(func() string { return c.read("out.txt") })
}
