package inputs

import (
	"fmt"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// checkCopy returns a permanent error if the copy of the source, of which so many bytes are known, is larger than
// it may be.
func checkCopy(s *wire.Source, dir store.Dir, bytes int64) error {
	if s.MaxInput == 0 || bytes <= s.MaxInput {
		return nil
	}
	name := "input " + s.URL
	if s.URL == stdinName {
		name = "the standard input"
	}
	return ledger.Permanent(job.ErrorInput, fmt.Errorf(
		"%s has more than %s bytes uncompressed, which is max-input, and is copied to %s: check the input, or start anew with a higher max-input",
		name, text.Thousands(s.MaxInput), dir.Location()))
}
