// Package search has the search attributes of jobs.
package search

import (
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
)

// Attributes are what the server's own list can filter jobs by, as StintPool, StintState, StintPercent and StintFailed.
type Attributes struct {
	Pool    string
	State   job.State
	Percent int64 // done, when the job noted it last
	Failed  int64 // items, then
}

// Typed returns the search attributes as Temporal takes them.
func (s Attributes) Typed() temporal.SearchAttributes {
	return temporal.NewSearchAttributes(s.Updates()...)
}

// Updates returns what sets the search attributes.
func (s Attributes) Updates() []temporal.SearchAttributeUpdate {
	return []temporal.SearchAttributeUpdate{
		temporal.NewSearchAttributeKeyKeyword(wire.SearchPool).ValueSet(s.Pool),
		temporal.NewSearchAttributeKeyKeyword(wire.SearchState).ValueSet(string(s.State)),
		temporal.NewSearchAttributeKeyInt64(wire.SearchPercent).ValueSet(s.Percent),
		temporal.NewSearchAttributeKeyInt64(wire.SearchFailed).ValueSet(s.Failed),
	}
}

// Types returns the types of the attributes, by name.
func Types() map[string]enums.IndexedValueType {
	return map[string]enums.IndexedValueType{
		wire.SearchPool: enums.INDEXED_VALUE_TYPE_KEYWORD, wire.SearchState: enums.INDEXED_VALUE_TYPE_KEYWORD,
		wire.SearchPercent: enums.INDEXED_VALUE_TYPE_INT, wire.SearchFailed: enums.INDEXED_VALUE_TYPE_INT,
	}
}
