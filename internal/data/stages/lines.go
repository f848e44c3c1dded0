package stages

import (
	"context"

	"github.com/stint-run/stint/internal/data/records"
)

// Lines are the results of an earlier step, on their way to a filter: nobody takes them apart, or holds them.
type Lines struct {
	s    *Source
	part *reader
}

// Lines returns the batch's items as lines; nil if they do not lie so: if the batch is not all of one part, if the step
// gets them otherwise than they were written, or if an earlier step has failed on some. None has been read before, and
// the Source gives none any more.
func (s *Source) Lines() *Lines {
	v := s.lines
	if len(v.parts) != 1 || len(v.view.Zip) > 0 || len(v.view.Pick) > 0 || v.view.Route != nil || v.view.Values {
		return nil
	}
	r := v.parts[0].lines
	if r.part.First != s.batch.First || r.part.Count != s.batch.Count || r.failure != nil {
		return nil
	}
	return &Lines{s, r}
}

// Pass gives the lines to keep, and items that are too long to drop: see [records.Sieve.Pass]. If a step before has
// dropped an item, it returns [records.ErrUnlike].
func (l *Lines) Pass(ctx context.Context, keep records.Keep, drop records.Drop) error {
	return records.NewGaplessSieve(l.s.shape.MaxItem).Pass(ctx, l.part.lines, l.s.batch.Count, keep, drop)
}

// Done counts all items as done, which Pass has given.
func (l *Lines) Done() {
	l.part.ordinal += l.s.batch.Count
	l.s.read, l.s.count = l.s.batch.Count, l.s.batch.Count
}
