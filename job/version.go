package job

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/text"
)

// addVersions adds the shares of two lists by stage and version, and keeps [limits.MaxVersions] with the most items, by
// stage.
func addVersions(a, b []WorkerShare) []WorkerShare {
	if len(b) == 0 {
		return a
	}
	sum := slices.Clone(a)
	for _, v := range b {
		i := slices.IndexFunc(sum, func(s WorkerShare) bool { return s.Stage == v.Stage && s.Version == v.Version })
		if i < 0 {
			sum = append(sum, v)
			continue
		}
		sum[i].add(v)
	}
	slices.SortStableFunc(sum, func(a, b WorkerShare) int {
		return cmp.Or(cmp.Compare(b.Items, a.Items), cmp.Compare(a.Version, b.Version))
	})
	sum = sum[:min(len(sum), limits.MaxVersions)]
	slices.SortStableFunc(sum, func(a, b WorkerShare) int { return cmp.Compare(a.Stage, b.Stage) })
	return sum
}

// Mixed returns how many items have been done by another version of the handler than most of their stage; 0: each stage
// had one version.
func (o Outcomes) Mixed() (items int64) {
	for i, v := range o.Versions { // the one with the most items of its stage comes first
		if i > 0 && o.Versions[i-1].Stage == v.Stage {
			items += v.Items
		}
	}
	return items
}

// DescribeVersions lists the versions of the handlers with what they have done: "v1: 1,200 items, v2: 300 items (mixed)".
func (o Outcomes) DescribeVersions() string {
	all := make([]string, len(o.Versions))
	for i, v := range o.Versions {
		all[i] = fmt.Sprintf("%s: %s", strings.TrimSpace(v.Stage+" "+v.Version), text.Count(v.Items, "item"))
	}
	s := strings.Join(all, ", ")
	if o.Mixed() > 0 {
		s += " (mixed)"
	}
	return s
}

// checkPin checks the version that the job is pinned to.
func (s Spec) checkPin() error {
	switch {
	case s.Pin == "":
		return nil
	case s.Pin != limits.PinFirst:
		if err := limits.CheckVersion(s.Pin); err != nil {
			return fieldError("Pin", "%v", err)
		}
	case len(s.Stages) > 0:
		return fieldError("Pin", "each pool of a pipeline has a handler of its own: name the version that all of them have")
	}
	return nil
}
