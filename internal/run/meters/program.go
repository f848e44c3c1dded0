package meters

import (
	"context"
	"math"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

const (
	// maxPrograms is how many names programs may measure; the measurements of others are lost.
	maxPrograms = 100
	// maxName bounds their length in bytes; a longer one is cut.
	maxName = 100
)

// program is a counter or gauge that programs have defined.
type program struct {
	counter metric.Float64Counter // nil: it is a gauge

	mu     sync.Mutex
	gauges map[int]float64 // by slot
}

// Program records a measurement: a gauge's value replaces that of the slot, a counter's is added to the
// sum of all slots. It counts as lost if there are too many names, if the name is of the other kind, or
// if no counter can have the value.
func (m *Meters) Program(name string, gauge bool, slot int, value float64) {
	p := m.program(ProgramName(name), gauge)
	switch {
	case p == nil, !gauge && !(value >= 0 && value <= math.MaxFloat64):
		m.lost.Add(context.Background(), 1, m.with())
	case gauge:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.gauges[slot] = value
	default:
		p.counter.Add(context.Background(), value, m.with())
	}
}

// Forget ends the gauges of a slot whose process has ended.
func (m *Meters) Forget(slot int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.programs {
		p.mu.Lock()
		delete(p.gauges, slot)
		p.mu.Unlock()
	}
}

// program returns the counter or gauge of that name, or nil if there cannot be one.
func (m *Meters) program(name string, gauge bool) *program {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.programs[name]
	if p == nil && name != "" && len(m.programs) < maxPrograms {
		var err error
		if p, err = m.newProgram(name, gauge); err != nil {
			return nil
		}
		m.programs[name] = p
	}
	if p == nil || gauge != (p.counter == nil) {
		return nil
	}
	return p
}

func (m *Meters) newProgram(name string, gauge bool) (*program, error) {
	const help = "Measured by the pool's program."
	name = "stint_program_" + name
	if !gauge {
		counter, err := m.meter.Float64Counter(name, metric.WithDescription(help))
		return &program{counter: counter}, err
	}
	p := &program{gauges: map[int]float64{}}
	instrument, err := m.meter.Float64ObservableGauge(name, metric.WithDescription(help))
	if err != nil {
		return nil, err
	}
	err = m.register(func(_ context.Context, o metric.Observer) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		for slot, value := range p.gauges {
			o.ObserveFloat64(instrument, value, m.with(attribute.Int("slot", slot)))
		}
		return nil
	}, instrument)
	return p, err
}

// ProgramName turns a program's name of a measurement into one of letters, digits and underscores:
// anything else becomes an underscore, and the ending that counters get is removed.
func ProgramName(name string) string {
	if len(name) > maxName {
		name = name[:maxName]
	}
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, name)
	return strings.TrimSuffix(name, "_total")
}
