package job

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stretchr/testify/require"
)

// valid returns a spec that can be carried out, with its defaults filled in.
func valid() Spec {
	return Spec{Name: "nightly", Pool: "thumbs", Files: &Files{Input: []string{"in.jsonl"}}, Output: "out.jsonl"}.WithDefaults()
}

func TestSpec_Defaults(t *testing.T) {
	t.Parallel()
	require.Equal(t, Spec{
		Name: "nightly", Pool: "thumbs", Files: &Files{Input: []string{"in.jsonl"}, MaxInput: 1 << 40, Flush: time.Second}, Output: "out.jsonl",
		Format: "auto", MaxItem: 16 << 20, Expiry: 30 * time.Second, CallTimeout: 10 * time.Minute,
		Priority: 3, Attempts: 3, ItemAttempts: 1, Backoff: time.Second, Grace: 120 * time.Second,
		Store: "out.jsonl.stint", Errors: "out.jsonl.errors.jsonl", OnError: OnErrorRecord, CleanStop: []string{limits.CleanStopType},
	}, valid())
	require.NoError(t, valid().Validate())
	require.Equal(t, valid(), valid().WithDefaults(), "filling in twice changes nothing")
}

func TestSpec_DefaultsLeaveWhatIsSet(t *testing.T) {
	t.Parallel()
	set := Spec{
		Name: "n", Pool: "p", Stages: []Stage{{Name: "s", Pool: "p"}}, Feed: &Feed{Capacity: 1, CapacityBytes: 2, BatchWait: 3, Keep: 4}, Loop: &Loop{Slots: 5, Every: 6, CatchUp: catchUpSkip},
		Files: &Files{Input: []string{"i"}, Delimiter: ";", Quote: "none", MaxInput: 2, Flush: 4}, Format: "csv", Columns: []string{"c"}, MaxItem: 1, Output: "o{}", Split: "f", Flatten: true, Unique: true, Dropped: "d", Errors: "e", Report: "r", Store: "s",
		Reuse: &Reuse{Of: "j", From: "f", Store: "k", Key: "id", Changed: "v", Version: "1"}, BatchItems: 1, BatchBytes: 2, Window: 3, Expiry: 4 * time.Second, CallTimeout: NoLimit, BatchTimeout: 5, Attempts: 6,
		Priority: 2, Pin: "v2", ItemAttempts: 7, Backoff: 8 * time.Millisecond, Retry: []Retry{"kind=crash attempts=9"}, NoRetry: []string{"Bad"}, Grace: time.Nanosecond,
		OnError: OnErrorStop, MaxFailed: "9%", CleanStop: []string{"Done"}, IgnoreStragglers: true, JobRate: 10,
		RequestRate: 11, TokenRate: 12, LimitBy: "f", MaxCost: 13, MaxTokens: 14, Deadline: "1h",
		Init: []string{"a"}, Shutdown: []string{"b"}, Cleanup: []string{"c"},
	}
	require.Equal(t, set, set.WithDefaults())
	// A new field must come into this test.
	value := reflect.ValueOf(set)
	for i := range value.NumField() {
		require.False(t, value.Field(i).IsZero(), "field %s", value.Type().Field(i).Name)
	}
}

// S5: an empty list means the default; that no error stops the job cleanly has a value of its own, which comes back
// from histories.
func TestSpec_StopsCleanly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		given, clean, not []string
	}{
		{nil, []string{limits.CleanStopType}, []string{"", "Other", limits.NoCleanStop}},
		{[]string{}, []string{limits.CleanStopType}, []string{"Other"}},
		{[]string{"Done"}, []string{"Done"}, []string{limits.CleanStopType}},
		{[]string{limits.NoCleanStop}, nil, []string{limits.CleanStopType, "", limits.NoCleanStop}},
	} {
		s := valid()
		s.CleanStop = c.given
		s = s.WithDefaults()
		require.NoError(t, s.Validate())
		data, err := json.Marshal(s)
		require.NoError(t, err)
		var kept Spec
		require.NoError(t, json.Unmarshal(data, &kept))
		kept = kept.WithDefaults()
		for _, kind := range c.clean {
			require.True(t, kept.StopsCleanly(kind), "%v %s", c.given, kind)
		}
		for _, kind := range c.not {
			require.False(t, kept.StopsCleanly(kind), "%v %s", c.given, kind)
		}
	}
}

