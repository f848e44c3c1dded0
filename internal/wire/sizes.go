package wire

import (
	"encoding/json"

	"github.com/stint-run/stint/internal/base/text"
)

// Temporal takes payloads of up to 2 MB, and what one workflow task answers, starts and accepts must be well below 4 MB
// together: else the workflow task fails each time, or the server ends the workflow. So whatever carries items,
// results, errors or texts of others counts the bytes that it has once it is encoded, not those of the values.
const (
	// MaxPayload is the most bytes of a payload.
	MaxPayload = 2 << 20
	// MaxCounted is the most bytes of a payload that are counted: the rest is for what has a few bytes, and is not.
	MaxCounted = MaxPayload - 256<<10
	// MaxTask is the most bytes of all payloads that one workflow task of a feed's leg sends. What it refuses is sent
	// back, too: up to MaxInFlight, where the server has that limit.
	MaxTask = 2 << 20
	// MaxInFlight bounds the arguments of the updates that are under way to a workflow at a time, where stint
	// configures the server.
	MaxInFlight = 1792 << 10
	// MaxInline is about the most bytes of outcomes of a feed's batch, or of a part between two stages, that travel in
	// answers of Process. Those of a larger one are in the store.
	MaxInline = 64 << 10
	// MaxAnswer is the most bytes of the results and parts of an [Exchanged]: [MaxExchangeBytes] of results in base64,
	// and some.
	MaxAnswer = 1400 << 10
)

// Size returns the most bytes that the items have as JSON.
func (items Items) Size() int {
	size := len(`{"base64":[]}`)
	for _, item := range items {
		size += ItemSize(item)
	}
	return size
}

// ItemSize returns the most bytes that an item has among [Items].
func ItemSize(item json.RawMessage) int { return text.Base64Size(len(item)) + len(",") }

// Size returns the most bytes that the result has as JSON, without its part.
func (r *ItemResult) Size() int {
	const numbers = 200
	return numbers + text.Base64Size(len(r.Result)) + text.Base64Size(len(r.Failure))
}

// Size returns the most bytes that the part's name has as JSON.
func (p *StoredPart) Size() int {
	const numbers = 200
	return numbers + text.JSONSize(p.Store) + text.JSONSize(p.Run) + text.JSONSize(p.Part)
}

// Size returns the most bytes that the lines have as JSON.
func (l *Lines) Size() int {
	return len(`{"r":,"e":}`) + text.Base64Size(len(l.Results)) + text.Base64Size(len(l.Errors))
}

// Size returns the most bytes that the part has as JSON.
func (p *Part) Size() int {
	const numbers = 250
	size := numbers + text.JSONSize(p.Run) + text.JSONSize(p.Token) + text.JSONSize(p.Format)
	if p.Inline != nil {
		size += p.Inline.Size()
	}
	return size
}

// Size returns the most bytes that the parcel has as JSON; nil has a few.
func (p *Parcel) Size() int {
	if p == nil {
		return len("null")
	}
	const number = len("4294967295,")
	size := 100 + text.JSONSize(p.Run) + number*len(p.Routed) + 60*len(p.Cuts)
	for i := range p.Parts {
		size += p.Parts[i].Size()
	}
	return size
}
