package job

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/text"
)

// Retry is a rule by which items are tried again whose failure it selects: the conditions of a [Where] on kind, type,
// message and stage, which has to be one of the job's, attempts=N, how often an item is tried, 1 … 1,000, and perhaps
// backoff=D, the wait before the first further try, 1 ms … 1 min, which doubles up to one minute (default: that of the
// job). "type=RateLimit attempts=10 backoff=5s".
type Retry string

const (
	backoffKey = "backoff"
	retryForm  = "use conditions on kind, type, message or stage, attempts=N, and perhaps backoff=D, such as type=RateLimit attempts=10 backoff=5s"
)

// Validate returns an error if r is no valid rule.
func (r Retry) Validate() error {
	_, _, _, err := r.Rule()
	return err
}

// Rule returns what the rule says: which failures it is about, how often their items are tried, and the first wait; 0:
// that of the job.
func (r Retry) Rule() (matches func(*Failure) bool, attempts int, backoff time.Duration, err error) {
	conditions, attempts, backoff, err := r.parse()
	if err != nil {
		return nil, 0, 0, err
	}
	matches, err = matcher(conditions)
	return matches, attempts, backoff, err
}

// parse reads the rule.
func (r Retry) parse() (conditions []condition, attempts int, backoff time.Duration, err error) {
	all, err := parseConditions(string(r))
	if err != nil {
		return nil, 0, 0, fmt.Errorf("%w (a rule: %s)", err, retryForm)
	}
	for _, c := range all {
		switch {
		case c.key == attemptsKey && attempts != 0, c.key == backoffKey && backoff != 0:
			return nil, 0, 0, fmt.Errorf("%s is given twice: use it once", c.key)
		case c.key == attemptsKey:
			attempts, err = c.number()
		case c.key == backoffKey:
			backoff, err = c.duration()
		case c.key == "source":
			err = errors.New("source is not known while an item is tried: " + retryForm)
		default:
			conditions = append(conditions, c)
		}
		if err != nil {
			return nil, 0, 0, err
		}
	}
	switch {
	case len(conditions) == 0:
		return nil, 0, 0, errors.New("no condition given: " + retryForm)
	case attempts == 0:
		return nil, 0, 0, errors.New("no attempts given: " + retryForm)
	}
	return conditions, attempts, backoff, nil
}

// checkStages refuses a condition on a stage that a job with stages of these names does not have.
func (r Retry) checkStages(names []string) error {
	conditions, _, _, err := r.parse()
	if err != nil {
		return err
	}
	for _, c := range conditions {
		for _, value := range c.values {
			switch {
			case c.key != "stage" || value == "*" || slices.ContainsFunc(names, newGlob(value).matches):
			case len(names) == 0:
				return fmt.Errorf("%s%s%s: the job has no stages: leave it out", c.key, c.op, value)
			default:
				return fmt.Errorf("%s%s%s: no pool runs a stage of that name: use %s", c.key, c.op, value, strings.Join(names, ", "))
			}
		}
	}
	return nil
}

// one returns the one value that a condition of a rule sets.
func (c *condition) one() (string, error) {
	if c.op != "=" || len(c.values) != 1 {
		return "", fmt.Errorf("%s%s%s: a rule says one number: %s", c.key, c.op, strings.Join(c.values, ","), retryForm)
	}
	return c.values[0], nil
}

func (c *condition) number() (int, error) {
	value, err := c.one()
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > maxAttempts {
		return 0, fmt.Errorf("attempts=%s: use 1 to %d", value, maxAttempts)
	}
	return n, nil
}

func (c *condition) duration() (time.Duration, error) {
	value, err := c.one()
	if err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < time.Millisecond || d > limits.MaxBackoff {
		return 0, fmt.Errorf("backoff=%s: use %v to %v", value, time.Millisecond, limits.MaxBackoff)
	}
	return d, nil
}

// Final returns the expression that selects the failures which are final at once, by NoRetry; empty: there are none.
func (s Spec) Final() Where {
	if len(s.NoRetry) == 0 {
		return ""
	}
	return ofTypes(s.NoRetry)
}

// ofTypes returns the expression that selects failures of types, in which * stands for any text.
func ofTypes(types []string) Where {
	var values []string
	for _, t := range types {
		values = append(values, quoted(t))
	}
	return Where("type=" + strings.Join(values, ","))
}

// Each execution is given the rules, and where the store is. maxRetry bounds the rules, in bytes as JSON, and
// retryBesideStore both, beyond what a location may take.
const (
	maxRetry         = 1000
	retryBesideStore = 150
)

// checkRetry checks by which rules items are tried again.
func (s Spec) checkRetry() (errs []error) {
	var stages []string
	for _, stage := range s.StagePools() {
		stages = append(stages, stage.Name)
	}
	for _, r := range s.Retry {
		if err := cmp.Or(r.Validate(), r.checkStages(stages)); err != nil {
			errs = append(errs, fieldError("Retry", "%q: %v", text.Cut(string(r), 100), err))
		}
	}
	for _, t := range s.NoRetry {
		if t == "" {
			errs = append(errs, fieldError("NoRetry", "has an empty type: name types of errors, such as ValueError or Key*"))
		}
	}
	if len(errs) > 0 {
		return errs
	}
	final := s.Final()
	size, most := text.JSONSize(string(final)), min(maxRetry, maxLocation+retryBesideStore-text.JSONSize(s.Store))
	for _, r := range s.Retry {
		size += text.JSONSize(string(r)) + len(",")
	}
	if size > most && len(s.Retry)+len(s.NoRetry) > 0 {
		return []error{fieldError("Retry", "and NoRetry take %d bytes as JSON: at most %d are allowed, fewer if Store is very long", size, most)}
	}
	if final != "" && final.Validate() != nil {
		return []error{fieldError("NoRetry", "%v", final.Validate())}
	}
	return nil
}