func TestSpec_DefaultLocations(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, output, store, errors string
	}{
		{"none", "", "", ""},
		{"file", "out.jsonl", "out.jsonl.stint", "out.jsonl.errors.jsonl"},
		{"path", "/data/out.jsonl", "/data/out.jsonl.stint", "/data/out.jsonl.errors.jsonl"},
		{"file with a question mark", "what?.jsonl", "what?.jsonl.stint", "what?.jsonl.errors.jsonl"},
		{"directory", "out/", "out/", "out/errors.jsonl"},
		{"root", "/", "/", "/errors.jsonl"},
		{"prefix with an empty query", "s3://b/out/?", "s3://b/out/?", "s3://b/out/errors.jsonl?"},
		{"object", "s3://b/out.jsonl", "s3://b/out.jsonl.stint", "s3://b/out.jsonl.errors.jsonl"},
		{"prefix", "s3://b/out/", "s3://b/out/", "s3://b/out/errors.jsonl"},
		{
			"object with a query", "s3://b/out.jsonl?region=eu-west-1&profile=x",
			"s3://b/out.jsonl.stint?region=eu-west-1&profile=x", "s3://b/out.jsonl.errors.jsonl?region=eu-west-1&profile=x",
		},
		{
			"prefix with a query", "s3://b/out/?endpoint=http://localhost:9000",
			"s3://b/out/?endpoint=http://localhost:9000", "s3://b/out/errors.jsonl?endpoint=http://localhost:9000",
		},
		{
			"object whose query ends in a slash", "s3://b/out.jsonl?endpoint=http://localhost:9000/",
			"s3://b/out.jsonl.stint?endpoint=http://localhost:9000/", "s3://b/out.jsonl.errors.jsonl?endpoint=http://localhost:9000/",
		},
		{ // only name=value pairs after the last question mark are a query: package store says so
			"object with a question mark", "s3://b/what?/out.jsonl",
			"s3://b/what?/out.jsonl.stint", "s3://b/what?/out.jsonl.errors.jsonl",
		},
		{
			"object with a question mark and a query", "s3://b/what?/out.jsonl?region=r",
			"s3://b/what?/out.jsonl.stint?region=r", "s3://b/what?/out.jsonl.errors.jsonl?region=r",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := Spec{Output: test.output}.WithDefaults()
			require.Equal(t, test.store, s.Store)
			require.Equal(t, test.errors, s.Errors)

			s = Spec{Output: test.output, Store: "elsewhere/", Errors: "failed.jsonl"}.WithDefaults()
			require.Equal(t, "elsewhere/", s.Store)
			require.Equal(t, "failed.jsonl", s.Errors)
		})
	}
}

