package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/test/programs"
	"github.com/stint-run/stint/internal/test/pytest"
	"github.com/stretchr/testify/require"
)

// fakeProgram stands for a program that is built.
const fakeProgram = "#!/bin/sh\necho \"stint v0.1.0, ${1:-no} command\"\n"

// setup returns a release of this repository, and a program of this platform.
func setup(t *testing.T) (*release, *program) {
	t.Helper()
	r := &release{version: "0.1.0", commit: strings.Repeat("c", 40), date: time.Date(2026, 12, 1, 2, 3, 4, 0, time.UTC), root: "../.."}
	p := &program{kind: kinds[0], os: "linux", arch: "amd64", path: filepath.Join(t.TempDir(), "stint")}
	require.NoError(t, os.WriteFile(p.path, []byte(fakeProgram), 0o755))
	return r, p
}

// texts are what a program would say of itself.
var texts = []file{
	{"man/stint.1", 0o644, []byte(".TH STINT 1\n")}, {"completions/stint.bash", 0o644, []byte("bash\n")},
	{"completions/_stint", 0o644, []byte("zsh\n")}, {"completions/stint.fish", 0o644, []byte("fish\n")},
}

// contents of the program's archive.
func contents(t *testing.T, r *release, p *program) []file {
	t.Helper()
	files, err := r.contents(p, texts)
	require.NoError(t, err)
	return files
}

// data returns what was made, which is the same the second time.
func data(t *testing.T, mk func() made) []byte {
	t.Helper()
	one := mk()
	require.NoError(t, one.err)
	other := mk()
	require.Equal(t, one.name, other.name)
	require.True(t, bytes.Equal(one.data, other.data), "%s: made twice, it differs", one.name)
	return one.data
}

// untar returns the files of a tar.gz, and the modes of all.
func untar(t *testing.T, data []byte) (files map[string]string, modes map[string]string) {
	t.Helper()
	files, modes = map[string]string{}, map[string]string{}
	z, err := gzip.NewReader(bytes.NewReader(data))
	require.NoError(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files, modes
		}
		require.NoError(t, err)
		require.Zero(t, h.Uid+h.Gid, h.Name)
		require.Equal(t, int64(1796090584), h.ModTime.Unix(), h.Name)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		files[h.Name], modes[h.Name] = string(text), h.FileInfo().Mode().String()
	}
}

// IN1: an archive has the program, what it is, and how shells and man know it, in one folder; made twice it is equal.
func TestArchive(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	files, modes := untar(t, data(t, func() made { return r.archive(p, contents(t, r, p)) }))
	const top = "stint-0.1.0-linux-amd64/"
	require.Equal(t, fakeProgram, files[top+"stint"])
	require.Equal(t, "-rwxr-xr-x", modes[top+"stint"])
	for _, name := range []string{
		"LICENSE", "README.md", "CHANGELOG.md", "man/stint.1", "completions/stint.bash", "completions/_stint",
		"completions/stint.fish", "python/stint.py", "python/stint_client.py",
	} {
		require.NotEmpty(t, files[top+name], name)
		require.Equal(t, "-rw-r--r--", modes[top+name], name)
	}
	require.Len(t, files, 10+4) // with the folders

	p.kind = kinds[1]
	files, _ = untar(t, data(t, func() made { return r.archive(p, contents(t, r, p)) }))
	require.Contains(t, files, "stint-worker-0.1.0-linux-amd64/stint-worker")
	require.Len(t, files, 3+1)
}

// IN1: Debian's package has its files where Debian looks for them, and a control file that says what it is.
func TestDeb(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	r.version = "0.1.0-rc.1"
	deb := data(t, func() made { return r.deb(p, contents(t, r, p)) })
	require.Equal(t, "stint_0.1.0~rc.1_amd64.deb", r.deb(p, contents(t, r, p)).name)
	members := unar(t, deb)
	require.Equal(t, "2.0\n", string(members["debian-binary"]))
	control, _ := untar(t, members["control.tar.gz"])
	for _, line := range []string{"Package: stint", "Version: 0.1.0~rc.1", "Architecture: amd64", "Recommends: ca-certificates", "Description: " + summary} {
		require.Contains(t, control["./control"], line+"\n")
	}
	files, modes := untar(t, members["data.tar.gz"])
	require.Equal(t, fakeProgram, files["./usr/bin/stint"])
	require.Equal(t, "-rwxr-xr-x", modes["./usr/bin/stint"])
	for _, name := range []string{
		"usr/share/man/man1/stint.1.gz", "usr/share/bash-completion/completions/stint", "usr/share/zsh/site-functions/_stint",
		"usr/share/fish/vendor_completions.d/stint.fish", "usr/share/stint/python/stint.py", "usr/share/doc/stint/copyright",
	} {
		require.Contains(t, files, "./"+name)
		require.Contains(t, control["./md5sums"], "  "+name+"\n")
	}
	require.Contains(t, modes, "./usr/share/man/")

	path := filepath.Join(t.TempDir(), "stint.deb")
	require.NoError(t, os.WriteFile(path, deb, 0o600))
	out, err := output(exec.Command(programs.Find(t, "dpkg-deb"), "--show", "--showformat", "${Package} ${Version} ${Architecture}", path))
	require.NoError(t, err)
	require.Equal(t, "stint 0.1.0~rc.1 amd64", out)
}

