package wire

import (
	"encoding/json"

	"github.com/stint-run/stint/job"
)

// HelloFrame is the worker's first frame.
type HelloFrame struct {
	Type        string      `json:"type"`
	Version     int         `json:"version"`
	Worker      string      `json:"worker"`
	Slot        int         `json:"slot"`
	Incarnation int         `json:"incarnation"`
	MaxRestarts int         `json:"max_restarts"`
	Seed        int64       `json:"seed"`
	Concurrency int         `json:"concurrency"`
	Limits      FrameLimits `json:"limits"`
}

// FrameLimits are the limits that a program must observe.
type FrameLimits struct {
	Frame  int `json:"frame"`  // bytes
	Scope  int `json:"scope"`  // bytes
	Timers int `json:"timers"` // held at once
}

// CallFrame sends items, or one item if Item is set.
type CallFrame struct {
	ID    int64             `json:"id"`
	Items []json.RawMessage `json:"items"`
	Item  json.RawMessage   `json:"item"`
	CSV   bool              `json:"csv"` // the items are records of CSV
	// Traceparent is the call's span, as the W3C's header names it. Empty: nobody traces.
	Traceparent string `json:"traceparent"`
}

// AcquiredFrame answers an [AcquireFrame].
type AcquiredFrame struct {
	Type  string     `json:"type"`
	ID    int64      `json:"id"`
	Error *job.Error `json:"error,omitempty"`
}

// StoppingFrame announces that the job or the worker will end.
type StoppingFrame struct {
	Type   string  `json:"type"`
	Reason string  `json:"reason,omitempty"`
	Grace  float64 `json:"grace"` // seconds
}

// ByeFrame announces that no call follows.
type ByeFrame struct {
	Type string `json:"type"`
}

// ReadyFrame reports that the program can be called, or why it cannot.
type ReadyFrame struct {
	Type  string     `json:"type"`
	Name  string     `json:"name,omitempty"`
	Stack string     `json:"stack,omitempty"` // the signal that makes it write its stacks: USR1, QUIT …
	Error *job.Error `json:"error,omitempty"`
}

// ResultsFrame answers a call, or the next few items of one.
type ResultsFrame struct {
	Type    string        `json:"type"`
	ID      int64         `json:"id"`
	Results []ResultFrame `json:"results,omitempty"`
	Error   *job.Error    `json:"error,omitempty"` // of the whole call
	// RetryAfter says that the items without a result are to be called again after so many seconds: Error, which
	// may be nil, is why.
	RetryAfter *float64 `json:"retry_after,omitempty"`
	More       bool     `json:"more,omitempty"`
}

// ResultFrame is one item's: its value, or no result, or an error, or when it is to be called again.
type ResultFrame struct {
	Value json.RawMessage `json:"value,omitempty"`
	// NotJSON says that the value is not JSON, although the frame around it is: see [Decode].
	NotJSON bool `json:"-"`
	// Clean says that the value is known to be ASCII, and nested no deeper than [jsonscan.MaxDepth].
	Clean bool       `json:"-"`
	Drop  bool       `json:"drop,omitempty"`
	Error *job.Error `json:"error,omitempty"`
	// RetryAfter says that the item is to be called again after so many seconds: Error, which may be nil, is why.
	RetryAfter *float64 `json:"retry_after,omitempty"`
}

// AcquireFrame starts a timer.
type AcquireFrame struct {
	Type   string  `json:"type"`
	ID     int64   `json:"id"`
	Scope  string  `json:"scope"`
	After  float64 `json:"after"` // seconds
	Action string  `json:"action,omitempty"`
	Signal string  `json:"signal,omitempty"`
	Call   int64   `json:"call,omitempty"` // that is in the scope; 0: it is not said
}

// ReleaseFrame ends a timer.
type ReleaseFrame struct {
	Type  string `json:"type"`
	Scope string `json:"scope"`
}

// LogFrame is a message for the worker's log.
type LogFrame struct {
	Type    string         `json:"type"`
	Level   string         `json:"level"`
	Message string         `json:"message"`
	Fields  map[string]any `json:"fields,omitempty"`
	Call    int64          `json:"call,omitempty"` // that it is about; 0: it is not said
}

// MetricFrame is a measurement: of a counter, which it is added to, or of a gauge, which it replaces.
type MetricFrame struct {
	Type  string  `json:"type"`
	Name  string  `json:"name"`
	Kind  string  `json:"kind"`
	Value float64 `json:"value"`
}

// RequestStopFrame requests a stop of the job whose call is running.
type RequestStopFrame struct {
	Type   string     `json:"type"`
	Reason string     `json:"reason,omitempty"`
	Error  *job.Error `json:"error,omitempty"`
	Call   int64      `json:"call,omitempty"` // that requests it; 0: all that are under way
}

// CostFrame says what a call has used of services that are paid for.
type CostFrame struct {
	Type string `json:"type"`
	job.Usage
	Call int64 `json:"call,omitempty"` // that has used it; 0: one of those that are under way
}

// SlowDownFrame requests that no further call begins for a while.
type SlowDownFrame struct {
	Type  string  `json:"type"`
	After float64 `json:"after"`          // seconds
	Call  int64   `json:"call,omitempty"` // that requests it; 0: all that are under way
}
