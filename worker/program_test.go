package worker

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stint-run/stint/internal/run/frames"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// asProgram, in the environment, makes the test binary a serve program of that kind.
const asProgram = "STINT_TEST_PROGRAM"

// raceOptions is passed on to processes of the test binary: `make race` sets it so that they do not wait a second
// before they end.
const raceOptions = "GORACE"

// obedient is a serve program. Its items are what it is to do with them.
type obedient struct {
	in    *bufio.Reader
	hello wire.HelloFrame
	acks  int64
}

func runProgram(kind string) {
	p := &obedient{in: bufio.NewReaderSize(os.Stdin, 1<<20)}
	p.read(&p.hello)
	switch kind {
	case "never ready":
		select {}
	case "not ready":
		fmt.Fprintln(os.Stderr, "no model here")
		p.say(wire.ReadyFrame{Type: "ready", Error: &job.Error{Type: "NoModel", Message: "model.bin is missing", Stack: "at line 3"}})
		select {}
	case "dies at once":
		fmt.Fprintln(os.Stderr, "cannot load")
		os.Exit(4)
	case "stops in init":
		p.say(wire.RequestStopFrame{Type: "request-stop", Reason: "no licence"})
		select {}
	case "one slot fails":
		if p.hello.Slot == 1 {
			p.say(wire.ReadyFrame{Type: "ready", Error: &job.Error{Type: "NoDevice", Message: "no device 1"}})
			select {}
		}
	case "dies later":
		if p.hello.Incarnation > 0 {
			os.Exit(5)
		}
	case "deaf once":
		if p.hello.Incarnation == 0 {
			p.say(wire.ReadyFrame{Type: "ready", Name: "deaf"})
			select {}
		}
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	}
	p.say(wire.ReadyFrame{Type: "ready", Name: "obedient", Stack: "QUIT"})
	p.serve(kind)
}

func (p *obedient) serve(kind string) {
	for {
		line, err := p.in.ReadBytes('\n')
		if err != nil {
			os.Exit(0)
		}
		switch name, _ := frames.Type(line); name {
		case "bye":
			if kind == "stubborn" {
				select {}
			}
			os.Exit(0)
		case "stopping":
			fmt.Fprintf(os.Stderr, "told: %s", line)
		case "call":
			var call wire.CallFrame
			must(json.Unmarshal(line, &call))
			p.call(&call)
		}
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(9)
	}
}

func (p *obedient) read(frame any) {
	line, err := p.in.ReadBytes('\n')
	must(err)
	must(json.Unmarshal(line, frame))
}

func (p *obedient) say(frame any) {
	line, err := frames.Encode(frame)
	must(err)
	_, err = os.Stdout.Write(line)
	must(err)
}

func (p *obedient) acquire(scope string, after time.Duration, f wire.AcquireFrame) {
	p.acks++
	f.Type, f.ID, f.Scope, f.After = "acquire", p.acks, scope, after.Seconds()
	p.say(f)
	var ack wire.AcquiredFrame
	p.read(&ack)
	if ack.ID != p.acks || ack.Error != nil {
		must(fmt.Errorf("acquired %d: %+v", ack.ID, ack.Error))
	}
}

// call answers as the items say.
func (p *obedient) call(call *wire.CallFrame) {
	items := call.Items
	if call.Item != nil {
		items = []json.RawMessage{call.Item}
	}
	results := make([]wire.ResultFrame, 0, len(items))
	for _, item := range items {
		var text string
		if json.Unmarshal(item, &text) != nil {
			results = append(results, wire.ResultFrame{Value: item}) // an echo
			continue
		}
		do, arg, _ := strings.Cut(text, " ")
		if do == "stream" {
			p.say(wire.ResultsFrame{Type: "results", ID: call.ID, Results: append(results, wire.ResultFrame{Value: item}), More: true})
			results = results[:0]
			continue
		}
		if result := p.do(call, do, arg, item); result != nil {
			results = append(results, *result)
		}
	}
	p.say(wire.ResultsFrame{Type: "results", ID: call.ID, Results: results})
}

