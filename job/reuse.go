package job

import (
	"strings"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/location"
	"github.com/stint-run/stint/internal/base/text"
)

// Reuse has a job take results of an earlier run for items that have not changed, and keep its own for the next run. An
// item has not changed if what its handler gets is the same, and Version is. Items that failed or were dropped run
// again. The output is that of a run of all items. Only for jobs of files.
type Reuse struct {
	// Of names the job whose results are taken. Default: the last completed run of the job's own name.
	Of string `json:"of,omitempty"`
	// From is the store that has these results: the Store of the Reuse of that run. A client fills it in.
	From string `json:"from,omitempty"`
	// Store is the directory or bucket prefix that keeps the results of this run, once more, and an index of its items.
	// Default: the job's Store; if that has placeholders, the place before them with the job's name and ".reuse".
	Store string `json:"store,omitempty"`
	// Key names a field of the items, JSON objects or records, by which an item is known again: "id" or "a.b". It says
	// which items are new and which have changed. Default: an item is known by all that is in it.
	Key string `json:"key,omitempty"`
	// Changed names the one field that is compared to see whether an item has changed, beside Key. Default: all of them.
	Changed string `json:"changed,omitempty"`
	// Version is that of the handler, any text: results of another one are not taken.
	Version string `json:"version,omitempty"`
}

// New returns how many of the items done the earlier run did not have.
func (t Totals) New() int64 { return t.Done() - t.Reused - t.Changed - t.Again }

const (
	// maxReuseText bounds the texts of a Reuse that are no locations, in bytes as JSON: they lie in every index.
	maxReuseText = 500
	reuseSuffix  = ".reuse"
)

// reuseDefaults fills in where results are kept, and taken from.
func (s *Spec) reuseDefaults() {
	if s.Reuse == nil {
		return
	}
	r := *s.Reuse
	if r.Store == "" {
		r.Store = reuseStore(s.Store, s.Name)
	}
	setDefault(&r.From, r.Store)
	s.Reuse = &r
}

// reuseStore returns the place of what a job keeps in a store: all runs of a schedule have the same.
func reuseStore(store, name string) string {
	rest, query := location.SplitQuery(store)
	at := strings.IndexByte(rest, '{')
	if at < 0 {
		return store
	}
	if schedule, _, ok := limits.ScheduledName(name); ok {
		name = schedule
	}
	return upToSeparator(rest[:at]) + name + reuseSuffix + query
}

// checkReuse checks what the spec says about results of earlier runs.
func (s Spec) checkReuse() []error {
	r := s.Reuse
	if r == nil {
		return nil
	}
	var errs []error
	if r.Of != "" {
		errs = append(errs, limits.CheckName("job", r.Of))
	}
	if r.Changed != "" && r.Key == "" {
		errs = append(errs, fieldError("Reuse.Changed", "%s is compared with that of the item as it was: name the field by which items are known again, as Reuse.Key", r.Changed))
	}
	for _, t := range []struct{ field, value string }{{"Reuse.Key", r.Key}, {"Reuse.Changed", r.Changed}, {"Reuse.Version", r.Version}} {
		if text.JSONSize(t.value) > maxReuseText || !utf8.ValidString(t.value) {
			errs = append(errs, fieldError(t.field, "use up to %d bytes of UTF-8 as JSON", maxReuseText))
		}
	}
	for _, l := range []struct{ field, value string }{{"Reuse.From", r.From}, {"Reuse.Store", r.Store}} {
		if text.JSONSize(l.value) > maxLocation {
			errs = append(errs, fieldError(l.field, "%q is too long: at most %d bytes as JSON are allowed", text.Cut(l.value, 50), maxLocation))
		}
	}
	return errs
}
