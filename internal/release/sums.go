package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

const sumsName = "SHA256SUMS"

// sum is the SHA-256 of a file.
type sum struct{ name, sum string }

// sums are those of a release, by name.
type sums []sum

// checksums returns those of the files of a folder, without the list of them.
func checksums(dist string) (all sums, err error) {
	entries, err := os.ReadDir(dist)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Name() == sumsName {
			continue
		}
		s, err := checksum(filepath.Join(dist, e.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, sum{e.Name(), s})
	}
	return all, nil
}

func checksum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// of returns the sum of a file; "": there is none.
func (s sums) of(name string) string {
	for _, one := range s {
		if one.name == name {
			return one.sum
		}
	}
	return ""
}

// text is the list as sha256sum reads it.
func (s sums) text() []byte {
	var b bytes.Buffer
	for _, one := range s {
		fmt.Fprintf(&b, "%s  %s\n", one.sum, one.name)
	}
	return b.Bytes()
}
