package jobs

import (
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"regexp"
	"strings"

	common "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"
)

const (
	keySize = 32 // AES-256
	maxKeys = 100

	encodingEncrypted = "binary/encrypted"
	metadataKeyID     = "encryption-key-id"
)

var keyIDPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Codec encrypts payloads with AES-256-GCM, so that neither a Temporal server nor who reads its database sees them:
// arguments, results, memos, heartbeats and errors. An encrypted payload has the ID of its key in its metadata.
// Decoding passes other payloads through, so that jobs which began without a codec continue. It is a
// [converter.PayloadCodec] and safe for concurrent use. Make one with [ReadCodec].
type Codec struct {
	first string // the ID of the key that encrypts
	keys  map[string]cipher.AEAD
}

// ReadCodec reads the keys of a file: on each line an ID ([A-Za-z0-9._-], at most 64 bytes) and, after a
// space, 32 bytes in base64. Empty lines and those that begin with '#' are ignored. The first key encrypts,
// all of them (1 to 100) decrypt. To rotate, add the new key at the end of every process's file, then make it
// the first one, and remove the old one when no history is left that was written with it.
func ReadCodec(file string) (*Codec, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the codec's keys: %w", err)
	}
	c := &Codec{keys: map[string]cipher.AEAD{}}
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if err := c.add(line); err != nil { // which never shows a key
			return nil, fmt.Errorf("reading the codec's keys: %s, line %d: %w", file, n, err)
		}
	}
	if c.first == "" {
		return nil, fmt.Errorf("reading the codec's keys: %s has none: write an ID and 32 bytes in base64 on a line", file)
	}
	return c, nil
}

func (c *Codec) add(line string) error {
	fields := strings.Fields(line)
	if len(fields) != 2 {
		return fmt.Errorf("expected an ID and a key, got %d fields", len(fields))
	}
	id := fields[0]
	if !keyIDPattern.MatchString(id) {
		return fmt.Errorf("invalid ID: use 1 to 64 letters, digits, dots, dashes and underscores")
	}
	if c.keys[id] != nil {
		return fmt.Errorf("duplicate ID %s: give each key its own", id)
	}
	if len(c.keys) == maxKeys {
		return fmt.Errorf("more than %d keys: remove those that no history needs", maxKeys)
	}
	key, err := base64.StdEncoding.DecodeString(fields[1])
	if err != nil || len(key) != keySize {
		return fmt.Errorf("the key of %s is not %d bytes in base64: make one with 'openssl rand -base64 %d'", id, keySize, keySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	if c.keys[id], err = cipher.NewGCM(block); err != nil {
		return err
	}
	c.first = cmp.Or(c.first, id)
	return nil
}

// Encode encrypts payloads with the first key.
func (c *Codec) Encode(payloads []*common.Payload) ([]*common.Payload, error) {
	key := c.keys[c.first]
	encoded := make([]*common.Payload, len(payloads))
	for i, p := range payloads {
		plain, err := proto.Marshal(p)
		if err != nil {
			return nil, fmt.Errorf("encrypting a payload: %w", err)
		}
		nonce := make([]byte, key.NonceSize(), key.NonceSize()+len(plain)+key.Overhead())
		_, _ = rand.Read(nonce) // never fails: crypto/rand
		encoded[i] = &common.Payload{
			Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encodingEncrypted), metadataKeyID: []byte(c.first)},
			Data:     key.Seal(nonce, nonce, plain, []byte(c.first)),
		}
	}
	return encoded, nil
}

// Decode decrypts those payloads that are encrypted, each with the key that it names.
func (c *Codec) Decode(payloads []*common.Payload) ([]*common.Payload, error) {
	decoded := make([]*common.Payload, len(payloads))
	for i, p := range payloads {
		decoded[i] = p
		if string(p.GetMetadata()[converter.MetadataEncoding]) != encodingEncrypted {
			continue
		}
		id := string(p.GetMetadata()[metadataKeyID])
		key := c.keys[id]
		if key == nil {
			return nil, fmt.Errorf("decrypting a payload: the key %.64q is missing: add it to the codec's keys", id)
		}
		if len(p.GetData()) < key.NonceSize() {
			return nil, fmt.Errorf("decrypting a payload: it has %d bytes, which is too few", len(p.GetData()))
		}
		nonce, sealed := p.GetData()[:key.NonceSize()], p.GetData()[key.NonceSize():]
		plain, err := key.Open(nil, nonce, sealed, []byte(id))
		if err != nil {
			return nil, fmt.Errorf("decrypting a payload with the key %s: it was changed, or encrypted with another key of that ID", id)
		}
		decoded[i] = &common.Payload{}
		if err := proto.Unmarshal(plain, decoded[i]); err != nil {
			return nil, fmt.Errorf("decrypting a payload: %w", err)
		}
	}
	return decoded, nil
}

// DataConverter returns the SDK's default converter behind the codec: for [ClientOptions], for the options of a worker,
// and for those of the Temporal client (see [Codec.Apply]).
func (c *Codec) DataConverter() converter.DataConverter {
	return converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), c)
}

// Apply sets the options so that their Temporal client encrypts everything, including the texts of errors.
func (c *Codec) Apply(o *client.Options) {
	o.DataConverter = c.DataConverter()
	o.FailureConverter = temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{
		DataConverter: o.DataConverter, EncodeCommonAttributes: true,
	})
}
