package worker

import (
	"path/filepath"
	"testing"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stretchr/testify/require"
)

func TestR2_ScriptsThatNoSystemStarts(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct{ name, content, says string }{
		{"crlf", "#!/bin/sh\r\ncat\r\n", "end in CR LF"},
		{"env-crlf", "#!/usr/bin/env python3\r\nprint()\r\n", "end in CR LF"},
		{"no-shebang", "cat\n", "names its interpreter, such as #!/bin/sh"},
		{"empty", "", "is an empty file"},
		{"nobody", "#!\ncat\n", "names no interpreter"},
		{"missing", "#!/no/such/interpreter -x\n", "the interpreter /no/such/interpreter,"},
		{"missing-env", "#!/usr/bin/env no-such-interpreter-here\n", "the interpreter no-such-interpreter-here,"},
	} {
		path := filepath.Join(dir, c.name)
		jobtest.WriteProgram(t, path, c.content)
		for _, h := range []Handler{Exec(path), Serve(path)} {
			err := h.Check(Options{})
			require.ErrorContains(t, err, c.says, c.name)
			require.ErrorContains(t, err, path, "it is named")
		}
		require.ErrorContains(t, HookCommand(path)(t.Context(), HookCall{}), c.says, c.name)
	}
	for name, content := range map[string]string{
		"shell": "#!/bin/sh\n", "no-end": "#!/bin/sh", "options": "#! /bin/sh -e\n", "env-split": "#!/usr/bin/env -S sh -e\n", "env": "#!/usr/bin/env sh\n",
		"binary": "\x7fELF\x00", "other": "MZ\x00",
	} {
		path := filepath.Join(dir, name)
		jobtest.WriteProgram(t, path, content)
		require.NoError(t, Exec(path).Check(Options{}), name)
	}
	missing := filepath.Join(dir, "missing-env")
	require.NoError(t, Exec(missing).Check(Options{Env: []string{"PATH=/opt/other"}}), "its interpreter may be in the other PATH")
}
