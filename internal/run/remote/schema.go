package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/stint-run/stint/internal/base/text"
)

// Schema is a JSON schema, against which results are checked. It is safe for concurrent use.
type Schema struct {
	source   json.RawMessage
	compiled *jsonschema.Schema
}

// ParseSchema returns the schema in a file's content, of draft 2020-12 unless it names another one. It must not refer
// to other files.
func ParseSchema(content []byte) (*Schema, error) {
	doc, err := decode(content)
	if err != nil {
		return nil, fmt.Errorf("the schema is not JSON: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	const name = "schema:///schema.json"
	if err := c.AddResource(name, doc); err != nil {
		return nil, fmt.Errorf("invalid schema: %s", schemaText(err))
	}
	compiled, err := c.Compile(name)
	if err != nil {
		return nil, fmt.Errorf("invalid schema: %s", schemaText(err))
	}
	return &Schema{compact(content), compiled}, nil
}

// noLoader refuses what a schema refers to.
type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("a schema cannot refer to other files: put what it refers to into $defs")
}

// Check returns why a result in JSON does not fit, in one line.
func (s *Schema) Check(result []byte) error {
	v, err := decode(result)
	if err != nil {
		return fmt.Errorf("the result is not JSON: %w", err)
	}
	if err := s.compiled.Validate(v); err != nil {
		return errors.New(schemaText(err))
	}
	return nil
}

// schemaText returns up to three reasons, each with its place, and says how many there are more.
func schemaText(err error) string {
	var schema *jsonschema.SchemaValidationError // which does not unwrap
	if errors.As(err, &schema) {
		err = schema.Err
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return text.Cut(strings.ReplaceAll(err.Error(), "\n", " "), 500)
	}
	var reasons []string
	var collect func(e *jsonschema.ValidationError)
	collect = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes { // which say more
			collect(cause)
		}
		if len(e.Causes) > 0 {
			return
		}
		unit := e.DetailedOutput()
		place := unit.InstanceLocation
		if place == "" {
			place = "the result"
		}
		reason := text.Cut(place, 100) + ": " + text.Cut(unit.Error.String(), 200)
		if !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	collect(invalid)
	slices.Sort(reasons) // fields are checked in any order
	const most = 3
	if more := len(reasons) - most; more > 0 {
		return fmt.Sprintf("%s; and %d more", strings.Join(reasons[:most], "; "), more)
	}
	return strings.Join(reasons, "; ")
}

// strict reports whether the schema is of those that OpenAI takes as strict: its objects have no other fields than
// those that they name, and need all of them.
func (s *Schema) strict() bool {
	var v any
	return json.Unmarshal(s.source, &v) == nil && isObject(v) && strictIn(v)
}

func isObject(v any) bool {
	schema, ok := v.(map[string]any)
	return ok && schema["type"] == "object"
}

func strictIn(v any) bool {
	switch v := v.(type) {
	case []any:
		return !slices.ContainsFunc(v, func(in any) bool { return !strictIn(in) })
	case map[string]any:
		fields, _ := v["properties"].(map[string]any)
		if isObject(v) || fields != nil {
			needed, _ := v["required"].([]any)
			if v["additionalProperties"] != false || len(needed) != len(fields) {
				return false
			}
		}
		for _, in := range v {
			if !strictIn(in) {
				return false
			}
		}
	}
	return true
}
