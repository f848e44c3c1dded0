// Package limits has the defaults and the bounds of jobs, and what their names and windows look like. Those that a user
// chooses are documented with the fields of job.Spec.
package limits

import "time"

// Defaults of a job.
const (
	DefaultExpiry       = 30 * time.Second
	DefaultCallTimeout  = 10 * time.Minute
	DefaultAttempts     = 3
	DefaultItemAttempts = 1
	DefaultBackoff      = time.Second
	DefaultGrace        = 120 * time.Second
	DefaultMaxItem      = 16 << 20
	DefaultMaxInput     = 1 << 40
	DefaultFlush        = time.Second

	// Of feeds.
	DefaultCapacity      = 256
	DefaultCapacityBytes = 4 << 20
	DefaultKeep          = 10 * time.Minute
)

// What Spec.CleanStop has.
const (
	// CleanStopType is the type of error that by default stops a job without making it fail: there are no
	// more items.
	CleanStopType = "OutOfRange"
	// NoCleanStop, as the only element, stands for none. (An empty list means the default.)
	NoCleanStop = "none"
)

// Bounds of a job.
const (
	// MaxName is the length limit of job and pool names, in bytes.
	MaxName    = 200
	MaxBackoff = time.Minute
	// MaxRate is the highest job.Rate: a billion items a second.
	MaxRate = 1_000_000_000_000
	// LeastAutoWindow is the least automatic window.
	LeastAutoWindow = 64
	// MaxWindow is what the legs that a job has open at once can have in flight: each has a page of at most 600
	// batches, far less than the 2,000 activities that may be pending in one workflow run.
	MaxWindow = 10_000
	// MaxBatchItems and MaxBatchBytes bound a batch, chosen or automatic.
	MaxBatchItems = 10_000_000
	MaxBatchBytes = 1 << 30
	// MaxSplitFiles is how many files the results of a job may be split into.
	MaxSplitFiles = 1000
	// MaxColumns is the most columns of a table.
	MaxColumns = 10_000
	// MaxStages is the most stages of a job, nested ones included.
	MaxStages = 20
	// ToleranceItems is the number of outcomes from which a tolerance in percent is checked: a share of
	// fewer items says little.
	ToleranceItems = 1000

	// Of feeds.
	MaxCapacity      = 100_000
	MaxCapacityBytes = 64 << 20

	// Of loops.
	MaxSlots = 200
	// DefaultPriority is that of a job which is given none, and LeastPriority the lowest one: 1 goes first.
	DefaultPriority = 3
	LeastPriority   = 5
)

// Bounds of the lists in a report.
const (
	MaxLaterErrors = 20
	MaxWorkers     = 32
	MaxForced      = 20
	MaxSlowest     = 5
	MaxGone        = 20
	MaxStragglers  = 1000
	// MaxNotes is how many notes about its inputs a job has at most.
	MaxNotes = 10
	// MaxVersions is how many versions of handlers it names, of all stages together.
	MaxVersions = 8
)