// unar returns the members of an archive of ar.
func unar(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	rest, ok := bytes.CutPrefix(data, []byte("!<arch>\n"))
	require.True(t, ok)
	members := map[string][]byte{}
	for len(rest) > 0 {
		header := string(rest[:60])
		require.Equal(t, "`\n", header[58:])
		size, err := strconv.Atoi(strings.TrimSpace(header[48:58]))
		require.NoError(t, err)
		members[strings.TrimSpace(header[:16])] = rest[60 : 60+size]
		rest = rest[60+size+size%2:]
	}
	return members
}

// IN1: RPM's package; what RPM itself says of it, where there is one.
func TestRPM(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	p.arch = "arm64"
	rpm := data(t, func() made { return r.rpm(p, contents(t, r, p)) })
	require.Equal(t, "stint-0.1.0-1.aarch64.rpm", r.rpm(p, contents(t, r, p)).name)
	require.Equal(t, "\xed\xab\xee\xdb", string(rpm[:4]))
	for _, text := range []string{"stint", "0.1.0", "aarch64", "Apache-2.0", "/usr/bin/", "stint.1.gz"} {
		require.Contains(t, string(rpm), text)
	}
	path := filepath.Join(t.TempDir(), "stint.rpm")
	require.NoError(t, os.WriteFile(path, rpm, 0o600))
	out, err := output(exec.Command(programs.Find(t, "rpm"), "-qp", "--nosignature", "--queryformat", "%{NAME} %{VERSION} %{ARCH} [%{FILENAMES} ]", path))
	require.NoError(t, err)
	require.Contains(t, out, "stint 0.1.0 aarch64 ")
	require.Contains(t, out, "/usr/bin/stint ")
}

// unzip returns the files of a zip, and writes them below a folder.
func unzip(t *testing.T, data []byte, dir string) map[string]string {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	files := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		require.NoError(t, err)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		files[f.Name] = string(text)
		path := filepath.Join(dir, f.Name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, text, f.Mode()))
	}
	return files
}

// IN2: the wheel has the helper, the client and the program; Python finds the modules, and pip, where there is one, takes it.
func TestWheel(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	p.os, p.arch = runtime.GOOS, runtime.GOARCH
	if wheelTags[p.os+"/"+p.arch] == "" {
		t.Skip("no wheel is made for this platform")
	}
	wheel := data(t, func() made { return r.wheel(p) })
	dir := t.TempDir()
	files := unzip(t, wheel, dir)
	require.Equal(t, fakeProgram, files["stint_run-0.1.0.data/scripts/stint"])
	metadata := files["stint_run-0.1.0.dist-info/METADATA"]
	for _, line := range []string{"Name: stint-run", "Version: 0.1.0", "Requires-Python: >=3.9", "License-Expression: Apache-2.0"} {
		require.Contains(t, metadata, line+"\n")
	}
	require.Contains(t, metadata, "pip install ./stint_run-")
	require.Equal(t, len(files), strings.Count(files["stint_run-0.1.0.dist-info/RECORD"], "\n"))

	python := pytest.Find(t)
	const imports = "import stint, stint_client; print(stint.__file__)"
	cmd := exec.Command(python, "-c", imports)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "PYTHONPATH="+dir)
	out, err := output(cmd)
	require.NoError(t, err)
	require.Contains(t, out, dir)

	if testing.Short() || exec.Command(python, "-c", "import pip").Run() != nil {
		t.Skip("there is no pip, or no time for it: the wheel is only unpacked")
	}
	path := filepath.Join(t.TempDir(), r.wheel(p).name)
	require.NoError(t, os.WriteFile(path, wheel, 0o600))
	target := t.TempDir()
	_, err = output(exec.Command(python, "-m", "pip", "install", "--quiet", "--no-index", "--no-compile", "--disable-pip-version-check", "--target", target, path))
	require.NoError(t, err)
	out, err = output(exec.Command(filepath.Join(target, "bin", "stint"), "version"))
	require.NoError(t, err)
	require.Equal(t, "stint v0.1.0, version command\n", out)
}

