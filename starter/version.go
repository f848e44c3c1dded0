package starter

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/internal/devserver"
)

// version is what is known of the program's build.
type version struct {
	Name     string `json:"name"`
	Version  string `json:"version"`            // of the main module, or "(devel)"
	Revision string `json:"revision,omitempty"` // of its source
	Time     string `json:"time,omitempty"`     // of that revision, RFC 3339
	Modified bool   `json:"modified,omitempty"` // since that revision
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Temporal string `json:"temporal_server"` // the version of the embedded server
}

func (p *Program) version() version {
	v := version{
		Name: p.name(), Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Temporal: devserver.TemporalVersion,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version = cmp.Or(info.Main.Version, v.Version)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func (v version) String() string {
	s := v.Name + " " + v.Version
	if v.Revision != "" {
		s += fmt.Sprintf(" (%.12s, %s)", v.Revision, v.Time)
	}
	return fmt.Sprintf("%s, %s %s, Temporal server %s", s, v.Go, v.Platform, v.Temporal)
}

func newVersion(p *Program) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  wrongArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return printJSON(p.Stdout, p.version())
			}
			_, err := fmt.Fprintln(p.Stdout, p.version())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
