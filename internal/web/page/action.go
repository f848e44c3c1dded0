package page

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/run/command"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

// actLimit is how long an action may take.
const actLimit = 10 * time.Second

// Done is the answer to an action.
type Done struct {
	Command string `json:"command"` // that does the same
	Said    string `json:"said"`    // what has happened, for people
}

// action is something that people can have a job do.
type action struct {
	name string
	// fits reports whether it is of use to a job.
	fits func(job.Report) bool
	// do carries out a request whose body is read by read. It returns the words of the command that does the same, after
	// the program's name, and what has happened.
	do func(ctx context.Context, client *jobs.Client, name string, read func(any) error) (words []string, said string, err error)

	label, hint string
	fields      []field
}

// field is an input of an action.
type field struct{ Name, Label, Hint, Placeholder string }

func runs(r job.Report) bool { return r.State == job.Running }

// redrives reports whether failed items of a job can run again.
func redrives(r job.Report) bool { return r.State == job.Completed && r.Failed > 0 && r.Loop == nil }

// actions are all of them, in the order in which pages have them.
var actions = []action{
	{
		name: "pause", label: "Pause", hint: "The job starts nothing new until it is unpaused. Calls in hand end as usual.",
		fits: func(r job.Report) bool { return runs(r) && r.PausedSince == nil },
		do:   plainly("pause", "The job is to pause.", func(ctx context.Context, c *jobs.Client, name string) error { return c.Get(name).Pause(ctx) }),
	},
	{
		name: "unpause", label: "Unpause", hint: "The job goes on.",
		fits: func(r job.Report) bool { return runs(r) && r.PausedSince != nil },
		do:   plainly("unpause", "The job goes on.", func(ctx context.Context, c *jobs.Client, name string) error { return c.Get(name).Unpause(ctx) }),
	},
	{
		name: "set", label: "Change settings", hint: "Settings of the running job, as NAME=VALUE with spaces between them.", fits: runs, do: changeSettings,
		fields: []field{{"settings", "Settings", "such as window=8 rate=100 max-failed=5%", "window=8"}},
	},
	{
		name: "stop", label: "Stop", hint: "The job ends in order and can be resumed. Outcomes that are recorded stay.",
		fits: func(r job.Report) bool { return !r.State.Final() }, do: stop,
		fields: []field{
			{"grace", "Grace", "how long running calls may take; empty: as the job says", "30s"},
			{"reason", "Reason", "is kept in the report", ""},
		},
	},
	{
		name: "resume", label: "Resume", hint: "The job continues where it was. Items that have an outcome are not run again.",
		fits: func(r job.Report) bool { return r.State == job.Stopped || r.State == job.Failed },
		do: plainly("resume", "The job continues.", func(ctx context.Context, c *jobs.Client, name string) error {
			_, err := c.Resume(ctx, name, jobs.ResumeOptions{})
			return err
		}),
	},
	{
		name: "redrive", label: "Redrive", hint: "Only the failed items run again; their results are merged into the output.",
		fits: redrives, do: redrive,
		fields: []field{{"where", "Only those", "an expression, as 'errors' shows them; empty: all", "kind=expired"}},
	},
}

// plainly is an action without fields.
func plainly(word, said string, do func(context.Context, *jobs.Client, string) error) func(context.Context, *jobs.Client, string, func(any) error) ([]string, string, error) {
	return func(ctx context.Context, client *jobs.Client, name string, read func(any) error) ([]string, string, error) {
		if err := read(&struct{}{}); err != nil {
			return nil, "", err
		}
		return []string{word, name}, said, do(ctx, client, name)
	}
}

func stop(ctx context.Context, client *jobs.Client, name string, read func(any) error) ([]string, string, error) {
	var s job.Stop
	if err := read(&s); err != nil {
		return nil, "", err
	}
	if err := s.Validate(); err != nil {
		return nil, "", badRequest("%v", err)
	}
	words := []string{"stop", name}
	if s.Grace != "" {
		words = append(words, "--grace", s.Grace)
	}
	if s.Reason != "" {
		words = append(words, "--reason", s.Reason)
	}
	return words, "The job is to stop.", client.Get(name).Stop(ctx, s)
}

// redriveBody is the body of a request to redrive.
type redriveBody struct {
	Where      job.Where `json:"where,omitempty"`
	BatchItems int64     `json:"batch_items,omitempty"` // 0: as in the job
}

func redrive(ctx context.Context, client *jobs.Client, name string, read func(any) error) ([]string, string, error) {
	var body redriveBody
	if err := read(&body); err != nil {
		return nil, "", err
	}
	words := []string{"redrive", name}
	if body.Where != "" {
		if err := body.Where.Validate(); err != nil {
			return nil, "", badRequest("%v", err)
		}
		words = append(words, "--where", string(body.Where))
	}
	_, err := client.Redrive(ctx, name, jobs.RedriveOptions{Where: body.Where, BatchItems: body.BatchItems})
	return words, "The failed items run again.", err
}

// setBody is the body of a request to change settings, each as on the command line: "window=8".
type setBody struct {
	Settings []string `json:"settings"`
}

func changeSettings(ctx context.Context, client *jobs.Client, name string, read func(any) error) ([]string, string, error) {
	var body setBody
	if err := read(&body); err != nil {
		return nil, "", err
	}
	var settings job.Settings
	if err := settings.Parse(body.Settings); err != nil {
		return nil, "", badRequest("%v", err)
	}
	if settings.IsZero() {
		return nil, "", badRequest("no setting is given: write NAME=VALUE, such as window=8")
	}
	_, err := client.Get(name).Set(ctx, settings)
	return append([]string{"set", name}, body.Settings...), "The settings are in force.", err
}

// act answers requests for an action.
func (p *Page) act(a action) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		done, err := p.carryOut(a, w, r)
		if err != nil {
			p.fail(w, err)
			return
		}
		p.options.Log.Info("a job was changed by the page", "command", done.Command, "from", r.RemoteAddr)
		answerWith(w, http.StatusOK, done)
	}
}

func (p *Page) carryOut(a action, w http.ResponseWriter, r *http.Request) (Done, error) {
	if !p.options.Actions {
		return Done{}, &requestError{http.StatusForbidden, "ForbiddenError", "this page changes nothing: start it with --allow-actions"}
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return Done{}, &requestError{http.StatusForbidden, "ForbiddenError", "only the page's own requests change jobs"}
	}
	s := p.jobSource(r)
	if s.err != nil {
		return Done{}, s.err
	}
	client, err := p.ask()
	if err != nil {
		return Done{}, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), actLimit)
	defer cancel()
	words, said, err := a.do(ctx, client, r.PathValue("name"), func(into any) error { return readBody(w, r, into) })
	return Done{Command: p.command(words...), Said: said}, err
}

// command returns a command of the program, to be pasted as it stands.
func (p *Page) command(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = command.Quote(word)
	}
	return p.options.Program + " " + strings.Join(quoted, " ")
}
