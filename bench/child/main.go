// Command child is the serve program of the benchmarks: small, so that its own start counts little.
//
//	child echo         answers every item with itself
//	child sleeps TIME  does the same after that time, and answers any number of calls at once
//	child dies DIR     kills itself over every item the first time it sees it, which DIR remembers,
//	                   and answers with the nanoseconds since then
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/stint-run/stint/internal/run/frames"
	"github.com/stint-run/stint/internal/wire"
)

func main() {
	if err := serve(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(args []string) error {
	answer := func(item json.RawMessage) (json.RawMessage, error) { return item, nil }
	respond := call
	switch args[0] {
	case "dies":
		answer = func(item json.RawMessage) (json.RawMessage, error) { return sinceDeath(args[1], item) }
	case "sleeps":
		nap, err := time.ParseDuration(args[1])
		if err != nil {
			return err
		}
		answer = func(item json.RawMessage) (json.RawMessage, error) {
			time.Sleep(nap) // the item's work
			return item, nil
		}
		respond = callAtOnce
	}
	in := frames.NewReader(os.Stdin, frames.MaxFrame)
	for {
		line, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name, err := frames.Type(line)
		if err != nil {
			return err
		}
		switch name {
		case frames.TypeHello:
			err = say(wire.ReadyFrame{Type: frames.TypeReady, Name: "bench"})
		case frames.TypeCall:
			err = respond(line, answer)
		case frames.TypeBye:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// callAtOnce returns before the call is answered.
func callAtOnce(line []byte, answer func(json.RawMessage) (json.RawMessage, error)) error {
	line = slices.Clone(line) // it is read over next
	go func() {
		if err := call(line, answer); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}()
	return nil
}

func call(line []byte, answer func(json.RawMessage) (json.RawMessage, error)) error {
	var f wire.CallFrame
	if err := frames.Decode(line, &f); err != nil {
		return err
	}
	results := make([]wire.ResultFrame, len(f.Items))
	for i, item := range f.Items {
		value, err := answer(item)
		if err != nil {
			return err
		}
		results[i].Value = value
	}
	answered := wire.ResultsFrame{ID: f.ID, Results: results}
	_, err := os.Stdout.Write(frames.AppendResults(&answered, nil))
	return err
}

func say(frame any) error {
	line, err := frames.Encode(frame)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(line)
	return err
}

// sinceDeath tells how long ago the item killed a process, or has it kill this one.
func sinceDeath(dir string, item []byte) (json.RawMessage, error) {
	now := time.Now().UnixNano()
	sum := fnv.New64a()
	_, _ = sum.Write(item) // it cannot fail
	path := filepath.Join(dir, strconv.FormatUint(sum.Sum64(), 16))
	text, err := os.ReadFile(path)
	if err == nil {
		died, err := strconv.ParseInt(string(text), 10, 64)
		return strconv.AppendInt(nil, now-died, 10), err
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprint(f, time.Now().UnixNano()); err != nil {
		return nil, err
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		return nil, err
	}
	select {}
}
