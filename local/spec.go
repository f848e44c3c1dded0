package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
)

// defaultName is the name of a job that cannot be continued.
const defaultName = "local"

// complete fills in what the spec leaves out, and checks it and its inputs.
func (r *run) complete(spec job.Spec) error {
	if spec.Name == "" && r.o.State == "" {
		spec.Name = defaultName
	}
	if spec.Pool == "" && len(spec.Stages) == 0 {
		spec.Pool = spec.Name
	}
	if spec.Expiry == 0 {
		spec.Expiry = DefaultExpiry
	}
	if err := r.makeAbsolute(&spec); err != nil {
		return err
	}
	if spec.Output == "" && r.o.Results == nil {
		return errors.New("no output: set Spec.Output, or Options.Results")
	}
	if spec.Store == "" && (spec.Output == "" || !store.IsPrefix(spec.Output) || spec.Split != "") {
		spec.Store, r.ownStore = StoreDir(r.state, spec.Name), true
	}
	if err := spec.WithDefaults().Validate(); err != nil {
		return fmt.Errorf("invalid job: %w", err)
	}
	r.spec = usePrivatePools(spec)
	return r.throughOutage(r.ctx, func() error { return checkInputs(r.ctx, spec.Inputs()) })
}

func (r *run) makeAbsolute(spec *job.Spec) error {
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("finding the working directory: %w", err)
	}
	if spec.Files != nil {
		files := *spec.Files
		files.Input = slices.Clone(files.Input)
		spec.Files = &files
	}
	locations := []*string{&spec.Output, &spec.Errors, &spec.Dropped, &spec.Report, &spec.Store, &r.state}
	for i := range spec.Inputs() {
		locations = append(locations, &spec.Files.Input[i])
	}
	if err := store.MakeAbsolute(dir, locations...); err != nil {
		return err
	}
	for _, output := range []string{spec.Output, spec.Errors, spec.Dropped, spec.Report} {
		if output == "" || store.IsPrefix(output) {
			continue
		}
		if _, _, err := store.Split(output); err != nil {
			return fmt.Errorf("checking the output: %w", err)
		}
	}
	return nil
}

// checkInputs refuses missing inputs before anything is started.
func checkInputs(ctx context.Context, inputs []string) error {
	var access store.Access
	defer access.Close()
	for _, input := range inputs {
		if input == "-" {
			continue
		}
		for _, err := range access.Expand(ctx, []string{input}) {
			if err != nil {
				return err
			}
			break // the job looks at the others
		}
	}
	return nil
}

// ownRoots are the locations that the job names, and the state. Unless Allow names others its worker writes
// only below those in write, and reads only below all of them.
func (r *run) ownRoots() (write, read []string) {
	spec := r.spec.WithDefaults()
	write = []string{r.state, spec.Store}
	for _, location := range []string{spec.Output, spec.Errors, spec.Dropped, spec.Report} {
		switch {
		case location == "":
		case store.IsPrefix(location):
			write = append(write, location)
		default:
			write = append(write, parentOf(location))
			if target, ok := store.LinkedSink(location); ok {
				write = append(write, target)
			}
		}
	}
	for _, location := range spec.Inputs() {
		if location == "-" {
			continue
		}
		read = append(read, location)
		if strings.ContainsAny(location, wildcardsOf(location)) {
			read = append(read, parentOf(location))
		}
	}
	return write, read
}

// wildcardsOf are the characters that make a location of this kind a pattern.
func wildcardsOf(location string) string {
	if strings.Contains(location, "://") {
		return "*[{" // a question mark begins the driver's parameters
	}
	return "*?[{"
}

// parentOf is the directory or prefix that a location lies in. For a pattern it is the last one
// before its wildcards.
func parentOf(location string) string {
	wildcards := wildcardsOf(location)
	for {
		dir, _, err := store.SplitName(location)
		if err != nil || !strings.ContainsAny(dir, wildcards) {
			return dir
		}
		location = dir
	}
}
