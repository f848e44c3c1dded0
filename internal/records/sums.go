package records

import "hash/crc32"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sums computes the CRC-32C of the bytes of a window up to a mark. It does so seldom, over many bytes at once: when the
// window moves on, and when somebody takes a sum.
type sums struct {
	from int    // in buf: what is summed up ends here
	sum  uint32 // up to there
	mark int    // in buf; below from: it has left the window
	at   uint32 // the sum up to the mark, if that has left the window
}

// pass sums up what leaves the window, which are the bytes before pos.
func (s *sums) pass(buf []byte, pos int) {
	if s.mark >= s.from {
		s.at = crc32.Update(s.sum, castagnoli, buf[s.from:s.mark])
		s.sum, s.from = s.at, s.mark
	}
	s.sum = crc32.Update(s.sum, castagnoli, buf[s.from:pos])
	s.from, s.mark = 0, -1
}

// take returns the sum of the bytes since it was last called up to the mark.
func (s *sums) take(buf []byte) uint32 {
	if s.mark < s.from { // the stream has ended, and only blank bytes were behind the mark
		return s.at
	}
	sum := crc32.Update(s.sum, castagnoli, buf[s.from:s.mark])
	s.sum, s.from = 0, s.mark
	return sum
}
