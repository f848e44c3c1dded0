package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/stint-run/stint/internal/web/gateway"
	"github.com/stint-run/stint/jobs"
	"golang.org/x/sync/errgroup"
)

// callAtOnce has so many callers share so many items, each calling one after the other.
func callAtOnce(ctx context.Context, client *jobs.Feed[int, int], callers, items int) error {
	var all errgroup.Group
	for range callers {
		all.Go(func() error {
			for i := range items / callers {
				if _, err := client.Call(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return all.Wait()
}

// callApart has so many processes of so many callers each share so many items. It returns how long that takes once all
// are ready.
func callApart(server string, processes, callers, items int) (time.Duration, error) {
	var all []*process
	for range processes {
		p, err := startProcess("feed-client", server, strconv.Itoa(callers), strconv.Itoa(items/processes))
		if err != nil {
			return 0, err
		}
		defer p.end() // it has said how it went
		all = append(all, p)
	}
	heard := func() error {
		for _, p := range all {
			if _, err := p.lines.ReadString('\n'); err != nil {
				return fmt.Errorf("waiting for a process of callers: %w", err)
			}
		}
		return nil
	}
	if err := heard(); err != nil {
		return 0, err
	}
	began := time.Now()
	for _, p := range all {
		if _, err := io.WriteString(p.stdin, "begin\n"); err != nil {
			return 0, err
		}
	}
	err := heard()
	return time.Since(began), err
}

// feedClient returns a process of callers. It prints a line when it is ready, begins when it reads one, and prints
// another one at its end.
func feedClient(args []string) error {
	callers, items, err := twoInts(args[1], args[2])
	if err != nil {
		return err
	}
	ctx := context.Background()
	c, err := dial(ctx, args[0])
	if err != nil {
		return err
	}
	defer c.Close()
	client := jobs.NewFeed[int, int](jobs.NewClient(c, nil), "bench", jobs.FeedOptions{})
	defer client.Release()
	if _, err := client.Call(ctx, 0); err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	if err := callAtOnce(ctx, client, callers, items); err != nil {
		return err
	}
	fmt.Println("done")
	return nil
}

// throughGateway returns a call of one item that goes through a gateway of this process.
func throughGateway(f *feeding) (call func(i int) error, end func(), err error) {
	server, err := gateway.Listen("127.0.0.1:0", gateway.Options{Open: func(name string) gateway.Feed {
		return jobs.NewFeed[gateway.Value, gateway.Value](f.client, name, jobs.FeedOptions{})
	}})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, time.Second) }()
	end = func() {
		cancel()
		<-served
	}
	url := "http://" + server.Address() + "/v1/feeds/bench/call"
	return func(i int) error {
		got, err := http.Post(url, "application/json", bytes.NewReader(strconv.AppendInt(nil, int64(i), 10)))
		if err != nil {
			return err
		}
		defer got.Body.Close()
		answer, err := io.ReadAll(got.Body)
		if err == nil && got.StatusCode != http.StatusOK {
			err = errors.New(got.Status + ": " + string(answer))
		}
		return err
	}, end, nil
}