// IN1: versions of packages come before those that they lead to.
func TestVersions(t *testing.T) {
	t.Parallel()
	for version, want := range map[string][2]string{
		"0.1.0": {"0.1.0", "0.1.0"}, "1.2.3-rc.4": {"1.2.3~rc.4", "1.2.3rc4"}, "1.2.3-beta.1": {"1.2.3~beta.1", "1.2.3b1"},
	} {
		r := release{version: version}
		require.Equal(t, want, [2]string{r.packaged(), r.python()})
	}
	for _, version := range []string{"", "0.1.0", "v0.1", "v1.2.3-rc1", "v1.2.3+build", "v1.2.3-dev.1"} {
		_, err := describe(t.Context(), "../..", version, true)
		require.ErrorContains(t, err, "use v1.2.3")
	}
}

// IN3: the list of what a program links names every module that the program itself knows, this test's say, and is the same the
// second time.
func TestSBOM(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	var err error
	p.path, err = os.Executable()
	require.NoError(t, err)
	var d spdx
	require.NoError(t, json.Unmarshal(data(t, func() made { return r.sbom(p) }), &d))
	info, ok := debug.ReadBuildInfo()
	require.True(t, ok)
	require.NotEmpty(t, info.Deps)
	named, ids := map[string]string{}, map[string]bool{}
	for _, one := range d.Packages {
		named[one.Name] = one.Version
		require.False(t, ids[one.ID], "%s stands there twice", one.ID)
		ids[one.ID] = true
		require.Equal(t, "pkg:golang/"+one.Name+"@"+one.Version, strings.ReplaceAll(one.References[0].Locator, "%2B", "+"))
	}
	for _, m := range info.Deps {
		require.Equal(t, m.Version, named[m.Path], m.Path)
	}
	require.Equal(t, strings.TrimPrefix(runtime.Version(), "go"), named["stdlib"])
	require.Equal(t, "v0.1.0", named["github.com/stint-run/stint"])
	require.Len(t, d.Packages, len(info.Deps)+2)
	for _, relation := range d.Relationships[1:] {
		require.True(t, relation.Kind == "DEPENDS_ON" && ids[relation.From] && ids[relation.To], relation)
	}
}

// IN1: the formula has the addresses and the checksums of the four archives.
func TestFormula(t *testing.T) {
	t.Parallel()
	r, _ := setup(t)
	var all sums
	for i, platform := range platforms {
		all = append(all, sum{archiveOf(platform), strings.Repeat(strconv.Itoa(i), 64)})
	}
	formula := string(r.formula(all))
	for _, s := range all {
		require.Contains(t, formula, fmt.Sprintf("url %q\n      sha256 %q", "https://github.com/stint-run/stint/releases/download/v0.1.0/"+s.name, s.sum))
	}
	require.Contains(t, formula, `version "0.1.0"`)
	if programs.Has(t, "ruby") {
		path := filepath.Join(t.TempDir(), "stint.rb")
		require.NoError(t, os.WriteFile(path, []byte(formula), 0o600))
		_, err := output(exec.Command("ruby", "-c", path))
		require.NoError(t, err)
	}
}

// IN1: what has changed is the section of the version.
func TestSection(t *testing.T) {
	t.Parallel()
	const log = "# Changelog\n\n## Unreleased\n\n- c\n\n## [0.2.0] - 2027-01-01\n\n### Added\n\n- b\n\n## 0.1.0\n\n- a\n"
	for version, want := range map[string]string{"0.1.0": "- a", "0.2.0": "### Added\n\n- b", "Unreleased": "- c", "0.1": "", "0.3.0": ""} {
		require.Equal(t, want, section(log, version), version)
	}
	r, _ := setup(t)
	notes, err := r.notes()
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(notes), "# stint 0.1.0, 2026-12-01\n\n### Added\n"))
}

// IN1: the manual page has the help of every command, as it is.
func TestManual(t *testing.T) {
	t.Parallel()
	r, _ := setup(t)
	page, err := r.manual(func(args ...string) (string, error) {
		if args[0] == "__complete" {
			return "run\tRun a job\nhelp\tHelp\n:4\n", nil
		}
		return "Help of " + strings.Join(args, " ") + "\n.dots and \\ and 'quotes'\n'", nil
	})
	require.NoError(t, err)
	require.Equal(t, `.TH STINT 1 "2026-12-01" "stint 0.1.0" "User Commands"
.SH NAME
stint \- Durable batch work: a program over millions of records
.SH SYNOPSIS
.B stint
.I COMMAND
.SH DESCRIPTION
.nf
Help of \-\-help
\&.dots and \e and 'quotes'
\&'
.fi
.SH COMMANDS
.SS stint run
.nf
Help of run \-\-help
\&.dots and \e and 'quotes'
\&'
.fi
.SH SEE ALSO
https://github.com/stint\-run/stint
`, string(page))
}

