package main

import (
	"cmp"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"

	"github.com/stint-run/stint/worker"
)

// Event is a seismic event: the fields of a GeoJSON feature that are used here.
type Event struct {
	ID         string `json:"id"`
	Properties struct {
		Type      string   `json:"type"`
		Place     string   `json:"place"`
		Magnitude *float64 `json:"mag"` // null if unknown
	} `json:"properties"`
	Geometry struct {
		Coordinates []float64 `json:"coordinates"` // degrees east, degrees north, kilometres deep
	} `json:"geometry"`
}

// Nearest is the result for an Event.
type Nearest struct {
	ID         string   `json:"id"`
	Place      string   `json:"place"`
	Magnitude  *float64 `json:"magnitude"`
	Airport    string   `json:"airport"`     // IATA code
	DistanceKM float64  `json:"distance_km"` // to a hundred metres
}

// handler gives each slot the airports when it starts. A worker that cannot read them does not start.
var handler = worker.Stateful(loadAirports, nil, func(as airports) worker.Handler { return worker.Each(as.locate) })

// loadAirports reads the list that AIRPORTS names, by default the one beside this example.
func loadAirports(context.Context, worker.SlotInfo) (airports, error) {
	return readAirports(cmp.Or(os.Getenv("AIRPORTS"), filepath.Join("..", "data", "airports.csv")))
}

// locate takes one event at a time. Explosions and the like are dropped: they count as done and leave
// no line.
func (as airports) locate(_ context.Context, e Event) (Nearest, error) {
	if e.Properties.Type != "earthquake" {
		return Nearest{}, worker.Drop
	}
	if len(e.Geometry.Coordinates) < 2 {
		return Nearest{}, errors.New("the earthquake has no coordinates")
	}
	at, err := pointAt(e.Geometry.Coordinates[1], e.Geometry.Coordinates[0])
	if err != nil {
		return Nearest{}, err
	}
	a := as.nearest(at)
	return Nearest{
		ID: e.ID, Place: e.Properties.Place, Magnitude: e.Properties.Magnitude,
		Airport: a.iata, DistanceKM: math.Round(a.at.distance(at)*10) / 10,
	}, nil
}