func (p *obedient) do(call *wire.CallFrame, do, arg string, item json.RawMessage) *wire.ResultFrame {
	value := func(v any) *wire.ResultFrame {
		text, err := json.Marshal(v)
		must(err)
		return &wire.ResultFrame{Value: text}
	}
	switch do {
	case "exit":
		fmt.Fprintln(os.Stderr, "last words")
		code, _ := strconv.Atoi(arg)
		os.Exit(code)
	case "kill":
		must(syscall.Kill(os.Getpid(), syscall.SIGKILL))
		select {}
	case "begin":
		note(arg)
		select {}
	case "hang":
		select {}
	case "garbage":
		fmt.Println("Loading model…")
		select {}
	case "notype":
		fmt.Println(`{"value":1}`)
		select {}
	case "wrongfield":
		fmt.Println(`{"type":"results","id":"seven"}`)
		select {}
	case "twice":
		p.say(wire.ResultsFrame{Type: "results", ID: call.ID, Results: []wire.ResultFrame{{Value: item}}})
		p.say(wire.ResultsFrame{Type: "results", ID: call.ID, Results: []wire.ResultFrame{{Value: item}}})
		select {}
	case "stranger":
		p.say(wire.ResultsFrame{Type: "results", ID: 4711})
		select {}
	case "short":
		return nil
	case "fail":
		p.say(wire.ResultsFrame{Type: "results", ID: call.ID, Error: &job.Error{Type: "Whole", Message: arg}})
		p.serve("")
	case "big":
		line := make([]byte, frames.MaxFrame+2)
		for i := range line {
			line[i] = ' '
		}
		_, _ = os.Stdout.Write(line)
		select {}
	case "close":
		must(os.Stdout.Close())
		select {}
	case "chatter":
		for line := strings.Repeat("x", 200) + "\n"; ; {
			_, _ = os.Stderr.WriteString(line)
		}
	case "family":
		child := exec.Command("sleep", "1000")
		child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
		must(child.Start())
		must(os.WriteFile(arg, []byte(strconv.Itoa(child.Process.Pid)), 0o600))
		os.Exit(3)
	case "large":
		size, err := strconv.Atoi(arg)
		must(err)
		return value(strings.Repeat("x", size-2)) // without its quotes
	case "fill": // many of them are too much for a frame
		note(arg)
		p.say(wire.ResultsFrame{Type: "results", ID: call.ID, Results: []wire.ResultFrame{*value(strings.Repeat("x", large))}, More: true})
		return nil
	case "bulk":
		return &wire.ResultFrame{Error: &job.Error{Type: strings.Repeat("T", 3<<20), Message: strings.Repeat("m", 3<<20)}}
	case "drop":
		return &wire.ResultFrame{Drop: true}
	case "null":
		return &wire.ResultFrame{Value: json.RawMessage("null")}
	case "error":
		return &wire.ResultFrame{Error: &job.Error{Type: "Bad", Message: arg, Stack: "here"}}
	case "none":
		fmt.Printf(`{"type":"results","id":%d,"results":[{}]}`+"\n", call.ID)
		select {}
	case "who":
		return value(map[string]any{"pid": os.Getpid(), "env": os.Environ(), "hello": p.hello, "cpus": allowedCPUs()})
	case "scope":
		after, err := time.ParseDuration(arg)
		must(err)
		p.acquire("my scope", after, wire.AcquireFrame{})
		select {}
	case "term":
		p.acquire("polite", 0, wire.AcquireFrame{Signal: "TERM"})
		select {}
	case "report":
		p.acquire("only told", 0, wire.AcquireFrame{Action: "report"})
	case "scoped":
		p.acquire("short", time.Hour, wire.AcquireFrame{})
		p.say(wire.ReleaseFrame{Type: "release", Scope: "short"})
		p.say(wire.ReleaseFrame{Type: "release", Scope: "never held"})
	case "scopes":
		for i := range int64(100_000) {
			p.say(wire.AcquireFrame{Type: "acquire", ID: i, Scope: strconv.FormatInt(i, 10), After: 1000})
		}
		select {}
	case "hoard":
		var ack wire.AcquiredFrame
		for i := int64(1); i <= frames.MaxTimers+1; i++ {
			for ack = (wire.AcquiredFrame{}); ack.ID != i || ack.Error != nil && ack.Error.Type == "AwayError"; { // of a busy machine
				p.say(wire.AcquireFrame{Type: "acquire", ID: i, Scope: strconv.FormatInt(i, 10), After: 1000})
				ack = wire.AcquiredFrame{}
				p.read(&ack)
			}
		}
		return value(ack.Error.Type + ": " + ack.Error.Message)
	case "stop":
		p.say(wire.RequestStopFrame{Type: "request-stop", Reason: arg, Error: &job.Error{Type: "Full", Message: "no room"}})
	case "stops":
		for range 50 {
			p.say(wire.RequestStopFrame{Type: "request-stop", Reason: arg})
		}
	case "slow":
		p.say(wire.SlowDownFrame{Type: "slow-down", After: 0.01})
	case "log":
		p.say(wire.LogFrame{Type: "log", Level: "warn", Message: arg, Fields: map[string]any{"n": 1}})
		p.say(wire.MetricFrame{Type: "metric", Name: "tokens", Kind: "counter", Value: 2})
		p.say(map[string]any{"type": "of the future", "id": "a string", "results": 3})
	default:
		return p.obeyMore(call, item)
	}
	return &wire.ResultFrame{Value: item}
}

// allowedCPUs is what the kernel says of this process.
func allowedCPUs() string {
	status, err := os.ReadFile("/proc/self/status")
	must(err)
	_, rest, _ := strings.Cut(string(status), "Cpus_allowed_list:")
	list, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(list)
}
