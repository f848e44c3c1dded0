package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// Tick is the item of a loop: see 'stint loop --help'.
type Tick struct {
	Slot int       `json:"slot"`
	Tick int64     `json:"tick"`
	Due  time.Time `json:"due"`
}

// Answer is what one probe has found.
type Answer struct {
	Tick  int64     `json:"tick"`
	Due   time.Time `json:"due"`
	Up    bool      `json:"up"`
	Code  int       `json:"code,omitempty"`  // HTTP status; 0: there was no answer
	Bytes int64     `json:"bytes,omitempty"` // of the answer
	Took  float64   `json:"took_ms"`
	Error string    `json:"error,omitempty"` // why there was no answer
}

// Probe asks one address.
type Probe struct{ URL string }

// limit bounds one probe.
const limit = 5 * time.Second

// Ask returns the handler: one request. That the address does not answer is an answer, not a failed tick.
func (p Probe) Ask(ctx context.Context, tick Tick) (Answer, error) {
	if p.URL == "" {
		return Answer{}, errors.New("no address given: set PROBE_URL")
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	a := Answer{Tick: tick.Tick, Due: tick.Due}
	began := time.Now()
	err := p.get(ctx, &a)
	a.Took = float64(time.Since(began).Microseconds()) / 1000
	if err != nil {
		a.Error = err.Error()
	}
	a.Up = err == nil && a.Code < http.StatusInternalServerError
	return a, nil
}

func (p Probe) get(ctx context.Context, a *Answer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	a.Code = response.StatusCode
	a.Bytes, err = io.Copy(io.Discard, response.Body)
	return err
}
