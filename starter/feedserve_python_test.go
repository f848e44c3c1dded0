package starter_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stint-run/stint/internal/test/pytest"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// useFeed uses a feed as a program in Python does. Its pool doubles the list's element, fails over 7 and drops nothing.
const useFeed = `
import itertools, sys, time
import stint_client
from stint_client import Feed

feed = Feed(sys.argv[1], "risk")


def feed_left(every):
    """How many items the stream that was left had put."""
    return sum(1 for (result, _) in every if isinstance(result[0], int) and result[0] >= 10_000)


assert feed.call(21) == [21, 21], "call"
assert feed.call("<b>&</b>") == ["<b>&</b>"] * 2, "items arrive as they are put"
assert feed.put(1, 2, 3, wait=10) == 3, "put"
n = 0
for item, result in feed.stream(range(100, 1100), with_items=True):
    assert item == 100 + n and result == [item, item], (n, item, result)
    n += 1
assert n == 1000, n
results = list(feed.stream([5, "bad", 6], errors="yield"))
assert results[0] == [5, 5] and results[2] == [6, 6], results
assert isinstance(results[1], stint_client.ItemError), results
left = feed.stream(itertools.count(10_000))
assert list(itertools.islice(left, 34)) == [[i, i] for i in range(10_000, 10_034)], "left early"
left.close()
try:
    feed.put("x" * 10_000_000)
    raise AssertionError("too large")
except stint_client.TooLargeError:
    pass
deadline = time.monotonic() + 60
while not feed.state()["idle"]:  # what the stream that was left had put is done first: a call does not wait for room
    assert time.monotonic() < deadline, feed.state()
    time.sleep(0.05)
assert feed.call("x" * 100_000) == ["x" * 100_000] * 2, "a large result"
assert list(feed.stream(["y" * 50_000] * 10)) == [["y" * 50_000] * 2] * 10, "large results"
assert feed.reset()["session"] == 2, "reset"
assert feed.state()["session"] == 2, "state"
try:
    Feed(sys.argv[1], "other").call(1)
    raise AssertionError("unknown")
except stint_client.NotFoundError:
    pass
assert feed.call(77) == [77, 77], "the second session"
feed.close()
feed.close()
second = list(feed.results(session=2))
assert [result for result, _ in second] == [[77, 77]], second
every = list(feed.results())
assert len(every) == 2 + 3 + 1000 + 2 + feed_left(every) + 11 + 1, len(every)
assert list(feed.results(cursor=every[-2][1])) == every[-1:], "from a cursor"
assert list(feed.results(cursor=every[9][1], follow=False)) == every[10:], "from a cursor"
try:
    list(feed.results(session=1, cursor=every[0][1]))
    raise AssertionError("another session's cursor")
except stint_client.InvalidRequestError:
    pass
try:
    list(Feed(sys.argv[1], "other").results())
    raise AssertionError("unknown")
except stint_client.NotFoundError:
    pass
try:
    feed.put(1)
    raise AssertionError("closed")
except stint_client.ClosedError:
    print("all is well")
`

// A program in Python uses a feed through the gateway.
func TestGateway_Python(t *testing.T) {
	t.Parallel()
	python := pytest.Find(t)
	b := setup(t)
	d := b.gateway("--allow", b.path("."))
	run := d.feed("risk", "pairs", nil)
	b.worker("pairs", "--call-items", "1", "--exec", b.script("pairs", `read -r x; case "$x" in *bad*|*u003c*) exit 3;; esac; echo "[$x,$x]"`))
	script := b.write("use.py", useFeed)
	module, err := filepath.Abs("../python")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, script, d.url)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+module, "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "all is well\n", string(out))
	report, err := run.Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, job.Completed, report.State)
	require.EqualValues(t, 1, report.Failed)
	d.command.signals <- syscall.SIGTERM
	d.command.exits(starter.ExitOK)
}