func TestSpec_Validate(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	tests := []struct {
		field   string
		good    []func(*Spec)
		bad     []func(*Spec)
		problem string
	}{
		{
			"name",
			[]func(*Spec){func(s *Spec) { s.Name = "a-1" }},
			[]func(*Spec){func(s *Spec) { s.Name = "" }, func(s *Spec) { s.Name = "A" }, func(s *Spec) { s.Name = strings.Repeat("a", 201) }},
			"job name",
		},
		{
			"pool",
			[]func(*Spec){func(s *Spec) { s.Pool = "0" }},
			[]func(*Spec){func(s *Spec) { s.Pool = "" }, func(s *Spec) { s.Pool = "a.io" }},
			"pool name",
		},
		{
			"input",
			[]func(*Spec){func(s *Spec) { s.Files.Input = []string{"a", "b"} }},
			[]func(*Spec){func(s *Spec) { s.Files.Input = nil }, func(s *Spec) { s.Files.Input = []string{} }},
			"no input",
		},
		{"empty input", nil, []func(*Spec){func(s *Spec) { s.Files.Input = []string{"a", ""} }}, "Input 2 of 2 is empty"},
		{
			"job rate",
			[]func(*Spec){func(s *Spec) { s.JobRate = 0 }, func(s *Spec) { s.JobRate = limits.MaxRate }},
			[]func(*Spec){func(s *Spec) { s.JobRate = -1 }, func(s *Spec) { s.JobRate = limits.MaxRate + 1 }},
			"JobRate",
		},
		{
			"format",
			[]func(*Spec){
				func(s *Spec) { s.Format = "auto" }, func(s *Spec) { s.Format = "jsonl" },
				func(s *Spec) { s.Format = "csv" }, func(s *Spec) { s.Format = "text" },
				func(s *Spec) { s.Format = "tsv" }, func(s *Spec) { s.Format = "json" },
			},
			[]func(*Spec){func(s *Spec) { s.Format = "" }, func(s *Spec) { s.Format = "parquet" }, func(s *Spec) { s.Format = "CSV" }},
			"Format",
		},
		{
			"delimiter",
			[]func(*Spec){
				func(s *Spec) { s.Files.Delimiter = ";" }, func(s *Spec) { s.Files.Delimiter, s.Format = "\t", "csv" }, func(s *Spec) { s.Files.Delimiter, s.Format = "|", "tsv" },
				func(s *Spec) { s.Files.Delimiter = `\t`; *s = s.WithDefaults() },
			},
			[]func(*Spec){
				func(s *Spec) { s.Files.Delimiter = `"` }, func(s *Spec) { s.Files.Delimiter = "\n" }, func(s *Spec) { s.Files.Delimiter = "\r" }, func(s *Spec) { s.Files.Delimiter = "\x00" },
				func(s *Spec) { s.Files.Delimiter = "é" }, func(s *Spec) { s.Files.Delimiter = "\xff" }, func(s *Spec) { s.Files.Delimiter = "::" },
			},
			"Delimiter",
		},
		{
			"delimiter of another format", nil,
			[]func(*Spec){func(s *Spec) { s.Files.Delimiter, s.Format = ";", "jsonl" }, func(s *Spec) { s.Files.Delimiter, s.Format = ";", "text" }},
			`Delimiter ";": it is for csv`,
		},
		{
			"names",
			[]func(*Spec){func(s *Spec) { s.Files.Names = true }, func(s *Spec) { s.Files.Names, s.Files.Input = true, []string{"s3://b/p/"} }},
			[]func(*Spec){
				func(s *Spec) { s.Files.Names, s.Files.Input = true, []string{"a", "-"} }, func(s *Spec) { s.Files.Names, s.Format = true, "csv" },
				func(s *Spec) { s.Files.Names, s.Files.Delimiter = true, ";" }, func(s *Spec) { s.Files.Names, s.Files.Quote = true, "none" },
			},
			"Files.Names is",
		},
		{
			"other format",
			[]func(*Spec){func(s *Spec) { s.Files.OtherFormat = "text" }, func(s *Spec) { s.Files.OtherFormat, s.Format = "csv", "jsonl" }},
			[]func(*Spec){func(s *Spec) { s.Files.OtherFormat = "auto" }, func(s *Spec) { s.Files.OtherFormat = "xml" }},
			`Files.OtherFormat "`,
		},
		{
			"quote, D29",
			[]func(*Spec){func(s *Spec) { s.Files.Quote = `"` }, func(s *Spec) { s.Files.Quote, s.Format = "none", "csv" }, func(s *Spec) { s.Files.Quote, s.Format = `"`, "tsv" }},
			[]func(*Spec){func(s *Spec) { s.Files.Quote = "'" }, func(s *Spec) { s.Files.Quote, s.Format = `"`, "jsonl" }},
			"Quote",
		},
		{
			"input that is not UTF-8, D33", []func(*Spec){func(s *Spec) { s.Files.Input = []string{"file:///caf%E9"} }},
			[]func(*Spec){func(s *Spec) { s.Files.Input = []string{"/caf\xe9"} }}, "file:///caf%E9",
		},
		{
			"columns",
			[]func(*Spec){
				func(s *Spec) { s.Output, s.Columns = "out.csv", []string{"a", "B c"} },
				func(s *Spec) { s.Output, s.Columns = "s3://b/out.TSV?region=r", []string{"a"} },
			},
			[]func(*Spec){
				func(s *Spec) { s.Columns = []string{"a"} },
				func(s *Spec) { s.Output, s.Columns = "out.csv/", []string{"a"} },
				func(s *Spec) { s.Output, s.Columns = "out.csv", []string{"a", ""} },
				func(s *Spec) { s.Output, s.Columns = "out.csv", []string{"a", "b", "a"} },
				func(s *Spec) { s.Output, s.Columns = "out.csv", make([]string, limits.MaxColumns+1) },
			},
			"Columns",
		},
		{
			"clean stop",
			[]func(*Spec){func(s *Spec) { s.CleanStop = []string{limits.NoCleanStop} }, func(s *Spec) { s.CleanStop = []string{"A", "B"} }},
			[]func(*Spec){func(s *Spec) { s.CleanStop = []string{"A", limits.NoCleanStop} }},
			"CleanStop",
		},
		{
			"store",
			[]func(*Spec){func(s *Spec) { s.Output, s.Store = "", "parts/" }},
			[]func(*Spec){func(s *Spec) { s.Output, s.Store = "", "" }},
			"no output",
		},
		{"max-item", at(1, 1<<30, setMaxItem), at(-1, 1<<30+1, setMaxItem), "MaxItem"},
		{"max-input", at(1, 1<<60, setMaxInput), at(-1, 1<<60+1, setMaxInput), "MaxInput"},
		{"batch-items", at(0, 10_000_000, setBatchItems), at(-1, 10_000_001, setBatchItems), "BatchItems"},
		{"batch-bytes", at(0, 1<<30, setBatchBytes), at(-1, 1<<30+1, setBatchBytes), "BatchBytes"},
		{"window", at(0, 10_000, setWindow), at(-1, 10_001, setWindow), "Window"},
		{"priority", at(1, 5, setPriority), at(-1, 6, setPriority), "Priority"},
		{"attempts", at(1, 1000, setAttempts), at(-1, 1001, setAttempts), "Attempts"},
		{"item-attempts", at(1, 1000, setItemAttempts), at(-1, 1001, setItemAttempts), "ItemAttempts"},
		{"expiry", span(time.Second, 24*time.Hour, setExpiry), span(time.Second-1, 24*time.Hour+1, setExpiry), "Expiry"},
		{"no expiry", nil, span(NoLimit, -1, setExpiry), "Expiry"},
		{"call-timeout", span(time.Millisecond, 10*year, setCallTimeout), span(time.Millisecond-1, 10*year+1, setCallTimeout), "CallTimeout"},
		{"no call-timeout", span(NoLimit, NoLimit, setCallTimeout), span(-1, NoLimit-1, setCallTimeout), "CallTimeout"},
		{"batch-timeout", span(0, 10*year, setBatchTimeout), span(-1, 10*year+1, setBatchTimeout), "BatchTimeout"},
		{"backoff", span(time.Millisecond, time.Minute, setBackoff), span(time.Millisecond-1, time.Minute+1, setBackoff), "Backoff"},
		{"no backoff", nil, span(NoLimit, -1, setBackoff), "Backoff"},
		{"grace", span(1, 30*24*time.Hour, setGrace), span(-1, 30*24*time.Hour+1, setGrace), "Grace"},
		{"flush", span(10*time.Millisecond, time.Hour, setFlush), span(10*time.Millisecond-1, time.Hour+1, setFlush), "Flush"},
		{"no end of grace (S6)", nil, span(NoLimit, math.MinInt64, setGrace), "Grace"},
	}
	for _, test := range tests {
		t.Run(test.field, func(t *testing.T) {
			t.Parallel()
			for _, change := range test.good {
				s := valid()
				change(&s)
				require.NoError(t, s.Validate())
			}
			for _, change := range test.bad {
				s := valid()
				change(&s)
				require.ErrorContains(t, s.Validate(), test.problem)
			}
		})
	}
}