// IN1: what a release has once: a formula only if there is an archive for each of its platforms.
func TestFinish(t *testing.T) {
	t.Parallel()
	r, _ := setup(t)
	dist := t.TempDir()
	has := func() (names []string) {
		require.NoError(t, r.finish(dist))
		all, err := checksums(dist)
		require.NoError(t, err)
		for _, s := range all {
			names = append(names, s.name)
		}
		written, err := os.ReadFile(filepath.Join(dist, sumsName))
		require.NoError(t, err)
		require.Equal(t, string(all.text()), string(written))
		return names
	}
	require.NoError(t, made{name: archiveOf("linux/amd64")}.write(dist))
	require.Equal(t, []string{"CHANGES.md", "install.sh", "stint_linux_amd64.tar.gz"}, has())
	for _, platform := range platforms {
		require.NoError(t, made{name: archiveOf(platform)}.write(dist))
	}
	require.Contains(t, has(), "stint.rb")
}

// IN1: two folders are equal if each file of one is in the other, with the same contents.
func TestEqual(t *testing.T) {
	t.Parallel()
	a, b := t.TempDir(), t.TempDir()
	for _, dir := range []string{a, b} {
		require.NoError(t, made{name: "x", data: []byte("x")}.write(dir))
	}
	require.NoError(t, equal(a, b))
	require.NoError(t, made{name: "y", data: []byte("y")}.write(b))
	require.ErrorContains(t, equal(a, b), "1 files, and 2 the second time")
	require.NoError(t, made{name: "y", data: []byte("z")}.write(a))
	require.ErrorContains(t, equal(a, b), "y differs")
}

// IN4: images are built with the tags of the releases.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	r, _ := setup(t)
	text, err := r.read("Dockerfile")
	require.NoError(t, err)
	for _, kind := range kinds {
		require.Contains(t, string(text), fmt.Sprintf(" -tags %s -ldflags='-s -w' -o /%s %s\n", kind.tags, kind.name, kind.pkg))
	}
	for _, target := range []string{"FROM base AS stint-worker\n", "FROM stint-worker AS python\n", "FROM base AS stint\n"} {
		require.Contains(t, string(text), target)
	}
}

// IN1: each part of the stamp is a variable of its own.
func TestStamp(t *testing.T) {
	t.Parallel()
	r, _ := setup(t)
	const in = " -X github.com/stint-run/stint/internal/base/build."
	require.Equal(t, in+"version=v0.1.0"+in+"commit="+r.commit+in+"date=2026-12-01T02:03:04Z", r.stamp())
}

// A release is made from a commit, and of a tag from that of the tag.
func TestDescribe(t *testing.T) {
	programs.Find(t, "git")
	t.Setenv("SOURCE_DATE_EPOCH", "")
	dir := t.TempDir()
	run := func(args ...string) {
		_, err := git(context.Background(), dir, append([]string{"-c", "user.name=n", "-c", "user.email=e@example.com"}, args...)...)
		require.NoError(t, err)
	}
	run("init", "--quiet")
	write := func(text string) { require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte(text), 0o600)) }
	write("1")
	run("add", "a")
	run("commit", "--quiet", "--message", "one")
	run("tag", "v0.1.0")
	r, err := describe(t.Context(), dir, "v0.1.0", false)
	require.NoError(t, err)
	require.Len(t, r.commit, 40)
	require.WithinDuration(t, time.Now(), r.date, time.Hour)

	write("2")
	_, err = describe(t.Context(), dir, "v0.1.0", false)
	require.ErrorContains(t, err, "not committed")
	r, err = describe(t.Context(), dir, "v0.1.0", true)
	require.NoError(t, err)
	require.Contains(t, r.commit, "-modified")

	run("commit", "--quiet", "--all", "--message", "two")
	_, err = describe(t.Context(), dir, "v0.1.0", false)
	require.ErrorContains(t, err, "tag v0.1.0 is another commit")
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	r, err = describe(t.Context(), dir, "v0.2.0", false)
	require.NoError(t, err)
	require.Equal(t, int64(1700000000), r.date.Unix())
}
