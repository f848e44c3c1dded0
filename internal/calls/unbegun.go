package calls

// UnbegunError says that a call was not begun, because the worker lacks something: a descriptor, a process, its program.
// That is no item's fault. The batch gives its items back, which costs no attempt.
type UnbegunError struct{ Err error }

func (e *UnbegunError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnbegunError) Unwrap() error { return e.Err }

// giveBack has the batch end, because calls of it cannot be begun.
func (m *Watch) giveBack(why *UnbegunError) {
	m.unbegun.CompareAndSwap(nil, why)
	m.end()
}

// Unbegun returns why calls of the batch could not be begun; nil if all could.
func (m *Watch) Unbegun() error {
	if why := m.unbegun.Load(); why != nil {
		return why
	}
	return nil
}