// at sets both ends of a range.
func at(lo, hi int64, set func(*Spec, int64)) []func(*Spec) {
	return []func(*Spec){func(s *Spec) { set(s, lo) }, func(s *Spec) { set(s, hi) }}
}

func span(lo, hi time.Duration, set func(*Spec, time.Duration)) []func(*Spec) {
	return []func(*Spec){func(s *Spec) { set(s, lo) }, func(s *Spec) { set(s, hi) }}
}

func setMaxInput(s *Spec, v int64)             { s.Files.MaxInput = v }
func setMaxItem(s *Spec, v int64)              { s.MaxItem = v }
func setBatchItems(s *Spec, v int64)           { s.BatchItems = v }
func setBatchBytes(s *Spec, v int64)           { s.BatchBytes = v }
func setPriority(s *Spec, v int64)             { s.Priority = int(v) }
func setWindow(s *Spec, v int64)               { s.Window = int(v) }
func setAttempts(s *Spec, v int64)             { s.Attempts = int(v) }
func setItemAttempts(s *Spec, v int64)         { s.ItemAttempts = int(v) }
func setExpiry(s *Spec, v time.Duration)       { s.Expiry = v }
func setCallTimeout(s *Spec, v time.Duration)  { s.CallTimeout = v }
func setBatchTimeout(s *Spec, v time.Duration) { s.BatchTimeout = v }
func setBackoff(s *Spec, v time.Duration)      { s.Backoff = v }
func setGrace(s *Spec, v time.Duration)        { s.Grace = v }
func setFlush(s *Spec, v time.Duration)        { s.Files.Flush = v }

