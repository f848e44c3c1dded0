package job

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestError_Text(t *testing.T) {
	t.Parallel()
	require.Equal(t, "OutOfRange: no more", (&Error{Type: "OutOfRange", Message: "no more"}).Error())
	require.Equal(t, "no more", (&Error{Message: "no more"}).Error())
}

// A line of the errors file, as docs and users know it.
func TestFailure_JSON(t *testing.T) {
	t.Parallel()
	line, err := json.Marshal(Failure{
		Item: 7, Source: "/in.jsonl", Offset: 70, Input: json.RawMessage(`{"a":1}`), Kind: KindCrash,
		Error: Error{Type: "Crash", Message: "exit status 1"}, Attempts: 5,
	})
	require.NoError(t, err)
	require.Equal(t, `{"item":7,"source":"/in.jsonl","offset":70,"input":{"a":1},"kind":"crash",`+
		`"error":{"type":"Crash","message":"exit status 1"},"attempts":5}`, string(line))
}
