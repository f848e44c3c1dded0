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
	spec          job.Feed
	capacityBytes sizeFlag
}

// sourceFlags are flags that only jobs of one source have. Those of feeds only `start` offers.
var sourceFlags = map[string][]string{
	job.SourceFiles: {"delimiter", "quote", "max-input", "flush"},
	job.SourceFeed:  {"capacity", "capacity-bytes", "batch-wait", "keep"},
}

func (o *feedFlags) addFlags(fs *pflag.FlagSet) {
	o.capacityBytes = limits.DefaultCapacityBytes
	fs.BoolVar(&o.feed, "feed", false, "take the items that clients put, with 'stint put' or 'stint call', until 'stint close'")
	fs.IntVar(&o.spec.Capacity, "capacity", limits.DefaultCapacity, fmt.Sprintf("of a feed: items accepted and unfinished, 1 to %d; more are refused", limits.MaxCapacity))
	fs.Var(&o.capacityBytes, "capacity-bytes", "of a feed: their bytes, up to 64MiB")
	fs.DurationVar(&o.spec.BatchWait, "batch-wait", 0, "of a feed: how long a batch that is not full waits for items, from its first on, 100ms or more (0: it does not)")
	fs.DurationVar(&o.spec.Keep, "keep", limits.DefaultKeep, "of a feed: how long a result is kept for the client that waits for it")
}

// hide takes the flags out of the help of a command that runs no feeds. A job file may have them.
func (o *feedFlags) hide(fs *pflag.FlagSet) {
	for _, name := range append([]string{"feed"}, sourceFlags[job.SourceFeed]...) {
		fs.Lookup(name).Hidden = true
	}
}

// setSource says in the spec where the items come from, and refuses what is for jobs of another source.
func (o *jobOptions) setSource(fs *pflag.FlagSet, s *job.Spec, inputs []string) error {
	switch {
	case o.loop.loop:
		if err := o.loop.complete(fs, s); err != nil {
			return err
		}
	case o.feed.feed:
		feed := o.feed.spec
		feed.CapacityBytes = int64(o.feed.capacityBytes)
		s.Feed = &feed
	default:
		files := o.files
		files.Input, files.MaxInput = slices.Clone(inputs), int64(o.maxInput)
		s.Files = &files
	}
	if s.Files == nil && len(inputs) > 0 {
		return usageError("input %s: the items of a %s come from elsewhere: leave it out", inputs[0], wordsOf[s.Source()])
	}
	if s.Files == nil && !fs.Changed("format") {
		s.Format = "" // a default of its own
	}
	for source, names := range sourceFlags {
		for _, name := range names {
			if source != s.Source() && fs.Changed(name) {
				return usageError("%s is for %ss only: leave it out, or make the job one", name, wordsOf[source])
			}
		}
	}
	return nil
}

// wordsOf are what a job of a source is called.
var wordsOf = map[string]string{job.SourceFiles: "job of file", job.SourceFeed: "feed", job.SourceClock: "loop"}

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
