package job

import (
	"fmt"
	"strconv"
	"strings"
)

// Tolerance is how many failed items a job puts up with: a number of items ("100", "0" for none), or
// a share of the items done ("5%", "0.1%"), which counts once [ToleranceItems] items are done and at
// the end. Empty, or "none": any number.
type Tolerance string

// ToleranceItems is from how many outcomes on a tolerance in percent is judged: a share of less says
// little.
const ToleranceItems = 1000

// Unlimited reports that any number of failed items is tolerated.
func (t Tolerance) Unlimited() bool { return t == "" || t == noneText }

// Validate returns an error where t is no tolerance.
func (t Tolerance) Validate() error {
	_, _, err := t.parse()
	return err
}

// parse gives the number of items, or the share in millionths.
func (t Tolerance) parse() (items, millionths int64, err error) {
	bad := fmt.Errorf("max-failed %q: write a number of items, such as 100, or a share, such as 5%%", string(t))
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

// Allowed is how many of so many items done may have failed; ok is false where any number may.
// final says that no other item will be done.
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
