package devserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.temporal.io/server/common/headers"
	"go.temporal.io/server/schema/sqlite"
)

const (
	versionFile    = "version.json"
	unknownVersion = "of unknown version (" + versionFile + " is missing)"
)

// TemporalVersion is the version of the Temporal server in this program.
const TemporalVersion = headers.ServerVersion

// VersionError reports that a state directory was written by another version of the
// Temporal server. The server does not migrate SQLite databases.
type VersionError struct {
	// Dir is the state directory.
	Dir string
	// Have describes the version that wrote the directory, Want the one in this
	// program.
	Have, Want string
}

// Error says what to do.
func (e *VersionError) Error() string {
	return fmt.Sprintf("state directory %s was written by Temporal server %s, this program contains %s: "+
		"finish its jobs with the program that wrote it, or move the directory away to start afresh",
		e.Dir, e.Have, e.Want)
}

// version is the content of the version file.
type version struct {
	// Server is the Temporal server's version.
	Server string `json:"server"`
	// Schema and Visibility are the versions of the two halves of the database.
	Schema     string `json:"schema"`
	Visibility string `json:"visibility"`
}

func thisVersion() version {
	return version{Server: headers.ServerVersion, Schema: sqlite.Version, Visibility: sqlite.VisibilityVersion}
}

func (v version) String() string {
	return fmt.Sprintf("%s (schema %s, %s)", v.Server, v.Schema, v.Visibility)
}

// checkVersion compares the version file of a directory that holds a database
// with this program.
func checkVersion(dir string) error {
	have, err := readVersion(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return &VersionError{Dir: dir, Have: unknownVersion, Want: thisVersion().String()}
	}
	if err != nil {
		return err
	}
	if have != thisVersion() {
		return &VersionError{Dir: dir, Have: have.String(), Want: thisVersion().String()}
	}
	return nil
}

func readVersion(dir string) (version, error) {
	var v version
	data, err := os.ReadFile(filepath.Join(dir, versionFile))
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return v, fmt.Errorf("%s: %w", filepath.Join(dir, versionFile), err)
	}
	return v, nil
}

func writeVersion(dir string) error {
	return writeJSON(filepath.Join(dir, versionFile), thisVersion(), true)
}
