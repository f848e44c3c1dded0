package workflows

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/data/feeds"
	stored "github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/intake"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
)

// worstTexts are texts of at most so many bytes that take many more as JSON.
func worstTexts(bytes int) map[string]string {
	all := map[string]string{}
	for _, unit := range []string{"<", "\xff", "\x00", `"`, "\u2028", "😀", "a"} {
		all[fmt.Sprintf("%q", unit)] = strings.Repeat(unit, bytes/len(unit))
	}
	return all
}

// encoded is how many bytes a value has as a payload.
func encoded(t *testing.T, v any) int {
	t.Helper()
	payload, err := converter.GetDefaultDataConverter().ToPayload(v)
	require.NoError(t, err)
	return len(payload.GetData())
}

// longest are the names and numbers of a job that takes as many bytes as it can.
func longest(text string) wire.Ref {
	return wire.Ref{Job: strings.Repeat("j", 200), Run: strings.Repeat("r", 36), Born: 1 << 50, Store: text, Sources: text}
}

// largestPayloads are the largest values, for a text of 64 KiB, that cross updates, activities, signals and queries: as
// large as the code that makes them allows.
func largestPayloads(t *testing.T, text string) map[string]any {
	all := map[string]any{}
	location := text[:min(len(text), 2000)]
	all["a put of one item"] = wire.Exchange{Client: "c", Want: true, Items: wire.Items{jsonOf(strings.Repeat(text, 17)[:wire.MaxExchangeBytes-2])}}
	var many wire.Items
	for range wire.MaxExchangeItems {
		many = append(many, jsonOf(text[:wire.MaxExchangeBytes/wire.MaxExchangeItems-2]))
	}
	all["a put of a thousand"] = wire.Exchange{Client: "c", Want: true, Items: many}
	all["a batch"] = wire.ProcessInput{Ref: longest(location), Batch: wire.Batch{Count: 1}, Items: all["a put of one item"].(wire.Exchange).Items}

	fault := job.Failure{Kind: job.KindError, Error: calls.Bounded(job.Error{Type: text, Message: text, Stack: text}), Source: location, Input: json.RawMessage("null")}
	shape := &wire.Shape{Format: records.JSONL}
	sink := feeds.NewSink("run", 0, nil)
	for range 1000 { // until it would write to the store
		line := stored.NewErrorLine(0, fault, shape, &records.Item{Raw: []byte("1"), Size: 1})
		if line.Size()+inlineOf(sink).Size() > wire.MaxInline {
			line.Failure.Error.Message, line.Failure.Error.Stack = text[:100], ""
		}
		if line.Size()+inlineOf(sink).Size() > wire.MaxInline {
			break
		}
		require.NoError(t, sink.Note(t.Context(), line))
	}
	lines := &wire.Lines{Results: make([]byte, wire.MaxInline)}
	result := wire.ProcessResult{
		Entry: wire.Entry{Batch: wire.Batch{First: 1 << 50, Count: 1000}}, Inline: inlineOf(sink), FirstError: stored.FirstError(fault),
		Written: &wire.Part{Run: "r", Token: "t", Inline: lines}, Worker: location,
	}
	all["the answer of a batch"] = result
	all["the answer of an exchange"] = largestAnswer(t, text, location)
	return all
}

// jsonOf is a text as a value of JSON that is nearly as long: bytes that need an escape stay as they are where JSON
// allows it.
func jsonOf(text string) json.RawMessage {
	value := []byte(`"` + text + `"`)
	for i, b := range value[1 : len(value)-1] {
		if b < ' ' || b == '"' || b == '\\' {
			value[i+1] = '<'
		}
	}
	return value
}

func inlineOf(s *feeds.Sink) *wire.Inline { return s.Inline() }

// largestAnswer is what a client gets for whom as much waits as can: results, errors, and many parts.
func largestAnswer(t *testing.T, text, location string) wire.Exchanged {
	in := intake.New(intake.Limits{Capacity: limits.MaxCapacity, Bytes: limits.MaxCapacityBytes, Keep: time.Hour})
	in.Open(wire.Opening{First: 1 << 50, Session: 1 << 50})
	now := time.Unix(1<<30, 0)
	var items wire.Items
	for range 1000 {
		items = append(items, json.RawMessage("1"))
	}
	in.Accept(wire.Exchange{Client: "c", Want: true, Items: items}, now)
	for i := range int64(1000) {
		b, ok := in.Take(intake.Limit{Items: 1, Bytes: 1 << 20, Wanted: 1 << 20}, now)
		require.True(t, ok)
		switch i % 3 {
		case 0:
			in.Finish(b, []wire.Outcome{{Result: []byte(text)}}, now.Add(time.Hour))
		case 1:
			in.Finish(b, []wire.Outcome{{Failure: &job.Failure{Error: job.Error{Message: text[:wire.MaxInline/8]}}}}, now)
		default:
			in.FinishStored(b, &wire.StoredPart{Store: location, Run: location, Part: "p", First: 1 << 50}, now)
		}
	}
	most := wire.Exchanged{First: 1 << 50, Session: 1 << 50, Ended: wire.RefusedStopping}
	for size := 0; ; {
		counted := in.AnswerSize("c")
		results, parts, more := in.Collect("c", now)
		a := wire.Exchanged{Results: results, Parts: parts, More: more}
		require.LessOrEqual(t, encoded(t, a), counted+1000, "it is counted")
		if n := encoded(t, a); n > size {
			most.Results, most.Parts, size = results, parts, n
		}
		if !more {
			return most
		}
	}
}

// TestD3_LargestPayloads: the largest value of each message of a feed, with the texts that take the most bytes as JSON,
// is far below the limit.
func TestD3_LargestPayloads(t *testing.T) {
	t.Parallel()
	for name, text := range worstTexts(64 << 10) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for what, value := range largestPayloads(t, text) {
				require.LessOrEqual(t, encoded(t, value), wire.MaxCounted, what)
			}
		})
	}
}
