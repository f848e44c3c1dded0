package starter_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// jsonText returns a text as JSON.
func jsonText(text string) string {
	data, _ := json.Marshal(text)
	return string(data)
}

// openAISays returns an answer of the chat API of OpenAI.
func openAISays(text string) string {
	return `{"choices": [{"message": {"role": "assistant", "content": ` + jsonText(text) + `}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 9, "completion_tokens": 3}}`
}

// Each provider is asked in its own form, at a server of one's own, too; what it has said is the result.
func TestLLM_Providers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.api(func(w http.ResponseWriter, r asked, _ int) {
		text := "of " + r.path
		switch {
		case strings.HasPrefix(r.path, "/openai"):
			says(w, 200, openAISays(text))
		case strings.HasPrefix(r.path, "/anthropic"):
			says(w, 200, `{"content": [{"type": "text", "text": `+jsonText(text)+`}], "stop_reason": "end_turn", "usage": {"input_tokens": 9, "output_tokens": 3}}`)
		default:
			says(w, 200, `{"candidates": [{"content": {"parts": [{"text": `+jsonText(text)+`}]}, "finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 3}}`)
		}
	})
	b.env = append(b.env, "MY_KEY=key-of-mine")
	b.write("in.csv", "id,text\n1,\"It is \"\"fine\"\"\"\n")
	b.write("ask.txt", "Is this good? {text}\n")
	b.write("be.txt", "You are terse.\n")
	for _, c := range []struct{ llm, header, path, prompt string }{
		{a.url + "/openai/v1", "Authorization: Bearer $MY_KEY", "/openai/v1/chat/completions", `"content":"Is this good? It is \"fine\""`},
		{"anthropic=" + a.url + "/anthropic/v1", "X-Api-Key: $MY_KEY", "/anthropic/v1/messages", `"content":"Is this good? It is \"fine\""`},
		{"gemini=" + a.url + "/v1beta", "X-Goog-Api-Key: $MY_KEY", "/v1beta/models/some-model:generateContent", `"text":"Is this good? It is \"fine\""`},
	} {
		c2 := b.stint("run", "--llm", c.llm, "--model", "some-model", "--header", c.header, "--prompt", "ask.txt", "--system", "be.txt", "--params", `{"temperature": 0}`, "--max-output", "50", "in.csv")
		require.Equal(t, jsonText("of "+c.path)+"\n", c2.exits(starter.ExitOK).stdout.String())
		all := a.requests()
		r := all[len(all)-1]
		require.Equal(t, c.path, r.path)
		require.Contains(t, r.body, c.prompt)
		require.Contains(t, r.body, "You are terse.")
		require.Contains(t, r.body, `"temperature":0`)
		name, value, _ := strings.Cut(c.header, ": ")
		require.Equal(t, strings.Replace(value, "$MY_KEY", "key-of-mine", 1), r.header.Get(name))
	}
}

// An answer that does not fit the schema is asked for again, and then invalid; one that was cut off is an error of its
// own, unless it is accepted.
func TestLLM_Schema(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var a *api
	a = b.api(func(w http.ResponseWriter, r asked, _ int) {
		switch {
		case strings.Contains(r.body, "never"), strings.Contains(r.body, "later") && a.tries(r.body) == 1:
			says(w, 200, openAISays(`{"good": "perhaps"}`))
		case strings.Contains(r.body, "cut"):
			says(w, 200, strings.Replace(openAISays(`{"good": true}`), `"stop"`, `"length"`, 1))
		default:
			says(w, 200, openAISays("```json\n{\"good\": true}\n```"))
		}
	})
	b.write("in.jsonl", "\"now\"\n\"later\"\n\"never\"\n\"cut\"\n")
	b.write("answer.json", `{"type": "object", "properties": {"good": {"type": "boolean"}}, "required": ["good"], "additionalProperties": false}`)
	run := []string{"run", "--llm", a.url + "/v1", "--model", "m", "--schema", "answer.json", "--backoff", "1ms", "in.jsonl", "-o", "out.jsonl"}
	b.stint(run...).exits(starter.ExitSomeFailed)
	require.Equal(t, strings.Repeat(`{"good":true}`+"\n", 2), b.read("out.jsonl"))
	failures := b.failed("out.jsonl.errors.jsonl")
	require.Len(t, failures, 2)
	require.Equal(t, job.KindInvalid, failures[2].Kind)
	require.Equal(t, "Schema", failures[2].Error.Type)
	require.Equal(t, 5, failures[2].Attempts)
	require.Equal(t, "FinishLength", failures[3].Error.Type)
	require.Equal(t, 1, failures[3].Attempts)
	require.Contains(t, a.requests()[0].body, `"json_schema"`, "the model gets the schema")
	b.stint(append(run, "--accept-finish", "length", "--item-attempts", "2")...).exits(starter.ExitSomeFailed)
	require.Equal(t, strings.Repeat(`{"good":true}`+"\n", 3), b.read("out.jsonl"))
	require.Equal(t, 2, b.failed("out.jsonl.errors.jsonl")[2].Attempts)
}

// Vectors of many items come from one request.
func TestLLM_Embed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.api(func(w http.ResponseWriter, r asked, _ int) {
		var request struct{ Input []string }
		_ = json.Unmarshal([]byte(r.body), &request)
		var vectors []string
		for i, text := range request.Input {
			vectors = append(vectors, fmt.Sprintf(`{"index": %d, "embedding": [%d, 0.5]}`, i, len(text)))
		}
		says(w, 200, `{"data": [`+strings.Join(vectors, ",")+`], "usage": {"prompt_tokens": 7}}`)
	})
	b.write("in.txt", strings.Repeat("one\nthree\n", 50))
	b.stint("run", "--llm", a.url+"/v1", "--model", "m", "--embed", "--call-items", "25", "--batch-items", "100", "in.txt", "-o", "out.jsonl").exits(starter.ExitOK)
	require.Equal(t, strings.Repeat("[3,0.5]\n[5,0.5]\n", 50), b.read("out.jsonl"))
	require.Len(t, a.requests(), 4)
}

// H1: A model that there is not stops the job, with what to do.
func TestLLM_UnknownModel(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.api(func(w http.ResponseWriter, _ asked, _ int) {
		says(w, 404, `{"error": {"message": "The model m does not exist", "type": "invalid_request_error", "code": "model_not_found"}}`)
	})
	b.write("in.jsonl", objects(500))
	c := b.stint("run", "--llm", a.url+"/v1", "--model", "m", "--report", "report.json", "in.jsonl", "-o", "out.jsonl").exits(starter.ExitFailed)
	require.Contains(t, c.stderr.String(), "Check the model's name, and whether the key may use it")
	r := b.report("report.json")
	require.Equal(t, "UnknownModel", r.Error.Type)
	require.Zero(t, r.Failed)
	require.Less(t, len(a.requests()), 100)
	require.Equal(t, job.Failed, r.State)
	c = b.stint("run", "--llm", a.url+"/v1", "--model", "m", "--clean-stop", "UnknownModel", "--fresh", "in.jsonl", "-o", "out.jsonl").exits(starter.ExitStopped)
	require.Contains(t, c.stderr.String(), "the same command continues from here")
}
