package predict

import (
	"io"

	"github.com/stint-run/stint/internal/calls"
	"github.com/stint-run/stint/internal/inputs"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/timers"
)

// Options are the parts of a worker that a [Predictor] needs.
type Options struct {
	// Access opens inputs. Required; the caller closes it.
	Access *store.Access
	// Stdin is the input "-"; nil if there is none.
	Stdin io.Reader
	// Handler runs the calls of samples. Required for [Predictor.Try] only.
	Handler calls.Handler
	// Slots gives each call its place. Default: no limit.
	Slots calls.Slots
	// Watchdog looks after the timers of handlers that run in this process; nil if they have none.
	Watchdog *timers.Watchdog
}

// Predictor counts the items of jobs and tries samples of them. Make one with [New].
type Predictor struct {
	opts   Options
	inputs *inputs.Inputs
}

// New returns a Predictor. The caller must close it.
func New(o Options) *Predictor {
	if o.Slots == nil {
		o.Slots = calls.AnySlot{}
	}
	return &Predictor{opts: o, inputs: inputs.New(o.Access, o.Stdin)}
}

// Close frees the inputs.
func (f *Predictor) Close() { f.inputs.Close() }
