package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	httpTakes  = 20 * time.Millisecond // an answer
	httpAtOnce = 500                   // requests
)

// httpRows compare --http with a client that has as many goroutines.
func (b *bench) httpRows() []row {
	items := b.items(50_000)
	one := func(name, limit string, refused float64) row {
		return row{
			name: name, limit: limit, before: b.fresh,
			stint: func() *exec.Cmd {
				cmd := exec.Command(b.stint, "run", "--quiet", "-j1", "--concurrency", strconv.Itoa(httpAtOnce), "--http", b.slowServer(refused),
					"--allow-origin", b.slowServer(refused), b.lines(items), "-o", filepath.Join(b.dir, "stint.out"), "--state", filepath.Join(b.dir, "state"))
				cmd.Dir = b.dir
				return cmd
			},
			peer: func() *exec.Cmd { return b.role("bare-http", b.lines(items), b.slowServer(refused)) },
			note: func() string {
				return fmt.Sprintf("a server that takes %v, %d requests at once", httpTakes, httpAtOnce)
			},
		}
	}
	return []row{one("http, 500 at once", "≤ 1.15", 0), one("http, 500 at once, 0.5 % refused", "≤ 1.25", 0.005)}
}

// slowServer returns the address of a server of this process that refuses a share of the requests.
func (b *bench) slowServer(refused float64) string {
	if b.servers == nil {
		b.servers = map[float64]string{}
	}
	if b.servers[refused] == "" {
		b.servers[refused] = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if rand.Float64() < refused {
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			time.Sleep(httpTakes)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"ok":true}`)
		})).URL
	}
	return b.servers[refused]
}

// bareHTTP sends each line of a file to a server, and again if that refuses it, and writes the answers to another file.
func bareHTTP(input, output, url string) error {
	in, err := os.Open(input)
	if err != nil {
		return err
	}
	defer in.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: httpAtOnce, MaxIdleConns: httpAtOnce}}
	var answers []*[]byte
	var group errgroup.Group
	group.SetLimit(httpAtOnce)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		line, answer := bytes.Clone(lines.Bytes()), new([]byte)
		answers = append(answers, answer)
		group.Go(func() error {
			for {
				status, body, err := ask(client, url, line)
				if err != nil || status != http.StatusTooManyRequests {
					*answer = body
					return err
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	out, err := os.Create(output)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(out)
	for _, answer := range answers {
		_, _ = w.Write(append(*answer, '\n')) // Flush has the error
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return out.Close()
}

func ask(client *http.Client, url string, body []byte) (status int, answer []byte, err error) {
	response, err := client.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}
