package outputs

import (
	"context"

	"github.com/stint-run/stint/internal/base/location"
	"github.com/stint-run/stint/job"
)

// form is what becomes of the parts of a job. The forms are in formOf, which chooses by the spec.
type form struct {
	// publish makes the output, and publishes it after the files beside it. begin returns what is joined of the parts
	// already.
	publish func(p *Publication, ctx context.Context, publishSides func(context.Context) error, begin func(context.Context) (Begun, error)) error
	// file: the output is one file that is made of all parts. Otherwise they stay where they are.
	file bool
	// joined: that file is the parts, one after the other.
	joined bool
}

// formOf chooses the form of an output.
func formOf(output, split string) form {
	switch {
	case output == "", location.IsPrefix(output), split != "":
		return form{publish: (*Publication).publishParts}
	case location.Table(output) != "":
		return form{publish: (*Publication).publishTable, file: true}
	}
	return form{publish: (*Publication).publishFile, file: true, joined: true}
}

func (p *Publication) form() form { return formOf(p.Spec.Output, p.Spec.Split) }

// Joined reports whether an output is one file that has all results, one after the other.
func Joined(o *job.Output) bool { return o != nil && formOf(o.Location, o.Split).joined }
