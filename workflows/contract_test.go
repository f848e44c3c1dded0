package workflows

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
)

// The contract between processes, and between versions of stint, are the types that are in a history, a memo, a
// heartbeat, a manifest or another object of the store, a query's answer or a frame. TestContract… look at all of them.

var updateContract = flag.Bool("contract", false, "write testdata/contract.txt anew")

const module = "github.com/stint-run/stint"

// contractRoots are the types that travel by themselves; those that they are made of are found from them. The arguments
// and results of all workflows and activities are found by their functions.
func contractRoots() []reflect.Type {
	var roots []reflect.Type
	add := func(values ...any) {
		for _, v := range values {
			roots = append(roots, reflect.TypeOf(v))
		}
	}
	ofFunc := func(f reflect.Type) {
		for i := range f.NumIn() {
			roots = append(roots, f.In(i))
		}
		for i := range f.NumOut() {
			roots = append(roots, f.Out(i))
		}
	}
	for _, workflow := range []any{Job, Leg, FeedLeg, LoopLeg} {
		ofFunc(reflect.TypeOf(workflow))
	}
	for acts, i := reflect.TypeFor[*activities.Activities](), 0; i < acts.NumMethod(); i++ {
		ofFunc(acts.Method(i).Type)
	}
	add( // signals
		job.Stop{}, wire.Pause{}, wire.StopNotice{}, wire.CameBack{}, wire.Begun{},
		wire.FromLeg[wire.Counts]{}, wire.FromLeg[wire.PoolReport]{}, wire.FromLeg[wire.PlacesBack]{},
		wire.FromLeg[wire.SlowDownRequest]{}, wire.FromLeg[job.Error]{}, wire.Counts{}, wire.PoolReport{}, wire.PlacesBack{}, wire.SlowDownRequest{}, wire.LegLimits{}, wire.ReportThresholds{},
		wire.FeedOpening{}, wire.KeptResult{}, wire.Salvaged{}, wire.SealedNotice{}, wire.FreedNotice{}, wire.StalledNotice{}, wire.FeedResize{}, wire.Opening{}, wire.Freed{},
	)
	add( // updates, their refusals, and queries
		job.Settings{}, wire.Exchange{}, wire.Exchanged{}, wire.Refusal{}, wire.Reset{}, wire.ResetDone{},
		job.FeedState{}, wire.ItemState{}, wire.Answer{}, job.Report{}, job.Progress{}, wire.Heard{}, wire.Answered{}, job.Counted{},
	)
	add( // heartbeats, memos, results of queries to workers
		wire.Hint{}, wire.SlotRef{}, wire.ActivitySlot{}, wire.HeldTimer{}, wire.StartInput{},
	)
	add( // objects of the store
		wire.Head{}, wire.Entry{}, wire.Done{}, wire.ErrorLine{}, wire.Merged{}, wire.SourceTable{}, wire.CompletedFiles{}, wire.Bundle{}, job.Failure{},
		wire.CommitFeedInput{}, wire.Shape{}, wire.Tick{},
	)
	add( // frames
		wire.HelloFrame{}, wire.CallFrame{}, wire.AcquireFrame{}, wire.AcquiredFrame{}, wire.StoppingFrame{}, wire.ByeFrame{}, wire.ReadyFrame{}, wire.ResultsFrame{},
		wire.ReleaseFrame{}, wire.LogFrame{}, wire.MetricFrame{}, wire.RequestStopFrame{}, wire.SlowDownFrame{}, wire.CostFrame{},
	)
	return roots
}

// contractTypes are all structs of the module that the roots are made of, by their names.
func contractTypes() map[string]reflect.Type {
	found := map[string]reflect.Type{}
	var reach func(t reflect.Type)
	reach = func(t reflect.Type) {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array:
			reach(t.Elem())
		case reflect.Map:
			reach(t.Key())
			reach(t.Elem())
		case reflect.Struct:
			name := typeName(t)
			if !strings.HasPrefix(t.PkgPath(), module) || found[name] != nil || t == reflect.TypeFor[activities.Activities]() {
				return
			}
			found[name] = t
			for i := range t.NumField() {
				if f := t.Field(i); f.IsExported() || f.Anonymous {
					reach(f.Type)
				}
			}
		}
	}
	for _, t := range contractRoots() {
		reach(t)
	}
	return found
}

// typeName is a type's name with its folder in the module.
func typeName(t reflect.Type) string {
	return strings.ReplaceAll(t.PkgPath()+"."+t.Name(), module+"/", "")
}

// forPeople are folders and types whose JSON only commands print, or HTTP serves. wired are those that a method of
// another type encodes.
var (
	forPeople = []string{"starter.", "internal/web/gateway.", "internal/web/page.", "internal/web/jobmetrics.", "internal/release.", "internal/base/build.", "internal/test/clustertest.", "internal/predict.", "internal/temporal/devserver.", "worker.", "internal/run/watchdog."}
	wired     = []string{
		"internal/wire.wireInline", "internal/data/outputs.splitList", "internal/data/outputs.ListedPart",
		"internal/wire.quotedItems", "jobs.givenInput", "jobs.givenState", "job.jsonSpec", "job.jsonFeed", "job.jsonLoop", "jobs.Listed", "jobs.Scheduled", "internal/data/loops.Tick",
		"internal/run/calls.Occupant", "jobs.PoolWorker", "job.Redrive", "jobs.RunningBatch", "jobs.HeldTimer",
	}
)

