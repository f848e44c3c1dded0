package main

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"strings"

	"github.com/google/rpmpack"
)

// installed are the files of a package, below /, from those of the archive.
func (r *release) installed(contents []file, docs string) (files []file, err error) {
	places := map[string]string{
		"stint": "usr/bin/stint", "README.md": docs + "/README.md", "LICENSE": docs + "/copyright",
		"python/stint.py": "usr/share/stint/python/stint.py", "python/stint_client.py": "usr/share/stint/python/stint_client.py",
		"man/stint.1": "usr/share/man/man1/stint.1.gz", "CHANGELOG.md": docs + "/changelog.gz",
	}
	for _, shell := range shells {
		places[shell.file] = shell.installed
	}
	for _, f := range contents {
		place, ok := places[f.name]
		if !ok {
			return nil, fmt.Errorf("no place for %s", f.name)
		}
		if strings.HasSuffix(place, ".gz") {
			if f.data, err = r.gzipped(f.data); err != nil {
				return nil, err
			}
		}
		f.name = place
		files = append(files, f)
	}
	return files, nil
}

const maintainer = "The stint authors <stint-run@users.noreply.github.com>"

// deb makes a package for Debian and its like.
func (r *release) deb(p *program, contents []file) made {
	m := made{name: fmt.Sprintf("stint_%s_%s.deb", r.packaged(), p.arch)}
	m.data, m.err = r.debOf(p.arch, contents)
	return m
}

func (r *release) debOf(arch string, contents []file) ([]byte, error) {
	files, err := r.installed(contents, "usr/share/doc/stint")
	if err != nil {
		return nil, err
	}
	data, err := r.tarGz("./", files)
	if err != nil {
		return nil, err
	}
	control, err := r.tarGz("./", []file{
		{"control", 0o644, r.control(arch, files)},
		{"md5sums", 0o644, md5sums(files)},
	})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("!<arch>\n")
	r.member(&b, "debian-binary", []byte("2.0\n"))
	r.member(&b, "control.tar.gz", control)
	r.member(&b, "data.tar.gz", data)
	return b.Bytes(), nil
}

// member adds a file to an archive of ar.
func (r *release) member(b *bytes.Buffer, name string, data []byte) {
	fmt.Fprintf(b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", name, r.date.Unix(), 0, 0, "100644", len(data))
	b.Write(data)
	if len(data)%2 == 1 {
		b.WriteByte('\n')
	}
}

func (r *release) control(arch string, files []file) []byte {
	var size int
	for _, f := range files {
		size += len(f.data)
	}
	return fmt.Appendf(nil, `Package: stint
Version: %s
Architecture: %s
Maintainer: %s
Installed-Size: %d
Recommends: ca-certificates
Section: utils
Priority: optional
Homepage: %s
Description: %s
 %s
`, r.packaged(), arch, maintainer, (size+1023)/1024, project, summary, about)
}

func md5sums(files []file) []byte {
	var b bytes.Buffer
	for _, f := range files {
		fmt.Fprintf(&b, "%x  %s\n", md5.Sum(f.data), f.name)
	}
	return b.Bytes()
}

// rpmArchs are RPM's names of architectures.
var rpmArchs = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// rpm makes a package for Fedora, RHEL, SUSE and their like.
func (r *release) rpm(p *program, contents []file) made {
	m := made{name: fmt.Sprintf("stint-%s-1.%s.rpm", r.packaged(), rpmArchs[p.arch])}
	m.data, m.err = r.rpmOf(p.arch, contents)
	return m
}

func (r *release) rpmOf(arch string, contents []file) ([]byte, error) {
	files, err := r.installed(contents, "usr/share/doc/stint")
	if err != nil {
		return nil, err
	}
	pack, err := rpmpack.NewRPM(rpmpack.RPMMetaData{
		Name: "stint", Version: r.packaged(), Release: "1", Arch: rpmArchs[arch], OS: "linux", Epoch: rpmpack.NoEpoch,
		Summary: summary, Description: about, URL: project, Licence: "Apache-2.0", Packager: maintainer,
		BuildHost: "localhost", BuildTime: r.date, Compressor: "gzip:9",
	})
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		pack.AddFile(rpmpack.RPMFile{
			Name: "/" + f.name, Body: f.data, Mode: uint(0o100000 | f.mode), Owner: "root", Group: "root", MTime: uint32(r.date.Unix()),
		})
	}
	var b bytes.Buffer
	if err := pack.Write(&b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
