package calls

// Subcall is a call of another handler on behalf of a call: of some of its items, in their order.
// The other items have their outcomes from elsewhere.
type Subcall struct {
	Call
	of     *Call
	answer Answer
}

// Sub makes a subcall of these items. If the other handler's code does not run in this process,
// outside says so: the call is then not left behind while it runs.
func (c *Call) Sub(items []Item, outside bool) *Subcall {
	s := &Subcall{Call: *c, of: c}
	s.Items, s.Answer, s.Keep, s.block, s.gate, s.expiries = items, &s.answer, false, nil, nil, 0
	s.Records = false // they are the caller's values
	if outside {
		c.firm.Store(true)
	}
	return s
}

// Merge adds the outcomes of the call's items to its answer: faults and drops if the verdict has them, holes for
// items that are called again, and those of the subcall for the others, as far as it has any. err is what the
// subcall came to. It returns the result of the call.
func (s *Subcall) Merge(verdicts []Outcome, err error) error {
	c := s.of
	c.firm.Store(false)
	if s.gone || c.gone {
		return errAbandoned
	}
	c.expiries += s.expiries
	if c.Keep = s.Keep; err != nil && !s.Keep {
		return err
	}
	mayBeShort := c.Ending() || c.lane.slowed.Load() > 0
	if got := s.answer.Count; err == nil && (got > len(s.Items) || got < len(s.Items) && !mayBeShort) {
		return LengthFault(len(s.Items), s.answer.Count)
	}
	var outcomes []Span
	s.answer.Each(func(o Span) { outcomes = append(outcomes, o) })
	for i, v := range verdicts {
		switch {
		case v.Later:
			c.Postpone(i, v.Fault, v.Tries)
		case v.Fault != nil:
			c.Answer.Fail(v.Fault, v.Tries)
		case v.Drop:
			c.Answer.Drop()
		case len(outcomes) == 0:
			return err // this item has no outcome, so those after it wait, too
		default:
			o := outcomes[0]
			outcomes = outcomes[1:]
			switch {
			case o.Later:
				c.Answer.hold(o.Fault)
			case o.Fault != nil:
				c.Answer.Fail(o.Fault, int(o.Tries))
			case o.Drop:
				c.Answer.Drop()
			default:
				c.Answer.Line(s.answer.Buf[o.start : o.End-1])
			}
		}
	}
	return err
}
