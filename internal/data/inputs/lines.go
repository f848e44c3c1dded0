package inputs

import (
	"context"

	"github.com/stint-run/stint/internal/data/records"
)

// Lines are the items of a batch as lines, on their way to a filter: nobody takes them apart, or holds them.
type Lines struct {
	r    *Range
	from *wholeSection
	sure bool
}

// Lines returns the batch's items as lines; nil if they do not lie so. None has been read before, and the Range gives
// none any more.
func (r *Range) Lines() *Lines {
	whole, ok := r.from.(*wholeSection)
	if !ok || !records.Lines(&r.source.Shape) {
		return nil
	}
	return &Lines{r: r, from: whole}
}

// Sure has Pass take items for ones in their format, unless they are too long: somebody compares them with such.
func (l *Lines) Sure() *Lines {
	l.sure = true
	return l
}

// Pass gives the lines to keep, and items that are not in their format to drop: see [records.Sieve.Pass].
func (l *Lines) Pass(ctx context.Context, keep records.Keep, drop records.Drop) error {
	sieve := records.NewSieve(l.r.source.Shape)
	if l.sure {
		sieve.Sure()
	}
	return sieve.Pass(ctx, l.from.in, l.r.batch.Count, keep, drop)
}

// Done counts all items as done, which Pass has given.
func (l *Lines) Done() {
	r := l.r
	r.read, r.readTo = r.batch.Count, r.batch.Length
	r.count, r.length = r.batch.Count, r.batch.Length
}
