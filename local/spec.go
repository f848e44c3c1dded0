package local

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

// defaultName is the name of a job that cannot be continued.
const defaultName = "local"

// complete fills in what the spec leaves out, and checks it and its inputs.
func (r *run) complete(spec job.Spec) error {
	newFiles := spec.Files != nil && spec.Files.NewFiles
	if newFiles && spec.Name == "" {
		return errors.New("no name: set Spec.Name, which says whose completed files are left out")
	}
	if spec.Name == "" && r.o.State == "" {
		spec.Name = defaultName
	}
	if spec.Pool == "" && len(spec.Stages) == 0 {
		spec.Pool = spec.Name
	}
	spec.Expiry = cmp.Or(spec.Expiry, DefaultExpiry)
	if err := r.makeAbsolute(&spec); err != nil {
		return err
	}
	if spec.Output == "" && r.o.Results == nil {
		return errors.New("no output: set Spec.Output, or Options.Results")
	}
	if newFiles && spec.Output == "" && spec.Files.NewFilesList == "" {
		if r.o.State == "" {
			return errors.New("no place for the list of completed files: set Files.NewFilesList, or Options.State")
		}
		spec.Files.NewFilesList = filepath.Join(r.state, "."+spec.Name+".completed-files")
	}
	if spec.Store == "" && (spec.Output == "" || !store.IsPrefix(spec.Output) || spec.Split != "") {
		spec.Store, r.ownStore = StoreDir(r.state, spec.Name), true
	}
	if err := spec.WithDefaults().Validate(); err != nil {
		return fmt.Errorf("invalid job: %w", err)
	}
	r.spec = usePrivatePools(spec)
	return r.throughOutage(r.ctx, func() error { return r.checkInputs(spec) })
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
	if spec.Files != nil {
		locations = append(locations, &spec.Files.NewFilesList)
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
func (r *run) checkInputs(spec job.Spec) error {
	for _, input := range spec.Inputs() {
		if input == "-" {
			continue
		}
		for _, err := range r.access.Expand(r.ctx, []string{input}) {
			none := errors.As(err, new(*store.NoMatchError)) && spec.Files.NewFiles // which is for the job to judge
			if err != nil && !none {
				return err
			}
			break // the job looks at the others
		}
	}
	return nil
}

// ownRoots returns the locations that the job names, and the state. Unless Allow names others its worker writes
// only below those in write, and reads only below all of them.
func (r *run) ownRoots() (write, read []string) {
	spec := r.spec.WithDefaults()
	write = []string{r.state, spec.Store}
	if spec.Reuse != nil {
		write, read = append(write, spec.Reuse.Store), append(read, spec.Reuse.From)
	}
	for _, location := range []string{spec.Output, spec.Errors, spec.Dropped, spec.Report, spec.NewFilesList()} {
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

// wildcardsOf returns the characters that make a location of this kind a pattern.
func wildcardsOf(location string) string {
	if strings.Contains(location, "://") {
		return "*[{" // a question mark begins the driver's parameters
	}
	return "*?[{"
}

// parentOf returns the directory or prefix that a location lies in. For a pattern it is the last one
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

// A job that was killed in the middle runs on as it was started. The spec that is given now may say something else.

// unheeded are the fields of a spec that need not be the same: they are made up here, or say who runs the job.
var unheeded = []string{"name", "pool", "store"}

// bringUp gives a job that runs on the settings of this run's spec, and says what else has changed since the job was
// started, which does not count for it. Of a job that has ended meanwhile nothing counts.
func (r *run) bringUp(ctx context.Context, client *jobs.Client, running *jobs.Run, report *job.Report) error {
	began, err := client.Spec(ctx, r.spec.Name)
	if err != nil {
		return err
	}
	now := r.spec.WithDefaults()
	inForce, err := setTo(began.With(report.Settings), now, func(changed job.Settings) error {
		if report.State.Final() {
			return &jobs.EndedError{Name: r.spec.Name, State: report.State}
		}
		_, err := running.Set(ctx, changed)
		return err
	})
	if err != nil {
		return fmt.Errorf("changing the settings of the job that continues: %w", err)
	}
	if changed := changedFields(inForce, now); len(changed) > 0 {
		r.note("%s runs on as it was started: what is given now for %s does not count for it (--fresh starts it anew)", r.spec.Name, strings.Join(changed, ", "))
	}
	return nil
}

// setTo gives a job, whose spec has the settings in force, those of now, by set, and returns its spec then. A job that
// has ended keeps what it has.
func setTo(inForce, now job.Spec, set func(job.Settings) error) (job.Spec, error) {
	changed := changedSettings(inForce.Settings(), now.Settings())
	if changed.IsZero() {
		return inForce, nil
	}
	err := set(changed)
	if _, ended := errors.AsType[*jobs.EndedError](err); ended {
		return inForce, nil
	}
	return inForce.With(changed), err
}

// changedSettings returns those settings of now that are others than before.
func changedSettings(before, now job.Settings) job.Settings {
	changed := job.Settings{
		Window: unlessAs(before.Window, now.Window), BatchItems: unlessAs(before.BatchItems, now.BatchItems),
		MaxFailed: unlessAs(before.MaxFailed, now.MaxFailed), Rate: unlessAs(before.Rate, now.Rate),
		RequestRate: unlessAs(before.RequestRate, now.RequestRate), TokenRate: unlessAs(before.TokenRate, now.TokenRate),
		MaxCost: unlessAs(before.MaxCost, now.MaxCost), MaxTokens: unlessAs(before.MaxTokens, now.MaxTokens),
		Deadline: unlessAs(before.Deadline, now.Deadline), Priority: unlessAs(before.Priority, now.Priority),
	}
	for stage, window := range now.Windows {
		if old, has := before.Windows[stage]; has && old != window {
			if changed.Windows == nil {
				changed.Windows = map[string]int{}
			}
			changed.Windows[stage] = window
		}
	}
	return changed
}

// unlessAs returns a setting, or nil if it is as before.
func unlessAs[T comparable](before, now *T) *T {
	if *before == *now {
		return nil
	}
	return now
}

// changedFields names the fields of two specs that are not the same, as flags and keys of job files do.
func changedFields(before, now job.Spec) []string {
	old, given := fieldsOf(before), fieldsOf(now)
	all := maps.Clone(old)
	maps.Copy(all, given)
	var changed []string
	for _, field := range slices.Sorted(maps.Keys(all)) {
		if !slices.Contains(unheeded, field) && !reflect.DeepEqual(old[field], given[field]) {
			changed = append(changed, strings.ReplaceAll(field, "_", "-"))
		}
	}
	return changed
}

func fieldsOf(s job.Spec) map[string]any {
	fields := map[string]any{}
	data, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(data, &fields)
	}
	if err != nil {
		panic(fmt.Errorf("a spec that cannot be written: %w", err)) // it is written whenever a job is started
	}
	return fields
}
