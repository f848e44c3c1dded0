package jobs_test

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/test/testserver"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdklog "go.temporal.io/sdk/log"
	"google.golang.org/protobuf/proto"
)

// sealed encrypts every payload with AES-256-GCM.
type sealed struct{ cipher.AEAD }

const sealedEncoding = "binary/sealed"

func newSealed(t *testing.T) converter.DataConverter {
	t.Helper()
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	block, err := aes.NewCipher(key)
	require.NoError(t, err)
	aead, err := cipher.NewGCM(block)
	require.NoError(t, err)
	return converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), sealed{aead})
}

func (s sealed) Encode(payloads []*common.Payload) ([]*common.Payload, error) {
	var out []*common.Payload
	for _, p := range payloads {
		plain, err := proto.Marshal(p)
		if err != nil {
			return nil, err
		}
		nonce := make([]byte, s.NonceSize())
		_, _ = rand.Read(nonce)
		out = append(out, &common.Payload{
			Metadata: map[string][]byte{converter.MetadataEncoding: []byte(sealedEncoding)},
			Data:     s.Seal(nonce, nonce, plain, nil),
		})
	}
	return out, nil
}

func (s sealed) Decode(payloads []*common.Payload) ([]*common.Payload, error) {
	var out []*common.Payload
	for _, p := range payloads {
		if string(p.GetMetadata()[converter.MetadataEncoding]) != sealedEncoding {
			out = append(out, p)
			continue
		}
		if len(p.GetData()) < s.NonceSize() {
			return nil, errors.New("payload is too short")
		}
		plain, err := s.Open(nil, p.Data[:s.NonceSize()], p.Data[s.NonceSize():], nil)
		if err != nil {
			return nil, err
		}
		opened := &common.Payload{}
		if err := proto.Unmarshal(plain, opened); err != nil {
			return nil, err
		}
		out = append(out, opened)
	}
	return out, nil
}

// With a Temporal client that encrypts, jobs are listed, stopped and resumed as without.
func TestClient_DataConverter(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	server, err := testserver.Start(ctx)
	require.NoError(t, err)
	defer server.Stop()
	dataConverter := newSealed(t)
	temporal, err := sdkclient.Dial(sdkclient.Options{HostPort: server.Address(), Logger: sdklog.NewStructuredLogger(silent), DataConverter: dataConverter})
	require.NoError(t, err)
	defer temporal.Close()

	free := make(chan struct{}) // closed when items may end by themselves
	client := jobs.NewClient(temporal, &jobs.ClientOptions{DataConverter: dataConverter})
	w, err := worker.New(client, "vault", worker.Each(func(ctx context.Context, item string) (string, error) {
		if item == "b" {
			select {
			case <-worker.Stopping(ctx):
			case <-free:
			}
		}
		return item, nil
	}), worker.Options{Slots: 1, Logger: silent})
	require.NoError(t, err)
	served := make(chan error, 1)
	serving, leave := context.WithCancel(ctx)
	go func() { served <- w.Run(serving) }()
	defer func() { leave(); require.NoError(t, <-served) }()

	dir := t.TempDir()
	input := filepath.Join(dir, "in.txt")
	require.NoError(t, os.WriteFile(input, []byte("a\nb\nc\n"), 0o600))
	run, err := client.Start(ctx, job.Spec{
		Name: "secret", Pool: "vault", Files: &job.Files{Input: []string{input}}, Output: filepath.Join(dir, "out.jsonl"),
		BatchItems: 3, Expiry: time.Second,
	}, nil)
	require.NoError(t, err)

	var running []jobs.RunningBatch
	require.Eventually(t, func() bool {
		running, err = run.Running(ctx)
		return err == nil && len(running) == 1 && running[0].Batch != ""
	}, 30*time.Second, 20*time.Millisecond, "what a heartbeat says is read")
	require.EqualValues(t, 3, running[0].Count)

	var listed []jobs.Listed
	require.Eventually(t, func() bool {
		listed, err = client.List(ctx, 10, nil)
		return err == nil && len(listed) == 1
	}, 30*time.Second, 20*time.Millisecond)
	require.Equal(t, "vault", listed[0].Pool)
	require.Equal(t, job.Running, listed[0].State)
	require.Equal(t, filepath.Join(dir, "out.jsonl"), listed[0].Output)

	_, err = client.Resume(ctx, "secret", jobs.ResumeOptions{})
	var still *jobs.RunningError
	require.ErrorAs(t, err, &still)
	require.Equal(t, job.Running, still.State)

	stopped, err := client.StopAll(ctx, "vault", job.Stop{Reason: "closing time", Grace: "20s"})
	require.NoError(t, err)
	require.Len(t, stopped, 1)
	report, err := run.Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, job.Stopped, report.State)

	close(free)
	again, err := client.Resume(ctx, "secret", jobs.ResumeOptions{})
	require.NoError(t, err)
	report, err = again.Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, job.Completed, report.State)
	require.EqualValues(t, 3, report.OK)

	_, err = client.Redrive(ctx, "secret", jobs.RedriveOptions{})
	require.ErrorAs(t, err, new(*jobs.NothingFailedError))
	requireSealed(t, temporal, run)
}

// requireSealed looks for payloads in a job's history that are not encrypted.
func requireSealed(t *testing.T, temporal sdkclient.Client, run *jobs.Run) {
	t.Helper()
	events := temporal.GetWorkflowHistory(t.Context(), run.Name(), run.ID(), false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	require.True(t, events.HasNext())
	first, err := events.Next()
	require.NoError(t, err)
	started := first.GetWorkflowExecutionStartedEventAttributes()
	require.Equal(t, sealedEncoding, string(started.GetInput().GetPayloads()[0].GetMetadata()[converter.MetadataEncoding]))
}
