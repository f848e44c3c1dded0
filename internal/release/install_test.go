package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/test/programs"
	"github.com/stretchr/testify/require"
)

// installation is a machine that install.sh runs on, and a server with releases.
type installation struct {
	t    *testing.T
	url  string // of the server; below /half it sends half of each archive
	web  string // the folder with what the server has
	home string
	bin  string // before all else in PATH
	env  []string
}

// newInstallation serves release 0.1.0 for Linux on amd64, which is what the machine is.
func newInstallation(t *testing.T) *installation {
	t.Helper()
	programs.Find(t, "curl")
	i := &installation{t: t, web: t.TempDir(), home: t.TempDir(), bin: t.TempDir()}
	files := http.FileServer(http.Dir(i.web))
	mux := http.NewServeMux()
	mux.Handle("/", files)
	mux.Handle("/half/", http.StripPrefix("/half", halves(files)))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	i.url = server.URL
	i.env = []string{"STINT_BASE_URL=" + server.URL + "/releases/", "HOME=" + i.home, "PATH=" + i.bin + ":" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir()}
	i.system("Linux", "x86_64")
	i.program("id", "echo 1000")
	r, p := setup(t)
	for _, k := range kinds {
		p.kind = k
		i.serve(p.base()+".tar.gz", r.archive(p, contents(t, r, p)).data)
	}
	return i
}

// halves breaks connections off in the middle of an archive.
func halves(whole http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, ".tar.gz") {
			whole.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		whole.ServeHTTP(answer, r)
		w.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
		_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
	})
}

// served is a file of the latest release, which is also 0.1.0.
func (i *installation) served(name string) string {
	return filepath.Join(i.web, "releases", "latest", "download", name)
}

// serve adds a file to the release.
func (i *installation) serve(name string, data []byte) {
	i.t.Helper()
	versions := filepath.Join(i.web, "releases", "download")
	require.NoError(i.t, os.MkdirAll(filepath.Dir(i.served(name)), 0o755))
	require.NoError(i.t, os.MkdirAll(versions, 0o755))
	_ = os.Symlink(filepath.Dir(i.served(name)), filepath.Join(versions, "v0.1.0"))
	require.NoError(i.t, os.WriteFile(i.served(name), data, 0o600))
	all, err := checksums(filepath.Dir(i.served(name)))
	require.NoError(i.t, err)
	require.NoError(i.t, os.WriteFile(i.served(sumsName), all.text(), 0o600))
}

// program puts a script before the programs of the machine.
func (i *installation) program(name, script string) {
	require.NoError(i.t, os.WriteFile(filepath.Join(i.bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
}

// system is what uname says.
func (i *installation) system(name, processor string) {
	i.program("uname", fmt.Sprintf("[ $1 = -s ] && echo %s || echo %s", name, processor))
}

// installed are the programs of the user, and what is in them.
func (i *installation) installed() map[string]string {
	i.t.Helper()
	paths, err := filepath.Glob(filepath.Join(i.home, ".local", "bin", "*"))
	require.NoError(i.t, err)
	all := map[string]string{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(i.t, err)
		all[path] = string(data)
	}
	return all
}

// run runs the script, with more variables, and returns what it prints and whether it has succeeded.
func (i *installation) run(env ...string) (string, bool) {
	cmd := exec.Command("sh", "../../install.sh")
	cmd.Env = append(i.env, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// refused runs the script, which says why it installs nothing, and leaves alone what is installed.
func (i *installation) refused(says string, env ...string) {
	i.t.Helper()
	before := i.installed()
	out, ok := i.run(env...)
	require.False(i.t, ok, out)
	require.Contains(i.t, out, says)
	require.Equal(i.t, before, i.installed())
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
	i := newInstallation(t)
	_, ok := i.run()
	require.True(t, ok)
	require.Len(t, i.installed(), 1)
	i.refused("there is no such version, or this machine does not reach it", "STINT_VERSION=v9.9.9")
	i.refused("use stint or stint-worker", "STINT_PROGRAM=rm")

	i.refused("cannot download all of", "STINT_BASE_URL="+i.url+"/half/releases")
	archive := i.served("stint_linux_amd64.tar.gz")
	good, err := os.ReadFile(archive)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(archive, append([]byte("x"), good...), 0o600))
	i.refused("the checksum of stint_linux_amd64.tar.gz is wrong, and nothing is installed")
	require.NoError(t, os.WriteFile(archive, good, 0o600))

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
	_, ok := i.run()
	require.True(t, ok)
	require.Len(t, i.installed(), 1)
	r, p := setup(t)
	require.NoError(t, os.WriteFile(p.path, []byte("#!/bin/sh\necho 'exec format error' >&2\nexit 1\n"), 0o755))
	i.serve("stint_linux_amd64.tar.gz", r.archive(p, contents(t, r, p)).data)
	i.refused("does not run on this machine, and is not installed: exec format error")
}

// IN5: half of the script does nothing.
func TestInstall_HalfAScript(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("../../install.sh")
	require.NoError(t, err)
	i := newInstallation(t)
	asked := filepath.Join(t.TempDir(), "asked")
	for _, program := range []string{"curl", "wget", "mkdir", "mktemp", "cp", "mv", "rm"} {
		i.program(program, "touch "+asked+"; exit 1")
	}
	half := filepath.Join(t.TempDir(), "half.sh")
	for n := 0; n < len(script)-len("main\n"); n += 97 {
		require.NoError(t, os.WriteFile(half, script[:n], 0o600))
		cmd := exec.Command("sh", half)
		cmd.Env = i.env
		out, _ := cmd.CombinedOutput()
		require.NoFileExists(t, asked, "the first %d bytes: %s", n, out)
		require.Empty(t, i.installed())
	}
	require.NoError(t, os.WriteFile(half, script, 0o600))
	cmd := exec.Command("sh", half)
	cmd.Env = i.env
	_ = cmd.Run()
	require.FileExists(t, asked, "the whole script does something")
}
