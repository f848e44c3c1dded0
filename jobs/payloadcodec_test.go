package jobs

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	common "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
)

// keyLine is a line of a key file.
func keyLine(id string, of byte) string {
	return id + " " + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(of), keySize))) + "\n"
}

func readCodec(t *testing.T, text string) (*Codec, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return ReadCodec(file)
}

func mustCodec(t *testing.T, text string) *Codec {
	t.Helper()
	c, err := readCodec(t, text)
	require.NoError(t, err)
	return c
}

func TestCodec_RoundTrip(t *testing.T) {
	t.Parallel()
	c := mustCodec(t, "# keys\n\n"+keyLine("2026-11", 'a'))
	payloads, err := c.DataConverter().ToPayloads("the secret", nil, []byte{1, 2}, 7)
	require.NoError(t, err)
	for _, p := range payloads.Payloads {
		require.Equal(t, "binary/encrypted", string(p.Metadata[converter.MetadataEncoding]))
		require.Equal(t, "2026-11", string(p.Metadata["encryption-key-id"]))
		require.NotContains(t, string(p.Data), "secret")
	}
	var text string
	var nothing *int
	var bytes []byte
	var number int
	require.NoError(t, c.DataConverter().FromPayloads(payloads, &text, &nothing, &bytes, &number))
	require.Equal(t, "the secret", text)
	require.Nil(t, nothing)
	require.Equal(t, []byte{1, 2}, bytes)
	require.Equal(t, 7, number)

	again, err := c.DataConverter().ToPayload("the secret")
	require.NoError(t, err)
	require.NotEqual(t, payloads.Payloads[0].Data, again.Data, "each has a nonce of its own")
}

// What began without a codec goes on.
func TestCodec_PassesPlainPayloadsThrough(t *testing.T) {
	t.Parallel()
	plain, err := converter.GetDefaultDataConverter().ToPayload("plain")
	require.NoError(t, err)
	var text string
	require.NoError(t, mustCodec(t, keyLine("a", 'a')).DataConverter().FromPayload(plain, &text))
	require.Equal(t, "plain", text)
}

func TestCodec_Rotation(t *testing.T) {
	t.Parallel()
	old := mustCodec(t, keyLine("old", 'o'))
	both := mustCodec(t, keyLine("old", 'o')+keyLine("new", 'n'))
	turned := mustCodec(t, keyLine("new", 'n')+keyLine("old", 'o'))
	fresh := mustCodec(t, keyLine("new", 'n'))
	reads := func(from, by *Codec) error {
		p, err := from.DataConverter().ToPayload("x")
		require.NoError(t, err)
		var text string
		return by.DataConverter().FromPayload(p, &text)
	}
	for _, pair := range [][2]*Codec{{old, both}, {both, old}, {both, turned}, {turned, both}, {turned, fresh}, {fresh, turned}, {old, turned}} {
		require.NoError(t, reads(pair[0], pair[1]))
	}
	require.ErrorContains(t, reads(old, fresh), `the key "old" is missing`)
	require.ErrorContains(t, reads(old, mustCodec(t, keyLine("old", 'x'))), "another key of that ID")
}

func TestCodec_RefusesWhatWasChanged(t *testing.T) {
	t.Parallel()
	c := mustCodec(t, keyLine("a", 'a')+keyLine("b", 'a'))
	change := func(change func(p *common.Payload)) error {
		p, err := c.DataConverter().ToPayload("x")
		require.NoError(t, err)
		change(p)
		_, err = c.Decode([]*common.Payload{p})
		return err
	}
	require.NoError(t, change(func(*common.Payload) {}))
	require.ErrorContains(t, change(func(p *common.Payload) { p.Data[len(p.Data)-1] ^= 1 }), "it was changed")
	require.ErrorContains(t, change(func(p *common.Payload) { p.Metadata["encryption-key-id"] = []byte("b") }), "it was changed", "the ID is authenticated")
	require.ErrorContains(t, change(func(p *common.Payload) { p.Data = p.Data[:5] }), "too few")
}

func TestReadCodec_Refuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, says string }{
		{"", "has none"},
		{"# only\n", "has none"},
		{"a\n", "line 1: expected an ID and a key, got 1 fields"},
		{"a b c\n", "got 3 fields"},
		{keyLine("a", 'a') + "\n" + keyLine("a", 'b'), "line 3: duplicate ID a: give each key its own"},
		{"a Zm9vc2VjcmV0\n", "not 32 bytes in base64"},
		{"a not-base64!\n", "openssl rand -base64 32"},
		{keyLine("a/b", 'a'), "invalid ID"},
		{keyLine(strings.Repeat("a", 65), 'a'), "invalid ID"},
	} {
		_, err := readCodec(t, c.text)
		require.ErrorContains(t, err, c.says, c.text)
		require.NotContains(t, err.Error(), "Zm9vc2VjcmV0", "no key is shown")
	}
	_, err := ReadCodec(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// The texts of errors are encrypted, too.
func TestCodec_Apply(t *testing.T) {
	t.Parallel()
	var o client.Options
	mustCodec(t, keyLine("a", 'a')).Apply(&o)
	failure := o.FailureConverter.ErrorToFailure(errors.New("the secret"))
	require.NotContains(t, failure.String(), "secret")
	require.ErrorContains(t, o.FailureConverter.FailureToError(failure), "the secret")
}