func TestD1_ContractNamesAllTypes(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	for name := range contractTypes() {
		name, _, _ = strings.Cut(name, "[") // of a generic type
		found[name] = true
	}
	for _, name := range jsonTypes(t) {
		if slices.ContainsFunc(forPeople, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) || slices.Contains(wired, name) {
			continue
		}
		assert.True(t, found[name], "%s: a type with names for JSON, which no root of the contract has: add it to contractRoots", name)
	}
}

// jsonTypes are the structs of the module, without its tests, that have names for JSON.
func jsonTypes(t *testing.T) []string {
	var names []string
	root := ".."
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains([]string{"testdata", "bench", "examples"}, d.Name()) || len(d.Name()) > 2 && d.Name()[0] == '.'):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok && slices.ContainsFunc(s.Fields.List, func(f *ast.Field) bool {
				return f.Tag != nil && strings.Contains(f.Tag.Value, "json:")
			}) {
				names = append(names, folder+"."+spec.Name.Name)
			}
			return true
		})
		return err
	}))
	return names
}

// Of two fields with one name encoding/json writes and reads only the one that is less deeply embedded, or none.
func TestD1_NoFieldHidesAnother(t *testing.T) {
	t.Parallel()
	for name, typ := range contractTypes() {
		where := map[string]string{}
		eachField(typ, "", func(path, key string, _ reflect.StructField) {
			require.Empty(t, where[key], "%s: %s and %s have the same name in JSON, %q", name, where[key], path, key)
			where[key] = path
		})
	}
}

// eachField calls yield with each field that a struct has in JSON, those of embedded structs included.
func eachField(t reflect.Type, within string, yield func(path, key string, f reflect.StructField)) {
	for i := range t.NumField() {
		f := t.Field(i)
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if key == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		embedded := f.Type
		if embedded.Kind() == reflect.Pointer {
			embedded = embedded.Elem()
		}
		if f.Anonymous && key == "" && embedded.Kind() == reflect.Struct {
			eachField(embedded, within+f.Name+".", yield)
			continue
		}
		if key == "" {
			key = f.Name
		}
		yield(within+f.Name, key, f)
	}
}

// An embedded struct's own methods for JSON would be those of the whole.
func TestD1_NoEmbeddedTypeEncodesTheWhole(t *testing.T) {
	t.Parallel()
	marshaler := reflect.TypeFor[json.Marshaler]()
	for name, typ := range contractTypes() {
		for i := range typ.NumField() {
			if f := typ.Field(i); f.Anonymous {
				require.False(t, f.Type.Implements(marshaler) || reflect.PointerTo(f.Type).Implements(marshaler),
					"%s: %s has its own form in JSON, which hides the other fields", name, f.Name)
			}
		}
	}
}

func TestD1_FilledValuesComeBackEqual(t *testing.T) {
	t.Parallel()
	for name, typ := range contractTypes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := reflect.New(typ)
			(&filler{}).fill(want.Elem(), 0)
			payload, err := converter.GetDefaultDataConverter().ToPayload(want.Interface())
			require.NoError(t, err)
			got := reflect.New(typ)
			require.NoError(t, converter.GetDefaultDataConverter().FromPayload(payload, got.Interface()), "%s", payload.Data)
			require.Equal(t, want.Interface(), got.Interface(), "%s", payload.Data)
		})
	}
}

// filler sets every field of a value, each to another number or text.
type filler struct{ n int64 }

// deepest bounds types that contain themselves.
const deepest = 12

func (f *filler) fill(v reflect.Value, depth int) {
	f.n++
	if depth > deepest || f.special(v) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		f.fill(v.Index(0), depth+1)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(key, depth+1)
		f.fill(value, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() && field.Tag.Get("json") != "-" {
				f.fill(v.Field(i), depth+1)
			}
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d <&>\u2028\x00\U0001F98A", f.n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(f.n)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(f.n))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(f.n) + 0.5)
	}
}

// special sets values of types that do not take any value.
func (f *filler) special(v reflect.Value) bool {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(f.n, f.n).UTC()))
	case time.Duration:
		v.SetInt(f.n * int64(time.Second))
	case json.RawMessage:
		v.Set(reflect.ValueOf(json.RawMessage(fmt.Sprintf(`{"value":%d}`, f.n))))
	default:
		return false
	}
	return true
}

// The contract is in two packages: what users see of it, and the rest.
func TestContract_IsInTwoPackages(t *testing.T) {
	t.Parallel()
	for name := range contractTypes() {
		assert.True(t, strings.HasPrefix(name, "job.") || strings.HasPrefix(name, "internal/wire."), name)
	}
}

// The schema of the contract is in a file, so that each change of it is seen in a diff.
func TestContract_Schema(t *testing.T) {
	t.Parallel()
	types := contractTypes()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(types)) {
		fmt.Fprintf(&b, "%s\n", name)
		eachField(types[name], "", func(path, key string, f reflect.StructField) {
			fmt.Fprintf(&b, "\t%s %s %s\n", key, path, strings.ReplaceAll(f.Type.String(), module+"/", ""))
		})
	}
	const file = "testdata/contract.txt"
	if *updateContract {
		require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String(), "the contract has changed: go test ./workflows -run TestContract -contract writes it anew")
}
