package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	fastflate "github.com/klauspost/compress/flate"
)

// wheelTags are the platforms as Python has them. The programs for Linux are linked statically; those for macOS need what Go
// needs.
var wheelTags = map[string]string{
	"linux/amd64": "manylinux2014_x86_64.musllinux_1_1_x86_64", "linux/arm64": "manylinux2014_aarch64.musllinux_1_1_aarch64",
	"darwin/amd64": "macosx_12_0_x86_64", "darwin/arm64": "macosx_12_0_arm64",
}

// wheel makes a package for pip: the modules stint and stint_client, and the program.
func (r *release) wheel(p *program) made {
	m := made{name: fmt.Sprintf("stint_run-%s-py3-none-%s.whl", r.python(), wheelTags[p.os+"/"+p.arch])}
	m.data, m.err = r.wheelOf(p)
	return m
}

func (r *release) wheelOf(p *program) ([]byte, error) {
	dist := "stint_run-" + r.python()
	var files []file
	for _, f := range []struct{ from, name string }{
		{"python/stint.py", "stint.py"}, {"python/stint_client.py", "stint_client.py"}, {"LICENSE", dist + ".dist-info/licenses/LICENSE"},
	} {
		data, err := r.read(f.from)
		if err != nil {
			return nil, err
		}
		files = append(files, file{f.name, 0o644, data})
	}
	program, err := os.ReadFile(p.path)
	if err != nil {
		return nil, err
	}
	metadata, err := r.metadata()
	if err != nil {
		return nil, err
	}
	files = append(files,
		file{dist + ".data/scripts/stint", 0o755, program},
		file{dist + ".dist-info/METADATA", 0o644, metadata},
		file{dist + ".dist-info/WHEEL", 0o644, wheelFile(wheelTags[p.os+"/"+p.arch])},
	)
	return r.zip(append(files, file{dist + ".dist-info/RECORD", 0o644, record(files, dist+".dist-info/RECORD")}))
}

// key finds a text or a list of texts in pyproject.toml.
var key = regexp.MustCompile(`(?m)^([a-z-]+) = "(.*)"$`)

// metadata is what pyproject.toml says of the package, with the version of the release and the README of the folder.
func (r *release) metadata() ([]byte, error) {
	text, err := r.read("python/pyproject.toml")
	if err != nil {
		return nil, err
	}
	readme, err := r.read("python/README.md")
	if err != nil {
		return nil, err
	}
	keys := map[string]string{}
	for _, found := range key.FindAllStringSubmatch(string(text), -1) {
		keys[found[1]] = found[2]
	}
	return fmt.Appendf(nil, `Metadata-Version: 2.4
Name: %s
Version: %s
Summary: %s
License-Expression: %s
License-File: LICENSE
Requires-Python: %s
Project-URL: Homepage, %s
Description-Content-Type: text/markdown

%s`, keys["name"], r.python(), keys["description"], keys["license"], keys["requires-python"], project, readme), nil
}

func wheelFile(platforms string) []byte {
	text := "Wheel-Version: 1.0\nGenerator: stint-release\nRoot-Is-Purelib: false\n"
	for platform := range strings.SplitSeq(platforms, ".") {
		text += "Tag: py3-none-" + platform + "\n"
	}
	return []byte(text)
}

// record lists the files of a wheel with their sums, and itself.
func record(files []file, self string) []byte {
	var b bytes.Buffer
	for _, f := range files {
		sum := sha256.Sum256(f.data)
		fmt.Fprintf(&b, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.data))
	}
	fmt.Fprintf(&b, "%s,,\n", self)
	return b.Bytes()
}

func (r *release) zip(files []file) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	w.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) {
		return fastflate.NewWriter(out, flate.BestCompression)
	})
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: r.date}
		header.SetMode(f.mode)
		one, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := one.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
