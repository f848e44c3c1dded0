package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/base/jsonscan"
	"github.com/stint-run/stint/internal/base/text"
)

// A feed is a job whose items are put by clients. Its legs take them: a client sends [UpdateExchange] to the open leg,
// which accepts the items, or refuses them, and returns results. A leg that has taken many is sealed: it finishes what
// it has, and its successor takes new items.

// Names of a feed's legs and messages.
const (
	// WorkflowFeedLeg is the registered name of the workflow type of a feed's legs. They run on the pool's own queue,
	// so that their batches start eagerly.
	WorkflowFeedLeg = "FeedLeg"
	// UpdateExchange gives items to a leg and takes results from it: [Exchange], answered by [Exchanged].
	UpdateExchange = "exchange"
	// UpdateReset begins the next session: [Reset], answered by [ResetDone]. It is sent to the open leg.
	UpdateReset = "reset"
	// UpdateClose closes a feed: it takes no more items, and completes when it has done all. It is sent to the job, has
	// neither argument nor result, and can be repeated.
	UpdateClose = "close"
	// SignalBar has a leg take no more items, because the feed is stopping. Whoever requests a stop sends it to the
	// legs that may take items: until the job has told them of the stop they would. It has no argument.
	SignalBar = "bar"
	// QueryFeed returns, from a leg, its [FeedState].
	QueryFeed = "feed"
	// QueryItems returns, from a leg, what it knows of items that a client names by their ordinals: its argument is a
	// list of at most [MaxExchangeItems] ordinals, its result the [ItemState] of each that the leg has accepted.
	QueryItems = "items"
	// MemoLeg lies in the memo of a feed's job: the number of the leg that takes items; 0 until the first one does.
	MemoLeg = "stint_leg"
	// MemoFormat lies in the same memo: the format of the items.
	MemoFormat = "stint_format"
)

// Bounds of an exchange.
const (
	// MaxExchangeItems and MaxExchangeBytes bound the items of one exchange, and the results of one answer.
	MaxExchangeItems = 1000
	MaxExchangeBytes = 1 << 20
	// MaxExchangeWait is the longest that an exchange waits for results.
	MaxExchangeWait = 20 * time.Second
)

// Exchange is what a client gives to a leg of a feed, and asks of it. Its update ID is made of the client's token and a
// sequence number, so a client that does not know what has become of one sends it again, to the same leg: the server
// answers it with the outcome of the first.
type Exchange struct {
	// Client is the client's token. Results of items that it has put with Want are given to it alone.
	Client string `json:"c"`
	// Session is the session that the items are for; 0: the one that is open.
	Session int64 `json:"s,omitempty"`
	// Items are compact values in JSON. All of them are accepted, or none.
	Items Items `json:"i,omitempty"`
	// Want: the client takes the results of these items.
	Want bool `json:"w,omitempty"`
	// Wait is how long the leg may wait for results before it answers: up to [MaxExchangeWait]. 0: not at all.
	Wait time.Duration `json:"t,omitempty"`
}

// Exchanged is the answer to an [Exchange].
type Exchanged struct {
	// First is the ordinal of the first item accepted; the others follow. Session is theirs.
	First   int64 `json:"f"`
	Session int64 `json:"s"`
	// Results are those of the client's items that have not been given to it before, in the order in which they became
	// known. More says that there are others already.
	Results []ItemResult `json:"r,omitempty"`
	More    bool         `json:"m,omitempty"`
	// Parts are those that have the outcomes that are stored.
	Parts []StoredPart `json:"l,omitempty"`
	// Pending is how many items of the client have no result yet. If there are any, the client asks again after Again:
	// an exchange without items, which is refused as [RefusedNotYet] if it would come back empty.
	Pending int           `json:"p,omitempty"`
	Again   time.Duration `json:"a,omitempty"`
	// Ended says why nothing of the leg runs any more: one of the refusals [RefusedStopping] and [RefusedClosed];
	// empty: it runs. Items without a result have none then.
	Ended string `json:"e,omitempty"`
}

// Place sets the part of each stored result. It is called once, on an answer that has been received.
func (a *Exchanged) Place() {
	for i := range a.Results {
		if r := &a.Results[i]; r.At > 0 && r.At <= len(a.Parts) {
			r.Part = &a.Parts[r.At-1]
		}
	}
}

// ItemResult is the outcome of one item.
type ItemResult struct {
	Item    int64 `json:"o"` // ordinal
	Session int64 `json:"s"`
	// Result is a JSON value, as the handler gave it; nil if there is none. It travels in base64: as JSON within JSON
	// it would not keep its bytes, and could have six times as many.
	Result []byte `json:"r,omitempty"`
	// Failure is the item's error: a job.Failure without source, offset and input, in JSON. It travels like Result.
	Failure []byte `json:"e,omitempty"`
	Dropped bool   `json:"d,omitempty"` // the handler gave no result
	// Discarded: a reset has removed the item before it was run.
	Discarded bool `json:"x,omitempty"`
	// Stored: the outcome is too large to be sent, or has been kept for long enough. It lies in the feed's store.
	Stored bool `json:"l,omitempty"`
	// At says in which part, of the answer's Parts, from 1. 0: what the leg has not committed yet is in none.
	At int `json:"b,omitempty"`
	// Part is that part, for those who have read an answer.
	Part *StoredPart `json:"-"`
	// Queued is how long the item waited for its batch, Took how long the batch ran.
	Queued time.Duration `json:"q,omitempty"`
	Took   time.Duration `json:"t,omitempty"`
}

