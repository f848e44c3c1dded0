package starter

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/spf13/pflag"
	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/run/command"
	"github.com/stint-run/stint/job"
	"go.yaml.in/yaml/v3"
)

// readFile sets the flags that the job file names and the command line does not, and returns the
// file's inputs.
func (o *jobOptions) readFile(fs *pflag.FlagSet, dir string) ([]string, error) {
	keys, err := readDocument(o.file, dir)
	if err != nil {
		return nil, err
	}
	var inputs []string
	var errs []error
	byLine := func(a, b string) int { return cmp.Compare(keys[a].Line, keys[b].Line) }
	for _, key := range slices.SortedFunc(maps.Keys(keys), byLine) {
		node := keys[key]
		switch key {
		case "input":
			inputs, err = nodeStrings(&node)
		case "source":
			err = setSource(fs, &node)
		case "outputs":
			err = setOutputs(fs, keys, &node)
		case "stages":
			o.spec.Stages, err = nodeStages(&node)
		case "pools":
			o.pools = poolsFile{o.file, &node}
		default:
			err = setFlag(fs, key, &node)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", node.Line, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, usageError("job file %s: %v", o.file, err)
	}
	return inputs, nil
}

// readDocument reads the keys of a job file.
func readDocument(name, dir string) (map[string]yaml.Node, error) {
	file := name
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, usageError("job file: %v", err)
	}
	var keys map[string]yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(data))
	if err := documents.Decode(&keys); err != nil && err != io.EOF { // an empty file has no document
		return nil, usageError("job file %s: %v", name, err)
	}
	var more yaml.Node
	switch err := documents.Decode(&more); {
	case err == nil:
		return nil, usageError("job file %s: line %d: expected one YAML document, and another one begins here: use a file for each job", name, more.Line)
	case err != io.EOF:
		return nil, usageError("job file %s: %v", name, err)
	}
	return keys, nil
}

