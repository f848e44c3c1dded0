package main

import (
	"debug/buildinfo"
	"encoding/json"
	"regexp"
	"runtime/debug"
	"strings"
	"time"
)

// spdx is a document of SPDX 2.3, as far as it is used here: https://spdx.github.io/spdx-spec/v2.3.
type spdx struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Created       spdxCreation   `json:"creationInfo"`
	Packages      []spdxPackage  `json:"packages"`
	Relationships []spdxRelation `json:"relationships"`
}

type spdxCreation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	ID         string         `json:"SPDXID"`
	Name       string         `json:"name"`
	Version    string         `json:"versionInfo"`
	Download   string         `json:"downloadLocation"`
	Analyzed   bool           `json:"filesAnalyzed"`
	Concluded  string         `json:"licenseConcluded"`
	Declared   string         `json:"licenseDeclared"`
	Copyright  string         `json:"copyrightText"`
	Purpose    string         `json:"primaryPackagePurpose,omitempty"`
	Checksums  []spdxChecksum `json:"checksums,omitempty"`
	References []spdxRef      `json:"externalRefs"`
}

type spdxChecksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type spdxRef struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxRelation struct {
	From string `json:"spdxElementId"`
	Kind string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

// sbom lists the modules that a program links, as the program itself knows them.
func (r *release) sbom(p *program) made {
	m := made{name: p.base() + ".spdx.json"}
	var info *buildinfo.BuildInfo
	if info, m.err = buildinfo.ReadFile(p.path); m.err != nil {
		return m
	}
	var hash string
	if hash, m.err = checksum(p.path); m.err != nil {
		return m
	}
	m.data, m.err = json.MarshalIndent(r.document(p, m.name, info, hash), "", "  ")
	m.data = append(m.data, '\n')
	return m
}

func (r *release) document(p *program, name string, info *debug.BuildInfo, hash string) spdx {
	const document = "SPDXRef-DOCUMENT"
	own := spdxModule(info.Main.Path, "v"+r.version)
	own.Declared, own.Concluded, own.Purpose, own.Download = "Apache-2.0", "Apache-2.0", "APPLICATION", r.url(p.base()+".tar.gz")
	own.Checksums = []spdxChecksum{{"SHA256", hash}}
	d := spdx{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: document, Name: p.base() + " " + r.version,
		Namespace: r.url(name) + "?sha256=" + hash,
		Created:   spdxCreation{r.date.Format(time.RFC3339), []string{"Tool: stint-release"}},
		Packages:  []spdxPackage{own}, Relationships: []spdxRelation{{document, "DESCRIBES", own.ID}},
	}
	linked := []spdxPackage{spdxModule("stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		linked = append(linked, spdxModule(m.Path, m.Version))
	}
	for _, l := range linked {
		d.Packages = append(d.Packages, l)
		d.Relationships = append(d.Relationships, spdxRelation{own.ID, "DEPENDS_ON", l.ID})
	}
	return d
}

// notInID are the characters that an SPDX identifier cannot have.
var notInID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// spdxModule describes a Go module, or Go's standard library.
func spdxModule(path, version string) spdxPackage {
	const none = "NOASSERTION"
	return spdxPackage{
		ID: "SPDXRef-" + notInID.ReplaceAllString(path+"-"+version, "-"), Name: path, Version: version, Download: none, Concluded: none, Declared: none, Copyright: none,
		References: []spdxRef{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")}},
	}
}
