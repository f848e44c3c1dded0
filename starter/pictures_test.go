package starter_test

import (
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/test/pytest"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// 14.18: a script draws the picture of the terminal.
func TestPictures_Terminal(t *testing.T) {
	t.Parallel()
	python := pytest.Find(t)
	tool(t, "bash", "timeout", "awk")
	b := setup(t)
	bin := t.TempDir()
	writeTimeout(t, bin)
	stint, err := binary()
	require.NoError(t, err)
	p := b.spawnCommand(&exec.Cmd{
		Path: python, Args: []string{python, root(t) + "/docs/pictures/terminal.py", stint},
		Env: []string{"PATH=" + bin + ":" + os.Getenv("PATH"), b.mark()},
	}).exits(starter.ExitOK)
	var shown strings.Builder
	for d := xml.NewDecoder(strings.NewReader(p.stdout.String())); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if text, ok := token.(xml.CharData); ok {
			shown.WriteString(strings.ReplaceAll(string(text), "\u00a0", " ") + "\n")
		}
	}
	for _, text := range []string{"$ stint redrive birds --exec cat", "continuing run-", "9,997 items ok, 3 failed", "3 × exit 7", "errors: birds.jsonl.errors.jsonl"} {
		require.Contains(t, shown.String(), text)
	}
}

// 14.18: a script takes the pictures of the web UI.
func TestPictures_WebUI(t *testing.T) {
	t.Parallel()
	python := pytest.Find(t)
	tool(t, "chromium")
	for _, job := range []string{"strikes", "pipeline", "page"} {
		t.Run(job, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			stint, err := binary()
			require.NoError(t, err)
			picture := b.path("picture.png")
			script := root(t) + "/docs/pictures/webui.py"
			b.spawnCommand(&exec.Cmd{Path: python, Args: []string{python, script, stint, picture, job}, Env: []string{b.mark()}}).exits(starter.ExitOK)
			file, err := os.Open(picture)
			require.NoError(t, err)
			defer file.Close()
			image, err := png.Decode(file)
			require.NoError(t, err)
			require.Equal(t, 1280, image.Bounds().Dx())
			info, err := file.Stat()
			require.NoError(t, err)
			require.Greater(t, info.Size(), int64(50<<10), "not an empty page")
		})
	}
}