// An output that is also an input, or another output, would replace it.
func TestSpec_SameLocation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec    Spec
		problem string // empty: valid
	}{
		{Spec{Files: &Files{Input: []string{"a.jsonl"}}, Output: "a.jsonl"}, "Output a.jsonl is also an input"},
		{Spec{Files: &Files{Input: []string{"x", "dir/../a.jsonl"}}, Output: "./a.jsonl"}, "Output ./a.jsonl is also an input"},
		{Spec{Files: &Files{Input: []string{"/data/a"}}, Output: "file:///data/a"}, "Output file:///data/a is also an input"},
		{Spec{Files: &Files{Input: []string{"s3://b/a?region=r"}}, Output: "s3://b/a?region=r"}, "is also an input"},
		{Spec{Files: &Files{Input: []string{"s3://b/a"}}, Output: "s3://b/a?region=r"}, "is also an input"},
		{Spec{Files: &Files{Input: []string{"s3://b/a?region=r&profile=x"}}, Output: "b", Report: "s3://b/a?"}, "Report s3://b/a? is also an input"},
		{Spec{Files: &Files{Input: []string{"dir"}}, Output: "dir/"}, "Output dir/ is also an input"},
		{Spec{Files: &Files{Input: []string{"a"}}, Output: "b", Errors: "a"}, "Errors a is also an input"},
		{Spec{Files: &Files{Input: []string{"a"}}, Output: "b", Report: "a"}, "Report a is also an input"},
		{Spec{Files: &Files{Input: []string{"a/"}}, Output: "b", Store: "a"}, "Store a is also an input"},
		{Spec{Files: &Files{Input: []string{"a"}}, Output: "b", Errors: "b"}, "Errors b is also the spec's Output"},
		{Spec{Files: &Files{Input: []string{"a"}}, Output: "b", Report: "b.errors.jsonl"}, "is also the spec's Errors"},
		{Spec{Files: &Files{Input: []string{"a"}}, Output: "b/"}, ""},
		{Spec{Files: &Files{Input: []string{"a/b"}}, Output: "a/b.out"}, ""},
		{Spec{Files: &Files{Input: []string{"s3://b/a?region=r"}}, Output: "s3://c/a?region=r"}, ""},
		{Spec{Files: &Files{Input: []string{"-"}}, Output: "b"}, ""},
		{Spec{Files: &Files{Input: []string{"a", "a"}}, Store: "b/"}, ""},
	} {
		c.spec.Name, c.spec.Pool = "nightly", "p"
		err := c.spec.WithDefaults().Validate()
		if c.problem == "" {
			require.NoError(t, err, "%+v", c.spec)
			continue
		}
		require.ErrorContains(t, err, c.problem)
		require.ErrorAs(t, err, new(*FieldError))
	}
}