func setFlag(fs *pflag.FlagSet, key string, node *yaml.Node) error {
	flag := fs.Lookup(key)
	if flag == nil || slices.Contains([]string{"file", "help", helpAll}, key) {
		return fmt.Errorf("unknown key %q: the keys are 'input', 'source', 'stages', 'pools', 'outputs' and the command's flags, such as 'output' or 'batch-items'", key)
	}
	values, err := nodeStrings(node)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	if flag.Changed {
		return nil // the command line overrides the file
	}
	if list, ok := flag.Value.(pflag.SliceValue); ok && len(values) == 0 {
		flag.Changed = true
		return list.Replace(nil)
	}
	if _, list := flag.Value.(pflag.SliceValue); !list && len(values) > 1 {
		return fmt.Errorf("%s: expected one value, not a list of %d%s", key, len(values), asOneText(key, values))
	}
	for _, value := range values {
		if err := fs.Set(key, value); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

// asOneText says how a list of the words of a command is written.
func asOneText(key string, words []string) string {
	if !slices.Contains(handlerFlags(), key) {
		return ""
	}
	return fmt.Sprintf(": write '%s: %s'", key, command.Line(words))
}

func nodeStrings(node *yaml.Node) ([]string, error) {
	switch {
	case isValue(node):
		return []string{node.Value}, nil
	case node.Kind == yaml.SequenceNode:
		var values []string
		for _, n := range node.Content {
			if !isValue(n) {
				return nil, errNoValue
			}
			values = append(values, n.Value)
		}
		return values, nil
	}
	return nil, errNoValue
}

var errNoValue = errors.New("expected a value, or a list of values: leave the key out for its default, and write '' for an empty text")

// isValue reports whether a node is a text, number or bool, and not null, which as a text would be "null".
func isValue(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.Tag != "!!null" }

// setSource reads the key of a job file that makes it a feed or a loop.
func setSource(fs *pflag.FlagSet, node *yaml.Node) error {
	values, err := nodeStrings(node)
	switch {
	case err != nil:
		return fmt.Errorf("source: %w", err)
	case len(values) != 1 || !slices.Contains([]string{job.SourceFiles, job.SourceFeed, job.SourceClock}, values[0]):
		return fmt.Errorf("source: %q: use %s, %s or %s", values, job.SourceFiles, job.SourceFeed, job.SourceClock)
	case values[0] == job.SourceClock && fs.Lookup(loopFlag) == nil:
		return fmt.Errorf("source: %s: a loop is started by 'loop -f FILE', on a cluster or beside a server", job.SourceClock)
	case values[0] == job.SourceClock:
		return fs.Set(loopFlag, "true")
	case fs.Changed("feed"):
		return nil // the command line overrides the file
	}
	return fs.Set("feed", fmt.Sprint(values[0] == job.SourceFeed))
}

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

// nodeStages reads stages of a job file: a list of maps.
func nodeStages(node *yaml.Node) ([]job.Stage, error) {
	if node.Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("line %d: %w", node.Line, errNoStages)
	}
	var stages []job.Stage
	for _, item := range node.Content {
		stage, err := nodeStage(item)
		if err != nil {
			return nil, err
		}
		stages = append(stages, stage)
	}
	return stages, nil
}

var errNoStages = errors.New("stages: expected a list such as [{name: clean, pool: filters}, {name: score, ensemble: [{pool: a}, {pool: b}]}]")

// nodeStage reads one stage.
func nodeStage(node *yaml.Node) (stage job.Stage, err error) {
	err = eachKey(node, func(key, value *yaml.Node) (err error) {
		switch key.Value {
		case "name":
			stage.Name, err = parsed(value, parseText)
		case "pool":
			stage.Pool, err = parsed(value, parseText)
		case "batch-items":
			stage.BatchItems, err = parsed(value, parseNumber)
		case "window":
			stage.Window, err = parsed(value, limits.ParseWindow)
		case "ensemble":
			stage.Ensemble, err = nodeStages(value)
		case "fail-fast":
			stage.KeepErrors, err = parsed(value, parseNot)
		case "switch":
			stage.Switch, err = parsed(value, parseText)
		case "cases":
			err = eachKey(value, func(key, value *yaml.Node) error { // a map of values to stages
				of, err := nodeStage(value)
				stage.Cases = append(stage.Cases, job.Case{Value: key.Value, Stage: of})
				return err
			})
		case "default":
			var other job.Stage
			other, err = nodeStage(value)
			stage.Default = &other
		case "stages":
			stage.Stages, err = nodeStages(value)
		default:
			return fmt.Errorf("line %d: unknown key %q of a stage: the keys are name, and pool with batch-items and window, ensemble with fail-fast, switch with cases and default, or stages",
				key.Line, key.Value)
		}
		return err
	})
	return stage, err
}

// eachKey calls yield with the keys of a map and their values, in their order.
func eachKey(node *yaml.Node, yield func(key, value *yaml.Node) error) error {
	if node.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: %w", node.Line, errNoStages)
	}
	taken := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if taken[key.Value] {
			return fmt.Errorf("line %d: stages: duplicate key %q", key.Line, key.Value)
		}
		taken[key.Value] = true
		if err := yield(key, value); err != nil {
			return err
		}
	}
	return nil
}

// parsed reads a value of a stage.
func parsed[T any](node *yaml.Node, parse func(string) (T, error)) (value T, err error) {
	if !isValue(node) {
		err = errNoValue
	} else {
		value, err = parse(node.Value)
	}
	if err != nil {
		err = fmt.Errorf("line %d: stages: %w", node.Line, err)
	}
	return value, err
}

func parseText(text string) (string, error) { return text, nil }

// parseNumber reads a whole number of 1 or more.
func parseNumber(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("invalid number %q: use a whole number of 1 or more", text)
	}
	return n, nil
}

// parseNot reads true or false, and returns the other.
func parseNot(text string) (bool, error) {
	is, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("invalid value %q: use true or false", text)
	}
	return !is, nil
}
