// Package build says what this program was built from.
package build

import (
	"cmp"
	"runtime"
	"runtime/debug"
)

// devel is the version of a build that has none.
const devel = "(devel)"

// What a release is stamped with, by the linker (-X): a version such as v0.1.0, the commit, and its time in RFC 3339.
var version, commit, date string

// Info is what is known of a build; what is not known is empty.
type Info struct {
	Version  string // of the main module, such as v0.1.0, or "(devel)"
	Commit   string // of the source
	Date     string // of that commit, RFC 3339
	Modified bool   // since that commit
	Go       string // the version of Go
	Platform string // such as linux/amd64
}

// This returns what is known of this program: its stamp, or else what the go command has noted.
func This() Info {
	noted, _ := debug.ReadBuildInfo()
	return of(noted)
}

// Short returns the version, or the first digits of the commit if there is none; empty: neither is known.
func (i Info) Short() string {
	if i.Version != devel {
		return i.Version
	}
	return i.Commit[:min(len(i.Commit), 12)]
}

// of completes the stamp from what the go command has noted, which may be nil.
func of(noted *debug.BuildInfo) Info {
	i := Info{Version: version, Commit: commit, Date: date, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if noted != nil && version == "" {
		i.Version = noted.Main.Version
		for _, s := range noted.Settings {
			switch s.Key {
			case "vcs.revision":
				i.Commit = s.Value
			case "vcs.time":
				i.Date = s.Value
			case "vcs.modified":
				i.Modified = s.Value == "true"
			}
		}
	}
	i.Version = cmp.Or(i.Version, devel)
	return i
}