func TestSpec_ValidateNamesEveryFault(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, Spec{}.Validate(), "set Files, Feed or Loop")
	err := Spec{Window: -1, Files: &Files{}}.Validate()
	for _, problem := range []string{
		"job name", "pool name", "no input", "Format", "no output", "MaxItem", "MaxInput", "Window", "Attempts", "ItemAttempts",
		"Expiry", "CallTimeout", "Backoff", "Grace", "Flush",
	} {
		require.ErrorContains(t, err, problem)
	}
}

// Specs lie in histories: a value must come back as it was, NoLimit included.
func TestSpec_JSON(t *testing.T) {
	t.Parallel()
	want := valid()
	want.CallTimeout, want.Grace, want.BatchItems, want.Report = NoLimit, time.Nanosecond, 12, "report.json"
	data, err := json.Marshal(want)
	require.NoError(t, err)
	var got Spec
	require.NoError(t, json.Unmarshal(data, &got))
	require.Equal(t, want, got)
}

// A spec goes along with every page, and must be a small payload.
func TestSpec_NamesOfInputs(t *testing.T) {
	t.Parallel()
	s := valid()
	s.Files.Input = slices.Repeat([]string{strings.Repeat("x", 126)}, 3584)
	require.NoError(t, s.Validate())
	s.Files.Input = append(s.Files.Input, "x")
	require.ErrorContains(t, s.Validate(), "the names of the 3,585 inputs take 458,755 bytes as JSON: at most 458,752 are allowed; name a directory")
	s.Files.Input = slices.Repeat([]string{strings.Repeat("<", 126)}, 1000)
	require.ErrorContains(t, s.Validate(), "the names of the 1,000 inputs take 758,000 bytes as JSON", "each takes six bytes where it is sent")
}

// Whatever makes a spec large: it is refused before anything is started.
func TestSpec_TooLarge(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("<", 1000)
	for name, c := range map[string]struct {
		change func(s *Spec)
		want   string
	}{
		"columns": {func(s *Spec) {
			s.Output = "out.csv"
			s.Columns = manyNames(10_000, "a column with a rather long name, of which there are many ")
		}, "the spec takes"},
		"clean stops": {func(s *Spec) { s.CleanStop = manyNames(300, long) }, "the spec takes"},
		"location":    {func(s *Spec) { s.Output = long }, "6,002 bytes as JSON: at most 2,048 are allowed"},
		"report":      {func(s *Spec) { s.Report = long }, "Report "},
		"field": {func(s *Spec) {
			s.Stages = []Stage{{Name: "s", Switch: "." + long, Cases: []Case{{Value: "a", Stage: Stage{Pool: "thumbs"}}}}}
		}, "a field's name may take at most"},
		"case": {func(s *Spec) {
			s.Stages = []Stage{{Name: "s", Switch: ".kind", Cases: []Case{{Value: long, Stage: Stage{Pool: "thumbs"}}}}}
		}, "it may take at most"},
		"stage": {func(s *Spec) {
			s.Stages = []Stage{{Name: strings.Repeat("a", 101), Stages: []Stage{{Name: strings.Repeat("b", 100), Pool: "thumbs"}}}}
		}, "is 202 bytes long with those of the stages around it: at most 200"},
		"loop": {func(s *Spec) {
			*s = Spec{Name: "loop", Pool: "p", Loop: &Loop{Slots: limits.MaxSlots}, CleanStop: manyNames(300, "the type of an error, of which there are a great many ")}
		}, "at most 10,158 are allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Spec{Name: "nightly", Pool: "thumbs", Files: &Files{Input: []string{"in.jsonl"}}, Output: "out.jsonl"}
			c.change(&s)
			require.ErrorContains(t, s.WithDefaults().Validate(), c.want)
		})
	}
}

func manyNames(n int, name string) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(name, i))
	}
	return all
}