// StoredPart is a part in a feed's store: it has the outcomes of a batch.
type StoredPart struct {
	Store    string `json:"u"` // location, as in the job's spec
	Run      string `json:"r"` // below whose prefix the part lies
	Part     string `json:"p"` // token in its name
	First    int64  `json:"f"` // ordinal of the batch's first item
	Count    int64  `json:"n"` // items of the batch
	Bytes    int64  `json:"b,omitempty"`
	Sum      uint32 `json:"c,omitempty"` // CRC-32C
	ErrBytes int64  `json:"eb,omitempty"`
	ErrSum   uint32 `json:"ec,omitempty"`
}

// ItemState is where one item of a leg is.
type ItemState struct {
	Item   int64         `json:"o"`           // ordinal
	Left   bool          `json:"l,omitempty"` // it has left the queue: a batch has it, or it is done
	Queued time.Duration `json:"q,omitempty"` // how long it was, or has been, in the queue
}

// Types of the application errors with which an exchange or a reset is refused. A refusal leaves no trace. Its detail
// is a [Refusal].
const (
	RefusedFull     = "Full"         // the capacity is taken
	RefusedTooLarge = "TooLarge"     // the items would never fit
	RefusedMoved    = "Moved"        // the leg is sealed: ask the one that Refusal names
	RefusedEarly    = "Early"        // the leg is not open yet: ask again
	RefusedClosed   = "Closed"       // the feed is closed
	RefusedStopping = "Stopping"     // the feed is stopping, or has stopped
	RefusedSession  = "WrongSession" // the session is not the open one
	RefusedInvalid  = "Invalid"      // the request makes no sense
	RefusedNotYet   = "NotYet"       // there is no result to give, and no room to wait for one: ask again
)

// Refusal is the detail of a refused exchange.
type Refusal struct {
	Leg           int   `json:"leg,omitempty"` // that takes items now
	Session       int64 `json:"session,omitempty"`
	Capacity      int   `json:"capacity,omitempty"`
	CapacityBytes int64 `json:"capacity_bytes,omitempty"`
	Backlog       int   `json:"backlog,omitempty"` // items accepted and unfinished
	BacklogBytes  int64 `json:"backlog_bytes,omitempty"`
	// Again is when a client that has only asked for results should ask again.
	Again time.Duration `json:"again,omitempty"`
}

// Reset asks for the next session.
type Reset struct {
	// Session is the one that ends; 0: the open one, whatever its number.
	Session int64 `json:"s,omitempty"`
}

// ResetDone is the answer to a [Reset].
type ResetDone struct {
	Session   int64 `json:"s"` // that has begun
	Discarded int64 `json:"d"` // items of earlier sessions that the open leg had waiting
}

// Items are values in JSON, in compact form. In JSON they are a list of these values. But if encoding/json would escape
// a character of a value, which a filter would see, the whole list is an object, with each value in base64. Either way
// the values arrive byte for byte.
type Items []json.RawMessage

// quotedItems is how items travel which encoding/json would change.
type quotedItems struct {
	Base64 [][]byte `json:"base64"`
}

// MarshalJSON is that of json.Marshaler.
func (items Items) MarshalJSON() ([]byte, error) {
	for _, item := range items {
		if escapable(item) {
			quoted := quotedItems{Base64: make([][]byte, len(items))}
			for i := range items {
				quoted.Base64[i] = items[i]
			}
			return json.Marshal(quoted)
		}
	}
	return json.Marshal([]json.RawMessage(items))
}

// UnmarshalJSON is that of json.Unmarshaler.
func (items *Items) UnmarshalJSON(data []byte) error {
	if !bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) {
		return json.Unmarshal(data, (*[]json.RawMessage)(items))
	}
	var quoted quotedItems
	if err := json.Unmarshal(data, &quoted); err != nil {
		return fmt.Errorf("reading items: %w", err)
	}
	*items = make(Items, len(quoted.Base64))
	for i, value := range quoted.Base64 {
		if !json.Valid(value) {
			return errors.New("reading items: a value is not JSON")
		}
		(*items)[i] = value
	}
	return nil
}

// escapable reports whether encoding/json would escape a character of the value: <, >, &, U+2028 and U+2029.
func escapable(value []byte) bool {
	return bytes.ContainsAny(value, "<>&") || bytes.Contains(value, []byte("\u2028")) || bytes.Contains(value, []byte("\u2029"))
}

// ResultValue returns a line of a feed's results, which a filter may have written, as a JSON value: the line itself if
// it is one that every reader can take, or else a string of it, in which bytes that are not UTF-8 are U+FFFD.
func ResultValue(line []byte) json.RawMessage {
	if json.Valid(line) && utf8.Valid(line) && !jsonscan.TooDeep(line) {
		if bytes.IndexByte(line, '\r') < 0 {
			return line
		}
		return bytes.TrimSpace(bytes.ReplaceAll(line, []byte{'\r'}, []byte{' '})) // in JSON it is white space
	}
	data, err := text.JSON(string(line))
	if err != nil {
		return json.RawMessage("null")
	}
	return data
}
