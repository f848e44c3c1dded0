package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
)

// A handler that takes one item at a time. An error fails that item alone; an item that
// has no result leaves no line.
func ExampleEach() {
	type Order struct {
		Article string
		Pieces  int
		Price   float64 // of one piece
	}
	type Total struct {
		Article string  `json:"article"`
		Total   float64 `json:"total"`
	}
	h := worker.Each(func(_ context.Context, o Order) (Total, error) {
		switch {
		case o.Pieces < 0:
			return Total{}, fmt.Errorf("%d pieces ordered", o.Pieces)
		case o.Pieces == 0:
			return Total{}, worker.Drop
		}
		return Total{o.Article, float64(o.Pieces) * o.Price}, nil
	})
	runJob(h, "orders.jsonl",
		`{"article":"bolt","pieces":4,"price":0.25}`,
		`{"article":"nut","pieces":-1,"price":0.1}`,
		`{"article":"washer","pieces":0,"price":0.05}`,
		`{"article":"wrench","pieces":1,"price":12}`,
	)
	// Output:
	// {"article":"bolt","total":1}
	// {"article":"wrench","total":12}
	// item 1 failed: -1 pieces ordered
}

// A handler that takes many items at a time, for work that is quicker done together. It gives one
// result for each, in order, and may fail some of them.
func ExampleBatch() {
	type Customer struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	h := worker.Batch(func(_ context.Context, ids []string) ([]Customer, error) {
		names := lookUp(ids) // one query for all
		customers := make([]Customer, len(ids))
		failed := worker.ItemErrors{}
		for i, id := range ids {
			name, ok := names[id]
			if !ok {
				failed[i] = fmt.Errorf("no customer %q", id)
			}
			customers[i] = Customer{id, name}
		}
		if len(failed) > 0 {
			return customers, failed
		}
		return customers, nil
	})
	runJob(h, "ids.txt", "a1", "b2", "c3", "d4") // a line of text is a JSON string to a handler
	// Output:
	// {"id":"a1","name":"Ada"}
	// {"id":"b2","name":"Bert"}
	// {"id":"d4","name":"Dora"}
	// item 2 failed: no customer "c3"
}

// A filter: any program that answers n lines with n lines.
func ExampleExec() {
	h := worker.Exec("tr", "a-z", "A-Z")
	runJob(h, "words.txt", "one", "two", "three")
	// Output:
	// ONE
	// TWO
	// THREE
}

// A filter that fails over one line: the line is found and fails alone.
func ExampleExec_failure() {
	h := worker.Exec("awk", `/^[0-9]+$/ { print $1 * 2; next } { print "no number: " $0 > "/dev/stderr"; exit 1 }`)
	runJob(h, "numbers.txt", "1", "2", "three", "4")
	// Output:
	// 2
	// 4
	// 8
	// item 2 failed: exit 1: no number: three
}

// A sink receives a worker's counts: here only the last snapshot, at the worker's end.
func ExampleSink() {
	sink := worker.SinkFunc(func(_ context.Context, s worker.Snapshot) error {
		if s.Last {
			fmt.Printf("all jobs: %d items ok, %d failed\n", s.Total.OK, s.Total.Failed)
			sizes := s.Jobs["example"].Total.Sizes
			fmt.Printf("job example: %d items in calls\n", sizes.Items) // and sizes.Smallest, sizes.Mean() …
		}
		return nil
	})
	h := worker.Each(func(_ context.Context, word string) (string, error) {
		if word == "" {
			return "", errors.New("no word")
		}
		return strings.ToUpper(word), nil
	})
	runJobWith(h, worker.Options{Sinks: []worker.Sink{sink}, Slots: 1}, "words.jsonl", `"one"`, `""`, `"three"`)
	// Output:
	// "ONE"
	// "THREE"
	// item 1 failed: no word
	// all jobs: 2 items ok, 1 failed
	// job example: 3 items in calls
}

// A handler that sends each item to a server, and takes a part of its answer. The key is a variable of the environment.
func ExampleHTTP() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		city := r.URL.Query().Get("city")
		fmt.Fprintf(w, `{"found": {"name": %q, "letters": %d}}`, city, len(city))
	}))
	defer server.Close()
	h := worker.HTTP(worker.HTTPOptions{
		Method: "GET", URL: server.URL + "/search?city={city}", Headers: []string{"Authorization: Bearer $KEY"}, ResultPath: ".found.letters",
		AllowOrigins: []string{server.URL}, // it is on this machine
		Env:          func(string) (string, bool) { return "a-key", true },
	})
	runJob(h, "cities.jsonl", `{"city":"Lyon"}`, `{"city":"São Paulo"}`)
	// Output:
	// 4
	// 10
}

// A program that serves the pool "thumbnails" until it gets Ctrl-C or SIGTERM, with eight batches
// at a time.
func ExampleWorker_Run() {
	type Photo struct{ Path string }
	type Thumb struct{ Path string }

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	temporal, err := sdkclient.Dial(envconfig.MustLoadDefaultClientOptions()) // TEMPORAL_ADDRESS and the like
	if err != nil {
		log.Fatal(err)
	}
	defer temporal.Close()

	h := worker.Each(func(ctx context.Context, p Photo) (Thumb, error) {
		return Thumb{p.Path + ".thumb.jpg"}, nil
	})
	w, err := worker.New(jobs.NewClient(temporal, nil), "thumbnails", h, worker.Options{Slots: 8})
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// lookUp stands for a query of a database.
func lookUp([]string) map[string]string {
	return map[string]string{"a1": "Ada", "b2": "Bert", "d4": "Dora"}
}
