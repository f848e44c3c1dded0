package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// handlerCommand is the argument with which this program is a filter, followed by the directory with its marks.
const handlerCommand = "filter"

// healed is the mark of a directory in which no item fails any more.
const healed = "healed"

var errFails = errors.New("an item fails")

// filter answers each line of in with a line.
func filter(marks string, in io.Reader, out io.Writer) error {
	_, err := os.Stat(filepath.Join(marks, healed))
	heals := err == nil
	w := bufio.NewWriter(out)
	lines := bufio.NewReaderSize(in, 1<<20)
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			return w.Flush()
		}
		if err != nil {
			return err
		}
		answer, fails := answerLine(strings.TrimSuffix(line, "\n"))
		if fails && !heals {
			return errFails
		}
		if _, err := w.WriteString(answer + "\n"); err != nil {
			return err
		}
	}
}

// answerLine is the filter's answer to a line.
func answerLine(line string) (answer string, fails bool) {
	if !strings.HasPrefix(line, "{") {
		return line + "+", strings.Contains(line, " fail ")
	}
	var object map[string]any
	dec := json.NewDecoder(strings.NewReader(line))
	dec.UseNumber()
	if err := dec.Decode(&object); err != nil {
		return "not an object", false
	}
	n, _ := strconv.Atoi(fmt.Sprint(object["n"]))
	object["value"] = fmt.Sprint(object["value"]) + "+"
	object["group"] = item{n: n}.group()
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(object); err != nil {
		return "not an answer", false
	}
	return strings.TrimSuffix(out.String(), "\n"), object["kind"] == "fail"
}

// program is the same as a serve program. It can also drop items, and have them fail once.
const program = `import os, sys
sys.path.insert(0, sys.argv[1])
import stint

marks = sys.argv[2]

def answer(item):
    text = isinstance(item, str)
    n, kind, value = item.split(" ", 2) if text else (str(item["n"]), item["kind"], item["value"])
    if kind == "fail" and not os.path.exists(os.path.join(marks, "healed")):
        raise ValueError("fails")
    if kind == "flaky":
        try:
            os.close(os.open(os.path.join(marks, "flaky-" + n), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            raise ValueError("fails once")
    if kind == "drop":
        return stint.DROP
    return item + "+" if text else {**item, "value": value + "+", "group": "g%d" % (int(n) % 3)}

def outcome(item):
    try:
        return answer(item)
    except ValueError as error:
        return error

stint.serve(lambda items: [outcome(item) for item in items])
`

// handler are the flags that give a job's handler.
func (j job) handler(l *lab, b *bench) []string {
	if j.serve {
		return []string{"--serve", strings.Join([]string{l.python, b.program, b.helper, b.marks}, " ")}
	}
	return []string{"--exec", strings.Join([]string{l.self, handlerCommand, b.marks}, " ")}
}
