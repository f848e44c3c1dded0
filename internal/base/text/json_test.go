package text

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJSON(t *testing.T) {
	t.Parallel()
	data, err := JSON(map[string]string{"a": "<b> & \"c\"\n"})
	require.NoError(t, err)
	require.Equal(t, `{"a":"<b> & \"c\"\n"}`, string(data))
	_, err = JSON(func() {})
	require.Error(t, err)
}

func TestJSONField(t *testing.T) {
	t.Parallel()
	require.Equal(t, `{"a":1,"r":{"<": 1.50}}`, string(JSONField([]byte(`{"a":1}`), "r", []byte(`{"<": 1.50}`))))
	require.Equal(t, `{"r":null}`, string(JSONField([]byte(`{}`), "r", nil)))
}

// The computed sizes are never below the real ones, and those of the worst characters are exact.
func TestJSONSize(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	alphabet := []string{"a", "é", "<", ">", "&", "\"", "\\", "\x00", "\n", "\x7f", "\xff", "\xe2\x80", "\u2028", "\ufffd", "😀"}
	for range 2000 {
		s := ""
		for range rng.IntN(8) {
			s += alphabet[rng.IntN(len(alphabet))]
		}
		data, err := json.Marshal(s)
		require.NoError(t, err)
		require.GreaterOrEqual(t, JSONSize(s), len(data), "%q", s)
		data, err = json.Marshal([]byte(s))
		require.NoError(t, err)
		require.Equal(t, Base64Size(len(s)), max(2, len(data)), "%q", s)
	}
	for _, worst := range []string{"<", "\x00", "\xff", "\u2028"} {
		require.Equal(t, 8, JSONSize(worst), "%q", worst)
	}
}
