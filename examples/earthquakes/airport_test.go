package main

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func largeAirports(t testing.TB) airports {
	t.Helper()
	as, err := readAirports(filepath.Join("..", "data", "airports.csv"))
	require.NoError(t, err)
	return as
}

func TestReadAirports(t *testing.T) {
	t.Parallel()
	as := largeAirports(t)
	require.Len(t, as, 30)

	for name, c := range map[string]struct{ csv, want string }{
		"empty":     {"", "no header"},
		"no column": {"iata,latitude\nATL,33.6\n", "expected columns iata, latitude and longitude"},
		"bad place": {"iata,latitude,longitude\nATL,133.6,-84.4\n", "ATL: no place on Earth"},
		"no number": {"iata,latitude,longitude\nATL,north,-84.4\n", `ATL: strconv.ParseFloat: parsing "north"`},
		"too few":   {"iata,latitude,longitude\nATL,33.6,-84.4\n00M,0,0\n", "1 of the 30 large airports found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parseAirports(strings.NewReader(c.csv))
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := readAirports("nowhere.csv")
	require.ErrorContains(t, err, "opening the airports: open nowhere.csv")
}

func TestDistance(t *testing.T) {
	t.Parallel()
	const quarter = earthRadius * math.Pi / 2
	for _, c := range []struct {
		name                   string
		lat1, lon1, lat2, lon2 float64
		want                   float64
	}{
		{"nowhere", 34, -118, 34, -118, 0},
		{"a metre", 0, 0, 0.000009, 0, 0.001000756},
		{"pole to equator", 90, 12, 0, -170, quarter},
		{"over the date line", 0, 179, 0, -179, 2. / 90 * quarter},
		{"antipodes", 20, 30, -20, -150, 2 * quarter},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, err := pointAt(c.lat1, c.lon1)
			require.NoError(t, err)
			q, err := pointAt(c.lat2, c.lon2)
			require.NoError(t, err)
			require.InDelta(t, c.want, p.distance(q), 1e-6)
			require.Equal(t, p.distance(q), q.distance(p))
		})
	}
}

func TestPointAtRefusesWhatIsNotOnEarth(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]float64{{90.1, 0}, {-91, 0}, {0, 180.1}, {0, -181}, {math.NaN(), 0}, {0, math.NaN()}, {math.Inf(1), 0}} {
		_, err := pointAt(c[0], c[1])
		require.Error(t, err, "%v", c)
	}
}

// TestNearest compares with the plain way: the haversine distance to every airport.
func TestNearest(t *testing.T) {
	t.Parallel()
	as := largeAirports(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 1000 {
		lat := math.Asin(2*random.Float64()-1) * 180 / math.Pi
		lon := 360*random.Float64() - 180
		p, err := pointAt(lat, lon)
		require.NoError(t, err)
		best := math.Inf(1)
		for _, a := range as {
			best = min(best, haversine(p, a.at))
		}
		require.InDelta(t, best, as.nearest(p).at.distance(p), 1e-6, "latitude %v, longitude %v", lat, lon)
	}
}

// haversine works out latitudes and longitudes again.
func haversine(p, q point) float64 {
	lat1, lat2 := math.Asin(p.z), math.Asin(q.z)
	dLon := math.Atan2(q.y, q.x) - math.Atan2(p.y, p.x)
	h := math.Pow(math.Sin((lat2-lat1)/2), 2) + math.Cos(lat1)*math.Cos(lat2)*math.Pow(math.Sin(dLon/2), 2)
	return 2 * earthRadius * math.Asin(math.Sqrt(h))
}

func BenchmarkNearest(b *testing.B) {
	as := largeAirports(b)
	p, err := pointAt(61.2, -150)
	require.NoError(b, err)
	for b.Loop() {
		as.nearest(p)
	}
}
