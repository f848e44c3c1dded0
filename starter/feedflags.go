package starter

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	"github.com/stint-run/stint/internal/limits"
	"github.com/stint-run/stint/job"
	"go.yaml.in/yaml/v3"
)

// feedFlags are the flags that make a job a feed.
type feedFlags struct {
	feed          bool
	capacityBytes sizeFlag
}

// feedFlagNames are the flags that only `start` offers.
var feedFlagNames = []string{"feed", "capacity", "capacity-bytes", "batch-wait", "keep"}

func (o *feedFlags) addFlags(fs *pflag.FlagSet, s *job.Spec) {
	o.capacityBytes = limits.DefaultCapacityBytes
	fs.BoolVar(&o.feed, "feed", false, "take the items that clients put, with 'stint put' or 'stint call', until 'stint close'")
	fs.IntVar(&s.Capacity, "capacity", limits.DefaultCapacity, fmt.Sprintf("of a feed: items accepted and unfinished, 1 to %d; more are refused", limits.MaxCapacity))
	fs.Var(&o.capacityBytes, "capacity-bytes", "of a feed: their bytes, up to 64MiB")
	fs.DurationVar(&s.BatchWait, "batch-wait", 0, "of a feed: how long a batch that is not full waits for items, from its first on, 100ms or more (0: it does not)")
	fs.DurationVar(&s.Keep, "keep", limits.DefaultKeep, "of a feed: how long a result is kept for the client that waits for it")
}

// hide takes the flags out of the help of a command that runs no feeds. A job file may have them.
func (o *feedFlags) hide(fs *pflag.FlagSet) {
	for _, name := range feedFlagNames {
		fs.Lookup(name).Hidden = true
	}
}

// complete sets the fields of a feed. For other jobs it keeps only what was given, which Validate refuses.
func (o *feedFlags) complete(fs *pflag.FlagSet, s *job.Spec) {
	s.CapacityBytes = int64(o.capacityBytes)
	if o.feed {
		s.Source = job.SourceFeed
		if !fs.Changed("format") {
			s.Format = "" // a feed's own default
		}
		return
	}
	s.Source = job.SourceFiles
	if !fs.Changed("capacity") {
		s.Capacity = 0
	}
	if !fs.Changed("capacity-bytes") {
		s.CapacityBytes = 0
	}
	if !fs.Changed("keep") {
		s.Keep = 0
	}
}

// refuse is the error of a command that runs no feeds, if the job is one.
func (o *feedFlags) refuse(p *Program, why string) error {
	if !o.feed {
		return nil
	}
	return usageError("%s: start one with '%[2]s start --feed', and its workers with '%[2]s worker', on a cluster or beside a '%[2]s server'", why, p.name())
}

// setSource reads the key of a job file that makes it a feed or a loop.
func setSource(fs *pflag.FlagSet, node *yaml.Node) error {
	values, err := nodeStrings(node)
	switch {
	case err != nil:
		return fmt.Errorf("source: %w", err)
	case len(values) != 1 || !slices.Contains([]string{job.SourceFiles, job.SourceFeed, job.SourceClock}, values[0]):
		return fmt.Errorf("source: %q: use %s, %s or %s", values, job.SourceFiles, job.SourceFeed, job.SourceClock)
	case values[0] == job.SourceClock && fs.Lookup(loopFlag) == nil:
		return fmt.Errorf("source: %s: a loop is started by 'loop -f FILE', on a cluster or beside a server", job.SourceClock)
	case values[0] == job.SourceClock:
		return fs.Set(loopFlag, "true")
	case fs.Changed("feed"):
		return nil // the command line overrides the file
	}
	return fs.Set("feed", fmt.Sprint(values[0] == job.SourceFeed))
}
