package jobs

import "github.com/stint-run/stint/job"

// Percent is how much of a listed job was done when it last noted its progress. It is not ok if that is not known.
func (l Listed) Percent() (percent int64, ok bool) {
	p := l.Progress
	switch {
	case l.State == job.Completed:
		return 100, true
	case p == nil || l.Source != job.SourceFiles:
		return 0, false
	}
	return p.Percent()
}
