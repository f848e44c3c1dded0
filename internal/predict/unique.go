package predict

import (
	"context"

	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/unique"
)

// countEqual counts the items of a table that equal one before them.
func countEqual(ctx context.Context, from *inputs.Inputs, table *inputs.Table) (int64, error) {
	finder := unique.NewFinder("")
	defer finder.Close()
	for index := range table.Sources {
		if err := addAll(ctx, finder, from, table, index); err != nil {
			return 0, err
		}
	}
	return twins(finder)
}

// addAll adds the items of a source.
func addAll(ctx context.Context, to *unique.Finder, from *inputs.Inputs, table *inputs.Table, index int) error {
	reader, err := from.DryAll(ctx, table, index)
	if err != nil {
		return err
	}
	defer reader.Close()
	return reader.Each(ctx, &records.Chunk{}, to.Add)
}

// twins counts those that a Finder finds; nil finds none.
func twins(f *unique.Finder) (count int64, err error) {
	if f == nil {
		return 0, nil
	}
	err = f.Each(func(int64, int64) error {
		count++
		return nil
	})
	return count, err
}
