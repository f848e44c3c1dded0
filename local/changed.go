package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

// A job that was killed in the middle runs on as it was started. The spec that is given now may say something else.

// unheeded are the fields of a spec that need not be the same: they are made up here, or say who runs the job.
var unheeded = []string{"name", "pool", "store"}

// bringUp gives a job that runs on the settings of this run's spec, and says what else has changed since the job was started, which
// does not count for it. Of a job that has ended meanwhile nothing counts.
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

// setTo gives a job, whose spec has the settings in force, those of now, by set, and returns its spec then. A job that has ended keeps
// what it has.
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

// changedSettings are those settings of now that are others than before.
func changedSettings(before, now job.Settings) job.Settings {
	var changed job.Settings
	if *before.Window != *now.Window {
		changed.Window = now.Window
	}
	if *before.BatchItems != *now.BatchItems {
		changed.BatchItems = now.BatchItems
	}
	if *before.MaxFailed != *now.MaxFailed {
		changed.MaxFailed = now.MaxFailed
	}
	if *before.Rate != *now.Rate {
		changed.Rate = now.Rate
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
