package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/stint-run/stint/jobs"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
)

// Trade is what the examples put into a feed, Score what comes back.
type Trade struct {
	ID     int     `json:"id"`
	Amount float64 `json:"amount"`
}

type Score struct {
	Risk float64 `json:"risk"`
}

// Put items whose results are read from the feed's output, and wait a while if it is full.
func ExampleFeed_Put() {
	ctx := context.Background()
	temporal, err := sdkclient.Dial(envconfig.MustLoadDefaultClientOptions())
	if err != nil {
		log.Fatal(err)
	}
	defer temporal.Close()

	feed := jobs.NewFeed[Trade, Score](jobs.NewClient(temporal, nil), "risk", jobs.FeedOptions{Linger: 2 * time.Millisecond})
	defer feed.Release()
	err = feed.Put(ctx, Trade{ID: 1, Amount: 250}, Trade{ID: 2, Amount: 80})
	if jobs.IsCode(err, jobs.CodeFull) {
		err = feed.PutWait(ctx, 5*time.Second, Trade{ID: 1, Amount: 250}, Trade{ID: 2, Amount: 80})
	}
	if err != nil {
		log.Fatal(err)
	}
}

// Put one item and wait for its result.
func ExampleFeed_Call() {
	ctx := context.Background()
	temporal, err := sdkclient.Dial(envconfig.MustLoadDefaultClientOptions())
	if err != nil {
		log.Fatal(err)
	}
	defer temporal.Close()

	feed := jobs.NewFeed[Trade, Score](jobs.NewClient(temporal, nil), "risk", jobs.FeedOptions{})
	defer feed.Release()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	score, err := feed.Call(ctx, Trade{ID: 1, Amount: 250})
	failed, ok := errors.AsType[*jobs.FeedError](err)
	switch {
	case ok && failed.Code == jobs.CodeItem:
		log.Fatalf("%s: %s", failed.Failure.Error.Type, failed.Failure.Error.Message)
	case ok && failed.Code == jobs.CodeTimeout:
		log.Fatalf("accepted: %t, waited %v", failed.Accepted, failed.Waited)
	case err != nil:
		log.Fatal(err)
	}
	fmt.Println(score.Risk)
}

// Stream items: the results come in their order, and no more items are taken than the feed has room for.
func ExampleFeed_Stream() {
	ctx := context.Background()
	temporal, err := sdkclient.Dial(envconfig.MustLoadDefaultClientOptions())
	if err != nil {
		log.Fatal(err)
	}
	defer temporal.Close()

	feed := jobs.NewFeed[Trade, Score](jobs.NewClient(temporal, nil), "risk", jobs.FeedOptions{})
	defer feed.Release()
	trades := slices.Values([]Trade{{1, 250}, {2, 80}, {3, 1200}})
	for r, err := range feed.Stream(ctx, trades, jobs.StreamOptions{InPlace: true, Items: true}) {
		switch {
		case jobs.IsCode(err, jobs.CodeItem):
			fmt.Println(r.Item.ID, err)
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Println(r.Item.ID, r.Out.Risk)
		}
	}
}
