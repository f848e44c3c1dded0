package calls

// halve gives each half one try and a single item one more; tries have been made of the whole.
func (c *Caller) halve(items []Item, tries int) error {
	c.Isolations++
	middle := len(items) / 2
	for _, half := range [][]Item{items[:middle], items[middle:]} {
		if c.Lane.watch.Ending.Load() {
			return ErrEnding
		}
		rest, fault, err := c.call(half, true, nil)
		if fault != nil && !fault.Full && len(rest) == 1 {
			c.Retries++
			if rest, fault, err = c.call(rest, true, nil); fault != nil && len(rest) == 1 {
				c.failAlone(fault, tries+2)
				continue
			}
		}
		switch {
		case fault != nil && fault.Full:
			err = c.inPieces(rest)
		case fault != nil && len(rest) > 0:
			err = c.halve(rest, tries+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
