package starter

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"github.com/stint-run/stint/internal/location"
	"go.yaml.in/yaml/v3"
)

// outputKeys are the keys of 'outputs' in a job file, each with the flag that it stands for.
var outputKeys = map[string]string{"results": "output", "errors": "errors", "dropped": "dropped"}

var errNoOutputs = errors.New("outputs: expected a map such as {results: out.jsonl, errors: errors.jsonl, dropped: dropped.jsonl}")

// setOutputs reads where a job file puts results, errors and dropped items. keys are all keys of the file.
func setOutputs(fs *pflag.FlagSet, keys map[string]yaml.Node, node *yaml.Node) error {
	if node.Kind != yaml.MappingNode {
		return errNoOutputs
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		flag, ok := outputKeys[key.Value]
		if !ok {
			return fmt.Errorf("line %d: unknown key %q of outputs: the keys are results, errors and dropped", key.Line, key.Value)
		}
		if other, twice := keys[flag]; twice {
			return fmt.Errorf("line %d: outputs: %s is given on line %d, too, as %s: leave one of them out", key.Line, key.Value, other.Line, flag)
		}
		if err := setFlag(fs, flag, value); err != nil {
			return fmt.Errorf("line %d: outputs: %w", value.Line, err)
		}
	}
	return nil
}

// hasNoPlace reports whether an output, an absolute path, is a device, or something that a process has open: no file belongs beside it.
func hasNoPlace(output string) bool {
	info, err := os.Stat(output)
	if err != nil || location.IsURL(output) {
		return false
	}
	dir := filepath.Dir(output)
	return info.Mode()&os.ModeDevice != 0 || dir == "/dev" || dir == "/dev/fd" || strings.HasPrefix(dir, "/proc/")
}
