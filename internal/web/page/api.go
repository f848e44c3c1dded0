package page

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"reflect"
	"strings"
	"sync"

	"github.com/stint-run/stint/internal/temporal/lookup"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

// maxBody bounds the bodies of requests, in bytes.
const maxBody = 64 << 10

// apiRoutes are the routes of the API. What reads is a GET, what changes something a POST.
func (p *Page) apiRoutes() []route {
	routes := []route{
		{method: http.MethodGet, path: apiPath + "/jobs", handle: func(w http.ResponseWriter, r *http.Request) { p.data(w, r, p.listSource(r, true)) }},
		{method: http.MethodGet, path: apiPath + "/jobs/events", handle: func(w http.ResponseWriter, r *http.Request) {
			p.stream(w, r, "jobs", p.listSource(r, true))
		}},
		{method: http.MethodGet, path: apiPath + "/jobs/{name}", handle: func(w http.ResponseWriter, r *http.Request) { p.data(w, r, p.jobSource(r)) }},
		{method: http.MethodGet, path: apiPath + "/jobs/{name}/events", handle: func(w http.ResponseWriter, r *http.Request) {
			p.stream(w, r, "job", p.jobSource(r))
		}},
		{method: http.MethodGet, path: apiPath + "/jobs/{name}/errors", handle: p.errors},
		{method: http.MethodGet, path: apiPath + "/workers", handle: func(w http.ResponseWriter, r *http.Request) { p.data(w, r, p.workersSource()) }},
		{method: http.MethodGet, path: apiPath + "/workers/events", handle: func(w http.ResponseWriter, r *http.Request) {
			p.stream(w, r, "workers", p.workersSource())
		}},
		{method: http.MethodGet, path: apiPath + "/openapi.json", open: true, handle: describe},
	}
	for _, a := range actions {
		routes = append(routes, route{method: http.MethodPost, path: apiPath + "/jobs/{name}/" + a.name, handle: p.act(a)})
	}
	return append(routes, route{method: http.MethodGet, path: apiPath + "/", handle: func(w http.ResponseWriter, r *http.Request) {
		p.fail(w, &requestError{http.StatusNotFound, "NotFoundError", "there is nothing at " + r.URL.Path + ": see " + apiPath + "/openapi.json"})
	}})
}

// data answers with what a source has.
func (p *Page) data(w http.ResponseWriter, r *http.Request, s source) {
	said, err := any(nil), s.err
	if err == nil {
		said, err = p.hub.now(r.Context(), s)
	}
	if err != nil {
		p.fail(w, err)
		return
	}
	answerWith(w, http.StatusOK, said)
}

// errors answers with the failed items of a job.
func (p *Page) errors(w http.ResponseWriter, r *http.Request) {
	s := p.jobSource(r)
	said, err := any(nil), s.err
	if err == nil {
		said, err = p.hub.now(r.Context(), s)
	}
	if err != nil {
		p.fail(w, err)
		return
	}
	answerWith(w, http.StatusOK, said.(Job).examples)
}

func toJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		return []byte("{}") // texts and numbers can always be written
	}
	return data
}

func answerWith(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(toJSON(v)) // the client has gone
}

// requestError is an error of the request itself.
type requestError struct {
	status  int
	kind    string
	message string
}

func (e *requestError) Error() string { return e.message }

func badRequest(format string, args ...any) error {
	return &requestError{http.StatusBadRequest, "InvalidRequestError", fmt.Sprintf(format, args...)}
}

// Problem is an error as clients see it.
type Problem struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// failure is the body of an answer that is an error.
type failure struct {
	Error Problem `json:"error"`
}

// fail answers with an error.
func (p *Page) fail(w http.ResponseWriter, err error) {
	status, problem := explain(err)
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	answerWith(w, status, failure{problem})
}

// explain returns an error's status and what clients see of it.
func explain(err error) (int, Problem) {
	var request *requestError
	switch {
	case errors.As(err, &request):
		return request.status, Problem{request.kind, request.message}
	case isGone(err):
		return http.StatusNotFound, Problem{"NotFoundError", err.Error()}
	case errors.Is(err, errStarting), errors.Is(err, errBusy):
		return http.StatusServiceUnavailable, Problem{"UnavailableError", err.Error()}
	case refused(err):
		return http.StatusConflict, Problem{"ConflictError", err.Error()}
	case errors.Is(err, context.DeadlineExceeded), jobs.Unanswered(err):
		return http.StatusGatewayTimeout, Problem{"TimeoutError", err.Error()}
	case lookup.Away(err):
		return http.StatusBadGateway, Problem{"UnavailableError", "the Temporal server does not answer: " + err.Error()}
	}
	return http.StatusBadGateway, Problem{"UnavailableError", err.Error()}
}

// refused reports whether an error says that a job is not in the state for an action.
func refused(err error) bool {
	return errors.As(err, new(*jobs.EndedError)) || errors.As(err, new(*jobs.RunningError)) || errors.As(err, new(*jobs.NotCompletedError)) ||
		errors.As(err, new(*jobs.NothingFailedError)) || errors.As(err, new(*jobs.RedriveBegunError))
}

// readBody reads the body of an action, which may be empty.
func readBody(w http.ResponseWriter, r *http.Request, into any) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return &requestError{http.StatusUnsupportedMediaType, "InvalidRequestError", "send a body with 'Content-Type: application/json', such as {}"}
	}
	reader := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	reader.DisallowUnknownFields()
	if err := reader.Decode(into); err != nil {
		return badRequest("invalid body: %v", err)
	}
	return nil
}

// paths describes the paths of the API, by the OpenAPI specification. The shapes of answers are added from their types.
//
//go:embed assets/openapi.json
var paths []byte

// shapes are what the description calls by these names.
var shapes = map[string]any{
	"JobList": JobList{}, "Job": Job{}, "Workers": Workers{}, "Failures": Failures{}, "ErrorAnswer": failure{}, "Done": Done{},
	"StopRequest": job.Stop{}, "RedriveRequest": redriveBody{}, "SetRequest": setBody{}, "Nothing": struct{}{},
}

var document = sync.OnceValue(func() []byte {
	var doc map[string]any
	if err := json.Unmarshal(paths, &doc); err != nil {
		panic(fmt.Errorf("the description of the API: %w", err))
	}
	named := schemas{}
	for name, shape := range shapes {
		named[name] = named.structure(reflect.TypeOf(shape))
	}
	doc["components"].(map[string]any)["schemas"] = named
	return toJSON(doc)
})

func describe(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(document()) // the client has gone
}

// schemas are JSON schemas of types, by name.
type schemas map[string]any

// of returns the schema of a type; that of a named structure is a reference.
func (s schemas) of(t reflect.Type) map[string]any {
	if known, ok := written[t.String()]; ok {
		return known
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint64:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Slice:
		return map[string]any{"type": []string{"array", "null"}, "items": s.of(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		if s[t.Name()] == nil {
			s[t.Name()] = map[string]any{} // it may have fields of its own type
			s[t.Name()] = s.structure(t)
		}
		return map[string]any{"$ref": "#/components/schemas/" + t.Name()}
	}
	return map[string]any{"type": "string"}
}

// written are types that JSON has in a form of their own.
var written = map[string]map[string]any{
	"time.Time": {"type": "string", "format": "date-time"},
	"job.Rate":  {"type": "number"}, "job.Money": {"type": "number"},
	"json.RawMessage": {},
}

// structure returns the schema of a structure: what it embeds is part of it.
func (s schemas) structure(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() || name == "-" || name == "" {
			continue
		}
		properties[name] = s.of(f.Type)
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	schema := map[string]any{"type": "object", "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}
