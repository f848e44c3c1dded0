// Package pace measures how fast a job is at present, by reports of it.
package pace

import (
	"slices"
	"time"

	"github.com/stint-run/stint/job"
)

const (
	// window is over which time a speed is taken.
	window = 15 * time.Second
	// steady is how long a speed stays although no further item is done: numbers come in steps.
	steady = 5 * time.Second
	// oldest is how old a report may be if there is no other one to compare with.
	oldest = time.Minute
)

// Pace keeps the latest reports of a run. The zero value has none. It is not safe for concurrent use.
type Pace struct{ looks []look }

// look is a report and its time.
type look struct {
	at     time.Time
	report job.Report
}

// Note keeps a report that was made at now. What it does not need of it is dropped.
func (p *Pace) Note(r job.Report, now time.Time) {
	r = job.Report{Outcomes: job.Outcomes{Totals: r.Totals}, Resumed: r.Resumed}
	p.looks = append(p.looks, look{now, r})
	p.looks = slices.DeleteFunc(p.looks, func(l look) bool { return now.Sub(l.at) > oldest })
	for len(p.looks) > 2 && now.Sub(p.looks[0].at) > window {
		p.looks = p.looks[1:]
	}
}

// Speed returns the speed up to the last report. It is not ok if too little is known to say: a speed of zero is ok once
// nothing has been done for some seconds.
func (p *Pace) Speed() (speed job.Speed, ok bool) {
	if len(p.looks) < 2 {
		return job.Speed{}, false
	}
	first, last := p.looks[0], p.looks[len(p.looks)-1]
	span := last.at.Sub(first.at)
	for i := len(p.looks) - 1; i > 0 && last.at.Sub(p.looks[i].at) < steady; i-- {
		if p.looks[i].report.Done() != p.looks[i-1].report.Done() {
			last = p.looks[i]
			break
		}
	}
	speed = last.report.SpeedSince(first.report, first.at, last.at)
	return speed, speed.Items > 0 || span >= steady
}
