package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/test/programs"
	"github.com/stretchr/testify/require"
)

// installation is a machine that install.sh runs on, and a server with releases.
type installation struct {
	t     *testing.T
	files map[string][]byte // of the server, by path
	home  string
	bin   string // before all else in PATH
	env   []string
	half  string // of this file the server sends half
}

// newInstallation serves release 0.1.0 for Linux on amd64, which is what the machine is.
func newInstallation(t *testing.T) *installation {
	t.Helper()
	programs.Find(t, "curl")
	i := &installation{t: t, files: map[string][]byte{}, home: t.TempDir(), bin: t.TempDir()}
	server := httptest.NewServer(i)
	t.Cleanup(server.Close)
	i.env = []string{"STINT_BASE_URL=" + server.URL + "/releases/", "HOME=" + i.home, "PATH=" + i.bin + ":" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir()}
	i.system("Linux", "x86_64")
	i.program("id", "echo 1000")
	r, p := setup(t)
	for _, k := range kinds {
		p.kind = k
		i.serve("v0.1.0", p.base()+".tar.gz", r.archive(p, contents(t, r, p)).data)
	}
	return i
}

func (i *installation) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, ok := i.files[r.URL.Path]
	switch {
	case !ok:
		http.NotFound(w, r)
	case i.half != "" && strings.HasSuffix(r.URL.Path, i.half):
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		_, _ = w.Write(data[:len(data)/2])
	default:
		_, _ = w.Write(data)
	}
}

// serve adds a file to a release, which is also the latest one.
func (i *installation) serve(version, name string, data []byte) {
	i.t.Helper()
	path := filepath.Join(i.t.TempDir(), name)
	require.NoError(i.t, os.WriteFile(path, data, 0o600))
	hash, err := checksum(path)
	require.NoError(i.t, err)
	for _, dir := range []string{"/releases/download/" + version + "/", "/releases/latest/download/"} {
		i.files[dir+name] = data
		i.files[dir+sumsName] = append(i.files[dir+sumsName], sums{{name, hash}}.text()...)
	}
}

// program puts a script before the programs of the machine.
func (i *installation) program(name, script string) {
	require.NoError(i.t, os.WriteFile(filepath.Join(i.bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
}

// system is what uname says.
func (i *installation) system(name, processor string) {
	i.program("uname", fmt.Sprintf("[ $1 = -s ] && echo %s || echo %s", name, processor))
}

// run runs the script, with more variables, and returns what it prints and whether it has succeeded.
func (i *installation) run(env ...string) (string, bool) {
	cmd := exec.Command("sh", "../../install.sh")
	cmd.Env = append(i.env, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// refused runs the script, which says why it installs nothing.
func (i *installation) refused(says string, env ...string) {
	i.t.Helper()
	out, ok := i.run(env...)
	require.False(i.t, ok, out)
	require.Contains(i.t, out, says)
	left, err := filepath.Glob(filepath.Join(i.home, ".local", "bin", "*"))
	require.NoError(i.t, err)
	require.Empty(i.t, left)
}

// IN5: install.sh installs the latest release into a directory of the user, and says how to go on; again, it replaces it.
func TestInstall(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	out, ok := i.run()
	require.True(t, ok, out)
	stint := filepath.Join(i.home, ".local", "bin", "stint")
	require.Contains(t, out, "installed "+stint+": stint v0.1.0")
	require.Contains(t, out, "is not in PATH")
	require.Contains(t, out, "uninstall:  rm "+stint)
	got, err := os.ReadFile(stint)
	require.NoError(t, err)
	require.Equal(t, fakeProgram, string(got))

	out, ok = i.run("STINT_VERSION=0.1.0", "PATH="+filepath.Dir(stint)+":"+i.bin+":"+os.Getenv("PATH"))
	require.True(t, ok, out)
	require.Contains(t, out, "it was: stint v0.1.0")
	require.NotContains(t, out, "PATH")

	dir := filepath.Join(i.home, "with spaces")
	out, ok = i.run("STINT_PROGRAM=stint-worker", "STINT_DIR="+dir)
	require.True(t, ok, out)
	require.FileExists(t, filepath.Join(dir, "stint-worker"))
}

// IN5: what is wrong is said, and nothing is installed.
func TestInstall_Refused(t *testing.T) {
	t.Parallel()
	const archive = "/releases/latest/download/stint_linux_amd64.tar.gz"
	i := newInstallation(t)
	i.refused("there is no such version, or this machine does not reach it", "STINT_VERSION=v9.9.9")
	i.refused("use stint or stint-worker", "STINT_PROGRAM=rm")

	i.half = "stint_linux_amd64.tar.gz"
	i.refused("cannot download all of")
	i.half = ""
	good := i.files[archive]
	i.files[archive] = append([]byte("x"), good...)
	i.refused("the checksum of stint_linux_amd64.tar.gz is wrong, and nothing is installed")
	i.files[archive] = good

	file := filepath.Join(i.home, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	i.refused("cannot make "+file+"/bin", "STINT_DIR="+file+"/bin")
	i.refused("cannot write into /proc: name a directory of yours", "STINT_DIR=/proc")

	i.system("Linux", "aarch64")
	i.refused("this release has no stint_linux_arm64.tar.gz")
	i.system("Linux", "riscv64")
	i.refused("there is no release for linux on riscv64: Go builds stint from source")
	i.system("MINGW64_NT", "x86_64")
	i.refused("there is no release for MINGW64_NT")
}

// IN5: a program that does not run here, such as one of another processor, does not replace one that does.
func TestInstall_DoesNotRun(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	r, p := setup(t)
	require.NoError(t, os.WriteFile(p.path, []byte("#!/bin/sh\necho 'exec format error' >&2\nexit 1\n"), 0o755))
	for path := range i.files {
		delete(i.files, path)
	}
	i.serve("v0.1.0", "stint_linux_amd64.tar.gz", r.archive(p, contents(t, r, p)).data)
	i.refused("does not run on this machine, and is not installed: exec format error")
}

// IN5: half of the script does nothing.
func TestInstall_HalfAScript(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("../../install.sh")
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(script), "\n}\n\nmain\n"))
}
