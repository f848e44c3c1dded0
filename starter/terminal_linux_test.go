package starter_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal with a command in it. Two system calls make one, so that no package is needed for it.
type terminal struct {
	*process
	pty *os.File

	read chan struct{} // closed once nobody has the terminal open any more

	mu     sync.Mutex
	screen screen
}

// inTerminal starts the stint program in a terminal of so many columns.
func (b *box) inTerminal(width int, args ...string) *terminal {
	b.t.Helper()
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = pty.Close() }) // perhaps a second time
	term := &terminal{pty: pty, read: make(chan struct{}), screen: newScreen(width)}
	var number int
	term.control(b.t, func(fd int) (err error) {
		if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		}
		return err
	})
	term.resize(b.t, width)
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(b.t, err)
	defer tty.Close()
	path, err := binary()
	require.NoError(b.t, err)
	cmd := exec.Command(path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	term.process = b.spawnCommand(cmd)
	go term.draw()
	b.t.Cleanup(func() {
		term.kill()
		<-term.read
	})
	return term
}

func (term *terminal) control(t *testing.T, do func(fd int) error) {
	t.Helper()
	raw, err := term.pty.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) { err = do(int(fd)) }))
	require.NoError(t, err)
}

// draw draws what comes until nobody has the terminal open any more.
func (term *terminal) draw() {
	defer close(term.read)
	piece := make([]byte, 64<<10)
	var left []byte
	for {
		n, err := term.pty.Read(piece)
		if err != nil {
			return
		}
		term.mu.Lock()
		left = term.screen.write(append(left, piece[:n]...))
		term.mu.Unlock()
	}
}

// resize gives the terminal another width, of which the kernel signals its processes.
func (term *terminal) resize(t *testing.T, width int) {
	t.Helper()
	term.mu.Lock()
	term.screen.resize(width)
	term.mu.Unlock()
	term.control(t, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: uint16(width)})
	})
}

// exits waits for the command's end, requires its exit code, and draws all that it has written.
func (term *terminal) exits(code int) {
	term.t.Helper()
	term.process.exits(code)
	<-term.read
}

func (term *terminal) press(t *testing.T, keys string) {
	t.Helper()
	_, err := term.pty.WriteString(keys)
	require.NoError(t, err)
}

// drawn are the lines that were drawn at the present width.
func (term *terminal) drawn() []string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return append([]string(nil), term.screen.drawn...)
}

// draws waits until so many lines with a text have been drawn, all of which must fit.
func (term *terminal) draws(what, text string, n int) {
	term.t.Helper()
	eventually(term.t, what, func() bool {
		require.Empty(term.t, term.faults())
		require.True(term.t, term.running(), term.shown())
		return strings.Count(strings.Join(term.drawn(), "\n"), text) >= n
	})
}

// shown is what stands on the screen, and what has left it at the top.
func (term *terminal) shown() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.screen.String()
}

// joined is what is shown, without the ends of rows that are full.
func (term *terminal) joined() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.screen.joined()
}

// faults are what no terminal should be sent.
func (term *terminal) faults() []string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return append([]string(nil), term.screen.faults...)
}

// 14.3: at any width of a real terminal the bar is one line that fits, with one percentage; after a resize, too; and it
// is gone when the summary comes.
func TestTerminal_BarFits(t *testing.T) {
	t.Parallel()
	for _, widths := range [][]int{{40, 57}, {80, 47}, {200, 120}} {
		t.Run(fmt.Sprintf("%d columns, then %d", widths[0], widths[1]), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.write("in.txt", numbers(100))
			term := b.inTerminal(widths[0], b.troubled()...)
			for i, width := range widths {
				if i > 0 {
					term.resize(t, width)
				}
				term.draws("bars at half of the job", " 50% ", 3)
				requireBars(t, term.drawn(), width)
			}
			b.open()
			term.exits(starter.ExitSomeFailed)
			requireBars(t, term.drawn(), widths[1])
			require.Empty(t, term.faults())
			require.Regexp(t, `(?s)^page: \S+\nnumbers: completed: 98 items ok, 2 failed, `, term.joined())
			requireNoBar(t, term.shown())
		})
	}
}

// 14.3, S14: Ctrl-C in a terminal reaches stint alone, what it says of that does not mix with the bar, and the bar is
// gone in the end.
func TestTerminal_CtrlC(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(100))
	term := b.inTerminal(100, b.troubled()...)
	term.draws("a bar", " 50% ", 1)
	term.press(t, "\x03")
	term.draws("a bar of a job that stops", " · stopping", 1)
	b.open()
	term.exits(starter.ExitStopped)
	requireBars(t, term.drawn(), 100)
	require.Empty(t, term.faults())
	require.Contains(t, term.joined(), "stopping (interrupt): running calls get 2m0s; once more to end at once.")
	require.Regexp(t, `numbers: stopped: [0-9]+ items ok, [12] failed`, term.joined())
	requireNoBar(t, term.shown())
}

// troubled is a job of which there is much to say, half of which waits for the gate.
func (b *box) troubled() []string {
	b.t.Helper()
	filter := b.script("troubled", `while read -r n; do case $n in
0000010|0000090) echo "这个项目永远不会成功, whatever is done about it, and that is said at some length" >&2; exit 1;;
0000020) [ -e $BOX/tried ] || { echo > $BOX/tried; exit 3; };;
0000050) while [ ! -e $BOX/gate ]; do sleep 0.02; done;;
esac; echo "$n"; done`)
	return []string{"run", "--exec", filter, "in.txt", "-o", "out.txt", "--name", "numbers", "--slots", "1", "--call-items", "1", "--batch-items", "10",
		"--backoff", "1ms", "--attempts", "2", "--window", "1"}
}

var (
	percentage = regexp.MustCompile(`[0-9]+%`)
	bar        = regexp.MustCompile(`^█*░* [0-9]+% · [0-9]+(/100| items)( · [^·]+)*$`)
)

// requireBars requires that each line that was drawn is a bar, or nothing.
func requireBars(t *testing.T, drawn []string, width int) {
	t.Helper()
	for _, line := range drawn {
		if line == "" {
			continue
		}
		require.Less(t, columnsOf(line), width, "%q", line)
		if !strings.Contains(line, "%") {
			require.Regexp(t, `^[0-9]+ items`, line, "how many items there are is not known yet")
			continue
		}
		require.Regexp(t, bar, line)
		require.Len(t, percentage.FindAllString(line, -1), 1, "%q", line)
	}
}

// requireNoBar requires that nothing is left of a bar.
func requireNoBar(t *testing.T, shown string) {
	t.Helper()
	require.NotContains(t, shown, "█")
	require.NotContains(t, shown, "░")
}
