package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/worker"
)

// A service asks for another try of one request: the item waits, and others go on.
func ExampleRetryAfter() {
	asked := false
	h := worker.Each(func(_ context.Context, city string) (string, error) {
		if city == "Bergen" && !asked {
			asked = true
			return "", worker.RetryAfter(200*time.Millisecond, errors.New("429 Too Many Requests")) // what its Retry-After says
		}
		return city + ": rain", nil
	})
	s := newStage(h, worker.Options{Slots: 1})
	defer s.end()
	report := s.wait(s.start(job.Spec{}, "cities.txt", "Oslo", "Bergen", "Tromsø"))
	fmt.Printf("%d failed, %d slow-down requests\n", report.Failed, report.SlowDowns)
	// Output:
	// "Oslo: rain"
	// "Bergen: rain"
	// "Tromsø: rain"
	// 0 failed, 0 slow-down requests
}

// A service gets too many requests: nothing has failed, and the items are repeated. As so many are refused, the
// whole job goes slower for a while.
func ExampleSlowDown() {
	refused := 0
	h := worker.Each(func(_ context.Context, city string) (string, error) {
		if refused++; refused <= 4 {
			return "", worker.SlowDown(200 * time.Millisecond) // what the service's Retry-After says
		}
		return city + ": rain", nil
	})
	s := newStage(h, worker.Options{Slots: 1})
	defer s.end()
	report := s.wait(s.start(job.Spec{}, "cities.txt", "Oslo", "Bergen", "Tromsø"))
	fmt.Printf("%d failed, %d slow-down requests\n", report.Failed, report.SlowDowns)
	// Output:
	// "Oslo: rain"
	// "Bergen: rain"
	// "Tromsø: rain"
	// 0 failed, 1 slow-down requests
}

// A handler whose items take long checks for a stop, and ends its work in good order.
func ExampleStopping() {
	begun := make(chan struct{})
	h := worker.Each(func(ctx context.Context, film string) (string, error) {
		close(begun)
		for {
			select {
			case <-nextScene():
			case <-worker.Stopping(ctx):
				reason, _, _ := worker.StopNotice(ctx)
				return fmt.Sprintf("%s, up to here: %s", film, reason), nil
			}
		}
	})
	s := newStage(h, worker.Options{Slots: 1})
	defer s.end()
	run := s.start(job.Spec{BatchItems: 2}, "films.txt", "Metropolis", "Nosferatu")
	<-begun
	check(run.Stop(context.Background(), job.Stop{Reason: "the room is needed", Grace: "1m"}))
	report := s.wait(run)
	fmt.Printf("%s: %d of %d films done\n", report.State, report.OK, report.Planned)
	// Output:
	// stopped: 1 of 2 films done
}

// A handler that finds out that continuing makes no sense stops the whole job: here with an error,
// which makes the job fail. It can be resumed.
func ExampleRequestStop() {
	h := worker.Each(func(ctx context.Context, parcel string) (string, error) {
		if parcel == "P-1003" {
			if err := worker.RequestStop(ctx, errors.New("the label printer is out of paper")); err != nil {
				return "", err
			}
			<-worker.Stopping(ctx) // nothing else of the batch is begun
		}
		return parcel + " labelled", nil
	})
	s := newStage(h, worker.Options{Slots: 1})
	defer s.end()
	report := s.wait(s.start(job.Spec{BatchItems: 4}, "parcels.txt", "P-1001", "P-1002", "P-1003", "P-1004"))
	fmt.Printf("%s: %s\n%d of %d parcels done\n", report.State, report.Error.Message, report.OK, report.Planned)
	// Output:
	// failed: the label printer is out of paper
	// 3 of 4 parcels done
}

// Hooks are functions of the worker that jobs name: here one that prepares what the batches need, and
// one that clears it away, however the job ends.
func ExampleHook() {
	rates := map[string]float64{}
	load := func(_ context.Context, call worker.HookCall) error {
		rates["EUR"], rates["CHF"] = 1, 1.04
		fmt.Printf("%s of %s: rates loaded\n", call.Stage, call.Job)
		return nil
	}
	forget := func(_ context.Context, call worker.HookCall) error {
		clear(rates)
		fmt.Printf("%s of %s: rates forgotten\n", call.Stage, call.Job)
		return nil
	}
	type Price struct {
		Amount   float64 `json:"amount"`
		Currency string  `json:"currency"`
	}
	h := worker.Each(func(_ context.Context, p Price) (Price, error) {
		return Price{p.Amount * rates[p.Currency], "EUR"}, nil
	})
	s := newStage(h, worker.Options{Hooks: map[string]worker.Hook{"load-rates": load, "forget-rates": forget}})
	defer s.end()
	s.wait(s.start(job.Spec{Init: []string{"load-rates"}, Cleanup: []string{"forget-rates"}}, "prices.jsonl",
		`{"amount":250,"currency":"CHF"}`, `{"amount":19.5,"currency":"EUR"}`))
	// Output:
	// init of example: rates loaded
	// cleanup of example: rates forgotten
	// {"amount":260,"currency":"EUR"}
	// {"amount":19.5,"currency":"EUR"}
}

// A hook can be a program. Its environment says what it is run for.
func ExampleCommand() {
	dir, err := os.MkdirTemp("", "stint-example-")
	check(err)
	defer os.RemoveAll(dir)
	note := worker.HookCommand("sh", "-c", `echo "$STINT_STAGE of $STINT_JOB" >> notes`)

	s := newStage(worker.Exec("cat"), worker.Options{Hooks: map[string]worker.Hook{"note": note}, Dir: dir})
	defer s.end()
	s.wait(s.start(job.Spec{Init: []string{"note"}, Cleanup: []string{"note"}}, "words.txt", "one", "two"))
	notes, err := os.ReadFile(filepath.Join(dir, "notes"))
	check(err)
	fmt.Print(string(notes))
	// Output:
	// one
	// two
	// init of example
	// cleanup of example
}

// nextScene stands for the work that a scene of a film makes.
func nextScene() <-chan time.Time { return time.After(time.Millisecond) }
