package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
)

// hubs are the large airports: the thirty large hubs in the statistics of the US Federal Aviation
// Administration for 2017, the year before the earthquakes. Each had at least one per cent of all
// passengers who boarded a flight in the country.
var hubs = []string{
	"ATL", "BOS", "BWI", "CLT", "DCA", "DEN", "DFW", "DTW", "EWR", "FLL",
	"HNL", "IAD", "IAH", "JFK", "LAS", "LAX", "LGA", "MCO", "MDW", "MIA",
	"MSP", "ORD", "PDX", "PHL", "PHX", "SAN", "SEA", "SFO", "SLC", "TPA",
}

// earthRadius is the Earth's mean radius, in kilometres.
const earthRadius = 6371.0088

// point is a place on the unit sphere. For points, the dot product falls as the distance grows.
type point struct{ x, y, z float64 }

// pointAt takes degrees north and east.
func pointAt(latitude, longitude float64) (point, error) {
	// Written so that NaN fails, too.
	if !(math.Abs(latitude) <= 90 && math.Abs(longitude) <= 180) {
		return point{}, fmt.Errorf("no place on Earth: latitude %v, longitude %v", latitude, longitude)
	}
	sinLat, cosLat := math.Sincos(latitude * math.Pi / 180)
	sinLon, cosLon := math.Sincos(longitude * math.Pi / 180)
	return point{cosLat * cosLon, cosLat * sinLon, sinLat}, nil
}

func (p point) dot(q point) float64 { return p.x*q.x + p.y*q.y + p.z*q.z }

// distance returns the distance along the great circle, in kilometres. Unlike the arc cosine of the dot
// product, the arc tangent is exact for points that are close together, too.
func (p point) distance(q point) float64 {
	cross := point{p.y*q.z - p.z*q.y, p.z*q.x - p.x*q.z, p.x*q.y - p.y*q.x}
	return earthRadius * math.Atan2(math.Sqrt(cross.dot(cross)), p.dot(q))
}

// airport is a large airport.
type airport struct {
	iata string
	at   point
}

// airports are all the large ones, their points computed once. They are only read, so any number
// of goroutines may use them.
type airports []airport

// nearest returns the airport nearest to p: the one with the largest dot product.
func (as airports) nearest(p point) airport {
	best, largest := 0, math.Inf(-1)
	for i := range as {
		if dot := as[i].at.dot(p); dot > largest {
			best, largest = i, dot
		}
	}
	return as[best]
}

// readAirports reads the large airports out of a list of airports: CSV with the columns iata,
// latitude and longitude.
func readAirports(path string) (airports, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the airports: %w", err)
	}
	defer f.Close()
	as, err := parseAirports(f)
	if err != nil {
		return nil, fmt.Errorf("reading the airports of %s: %w", path, err)
	}
	return as, nil
}

func parseAirports(r io.Reader) (airports, error) {
	records, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(records) == 0 {
		return nil, errors.New("no header")
	}
	iata := slices.Index(records[0], "iata")
	latitude := slices.Index(records[0], "latitude")
	longitude := slices.Index(records[0], "longitude")
	if min(iata, latitude, longitude) < 0 {
		return nil, fmt.Errorf("expected columns iata, latitude and longitude, the header is %q", records[0])
	}
	var as airports
	for _, record := range records[1:] {
		if !slices.Contains(hubs, record[iata]) {
			continue
		}
		at, err := parsePoint(record[latitude], record[longitude])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", record[iata], err)
		}
		as = append(as, airport{record[iata], at})
	}
	if len(as) != len(hubs) {
		return nil, fmt.Errorf("%d of the %d large airports found", len(as), len(hubs))
	}
	return as, nil
}

func parsePoint(latitude, longitude string) (point, error) {
	lat, latErr := strconv.ParseFloat(latitude, 64)
	lon, lonErr := strconv.ParseFloat(longitude, 64)
	if err := errors.Join(latErr, lonErr); err != nil {
		return point{}, err
	}
	return pointAt(lat, lon)
}
