package page

import (
	"context"
	"fmt"
	"html/template"
	"io"
	"time"
)

// WriteReport writes the page of a job alone, as one file that needs no server and loads nothing.
func (p *Page) WriteReport(ctx context.Context, name string, w io.Writer) error {
	j, _, err := p.job(ctx, name)
	if err != nil {
		return err
	}
	return p.writeReport(j, w)
}

func (p *Page) writeReport(j Job, w io.Writer) error {
	style, err := assets.ReadFile("assets/style.css")
	if err != nil {
		return err
	}
	view := p.newJobView(j, time.Now())
	view.May = false
	f := &frame{
		Title: j.Report.Job, Build: build, Page: "job", View: view, Made: at(time.Now()), Style: template.CSS(style), StyleHash: styleHash(style),
	}
	if err := templates()["job"].ExecuteTemplate(w, "layout.html", f); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}
