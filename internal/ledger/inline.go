package ledger

import (
	"fmt"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Check returns a permanent error unless these are the outcomes that the entry was made with.
func CheckInline(i *wire.Inline, e wire.Entry) error {
	got := e
	if err := i.Sums(&got); err != nil {
		return err
	}
	if got != e {
		return Permanent(job.ErrorCorrupt, fmt.Errorf("the outcomes of %s are not what was accepted: they have %d and %d bytes, %s and %s, and had %d and %d bytes, %s and %s",
			e.Batch, got.Bytes, got.ErrBytes, FormatSum(got.Sum), FormatSum(got.ErrSum), e.Bytes, e.ErrBytes, FormatSum(e.Sum), FormatSum(e.ErrSum)))
	}
	if _, err := i.Outcomes(e.Count); err != nil {
		return Permanent(job.ErrorCorrupt, err)
	}
	return nil
}
