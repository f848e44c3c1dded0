package job

import (
	"fmt"
	"strconv"
	"strings"
)

// Tolerance is how many failed items a job tolerates: a number of items ("100", "0" for none), or a
// share of the items done, above 0% and up to 100% ("5%", "0.1%"), which is checked once
// [ToleranceItems] items are done and at the end. Empty or "none": any number.
type Tolerance string

// ToleranceItems is the number of outcomes from which a tolerance in percent is checked: a share of
// fewer items says little.
const ToleranceItems = 1000

// Unlimited reports that any number of failed items is tolerated.
func (t Tolerance) Unlimited() bool { return t == "" || t == noneText }

// Validate returns an error if t is not a valid tolerance.
func (t Tolerance) Validate() error {
	_, _, err := t.parse()
	return err
}

const toleranceForm = "use a number of items, such as 100, or a share, such as 5%"

// parse returns the number of items, or the share in millionths.
func (t Tolerance) parse() (items, millionths int64, err error) {
	bad := fmt.Errorf("invalid tolerance %q: %s", string(t), toleranceForm)
	if t.Unlimited() {
		return 0, 0, nil
	}
	if share, ok := strings.CutSuffix(string(t), "%"); ok {
		v, err := strconv.ParseFloat(share, 64)
		if err != nil || !(v > 0 && v <= 100) {
			return 0, 0, bad
		}
		return 0, max(1, int64(float64(v*10_000)+0.5)), nil // the same on every processor
	}
	items, err = strconv.ParseInt(string(t), 10, 64)
	if err != nil || items < 0 {
		return 0, 0, bad
	}
	return items, 0, nil
}

// Allowed returns how many items may have failed if done items have an outcome. It is not ok if any
// number may. final says that no more items will be done.
func (t Tolerance) Allowed(done int64, final bool) (failed int64, ok bool) {
	items, millionths, err := t.parse()
	switch {
	case err != nil || t.Unlimited():
		return 0, false
	case millionths == 0:
		return items, true
	case done < ToleranceItems && !final:
		return 0, false
	}
	return done/1_000_000*millionths + done%1_000_000*millionths/1_000_000, true
}

// Exceeded reports whether more have failed than may.
func (t Tolerance) Exceeded(done, failed int64, final bool) bool {
	allowed, ok := t.Allowed(done, final)
	return ok && failed > allowed
}
