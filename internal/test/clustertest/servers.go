//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stint-run/stint/internal/test/jobtest"
	"go.temporal.io/api/workflowservice/v1"
	sdkclient "go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"
)

// The addresses of the servers, all on one host.
var (
	temporalAddress = netip.MustParseAddr("10.77.0.1")
	bucketAddress   = netip.MustParseAddr("10.77.0.2")
)

const (
	frontend = "10.77.0.1:7233"
	endpoint = "http://10.77.0.2:8333"
	bucket   = "stint"
	key      = "stint"
	secret   = "stint-secret"
	// inBucket is what the name of an object in the bucket ends with.
	inBucket = "?use_path_style=true"
)

// services of Temporal, each a process of its own. The first one makes its records.
var services = []string{"frontend", "history", "matching", "worker"}

// servers are Temporal, its database and the bucket.
type servers struct {
	host     *host
	programs programs
	data     string // the database's directory
	postgres *process
	temporal map[string]*process
}

// startServers starts all of them.
func startServers(ctx context.Context, h *host, p programs) (*servers, error) {
	s := &servers{host: h, programs: p, data: filepath.Join(h.dir, "postgres"), temporal: map[string]*process{}}
	for _, address := range []netip.Addr{temporalAddress, bucketAddress} {
		if err := h.ip(ctx, fmt.Sprintf("address add %s/32 dev lo", address)); err != nil {
			return s, err
		}
	}
	for _, step := range []func(context.Context) error{s.startBucket, s.makeDatabase, s.makeSchema, s.startTemporal} {
		if err := step(ctx); err != nil {
			return s, err
		}
	}
	return s, nil
}

// postgresUser runs a command as the user of Debian's package: the server refuses to be root.
var postgresUser = []string{"setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"}

func (s *servers) postgresCommand(program string, args ...string) []string {
	return slices.Concat(postgresUser, []string{filepath.Join(s.programs.postgres, program)}, args)
}

func (s *servers) makeDatabase(ctx context.Context) error {
	if err := os.MkdirAll(s.data, 0o700); err != nil {
		return err
	}
	if err := run(ctx, "chown", "postgres:", s.data); err != nil {
		return err
	}
	make := s.postgresCommand("initdb", "--auth=trust", "--username=temporal", "--locale=C.UTF-8", s.data)
	if err := finish(s.host.command(ctx, make...)); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"pg_hba.conf": "host all all 10.77.0.0/16 trust\n",
		"postgresql.conf": fmt.Sprintf("listen_addresses = '%s'\nunix_socket_directories = ''\nmax_connections = 200\n",
			temporalAddress),
	} {
		if err := appendTo(filepath.Join(s.data, name), text); err != nil {
			return err
		}
	}
	return s.startPostgres(ctx)
}

func appendTo(name, text string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func (s *servers) startPostgres(ctx context.Context) error {
	var err error
	if s.postgres, err = s.host.start("postgres", s.postgresCommand("postgres", "-D", s.data)...); err != nil {
		return err
	}
	return s.await(ctx, "PostgreSQL", func(ctx context.Context) error {
		return finish(s.host.command(ctx, filepath.Join(s.programs.postgres, "pg_isready"), "-h", temporalAddress.String(), "-q"))
	})
}

// makeSchema makes Temporal's databases as the compose file does.
func (s *servers) makeSchema(ctx context.Context) error {
	cmd := s.host.command(ctx, "sh", "deploy/schema.sh")
	cmd.Env = append(cmd.Env, "PATH="+filepath.Dir(s.programs.sqlTool)+":"+os.Getenv("PATH"), "SQL_PLUGIN=postgres12",
		"SQL_HOST="+temporalAddress.String(), "SQL_PORT=5432", "SQL_USER=temporal", "SQL_PASSWORD=temporal")
	return finish(cmd)
}

// startTemporal starts the frontend, and then the others: of several that meet an empty database all but one end.
func (s *servers) startTemporal(ctx context.Context) error {
	for i, name := range services {
		if err := s.startService(name); err != nil {
			return err
		}
		if i > 0 {
			continue
		}
		if err := s.await(ctx, "Temporal", func(ctx context.Context) error {
			return finish(s.host.command(ctx, s.programs.self, "role", "namespace"))
		}); err != nil {
			return err
		}
	}
	return s.await(ctx, "Temporal's services", func(ctx context.Context) error {
		return finish(s.host.command(ctx, s.programs.self, "role", "ready"))
	})
}

// startService starts one service of Temporal, with the settings of the compose file.
func (s *servers) startService(name string) error {
	p, err := s.host.startIn("temporal-"+name, []string{
		"TEMPORAL_SERVICES=" + name, "DB=postgres12", "DB_PORT=5432", "POSTGRES_SEEDS=" + temporalAddress.String(),
		"POSTGRES_USER=temporal", "POSTGRES_PWD=temporal", "NUM_HISTORY_SHARDS=4", "BIND_ON_IP=" + temporalAddress.String(),
		"DYNAMIC_CONFIG_FILE_PATH=deploy/temporal.yaml", "TEMPORAL_ALLOW_NO_AUTH=true", "LOG_LEVEL=warn",
	}, s.programs.temporal, "start")
	s.temporal[name] = p
	return err
}

// startBucket starts SeaweedFS, or, where there is none, a store that keeps everything in memory.
func (s *servers) startBucket(ctx context.Context) error {
	argv := []string{s.programs.self, "role", "bucket"}
	if s.programs.weed != "" {
		data := filepath.Join(s.host.dir, "weed")
		if err := os.MkdirAll(data, 0o755); err != nil {
			return err
		}
		argv = []string{s.programs.weed, "mini", "-dir=" + data, "-ip=" + bucketAddress.String(), "-ip.bind=" + bucketAddress.String(),
			"-s3.port=8333", "-admin.ui=false", "-webdav=false", "-master.telemetry=false"}
	}
	if _, err := s.host.startIn("bucket", storeEnv(), argv...); err != nil {
		return err
	}
	return s.await(ctx, "the bucket", func(ctx context.Context) error {
		return finish(s.host.command(ctx, s.programs.self, "role", "make-bucket"))
	})
}

// await calls until until it succeeds.
func (s *servers) await(ctx context.Context, what string, until func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := until(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// storeEnv is the environment of programs that use the bucket.
func storeEnv() []string {
	return []string{"AWS_ENDPOINT_URL=" + endpoint, "AWS_REGION=us-east-1", "AWS_RESPONSE_CHECKSUM_VALIDATION=when_required",
		"AWS_ACCESS_KEY_ID=" + key, "AWS_SECRET_ACCESS_KEY=" + secret}
}

// role does one thing on the host of the servers, as a process there.
func role(ctx context.Context, name string, args []string) error {
	client := s3.New(s3.Options{Region: "us-east-1", BaseEndpoint: aws.String(endpoint), UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(key, secret, "")})
	switch name {
	case "namespace":
		return registerNamespace(ctx)
	case "ready":
		return startWorkflow(ctx)
	case "bucket":
		return http.ListenAndServe(bucketAddress.String()+":8333", jobtest.FakeS3(bucket))
	case "make-bucket":
		if _, err := client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: aws.String(bucket)}); err == nil {
			return nil
		}
		_, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String(bucket)})
		return err
	case "put":
		f, err := os.Open(args[0])
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = client.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String(bucket), Key: aws.String(args[1]), Body: f})
		return err
	case "get":
		out, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String(bucket), Key: aws.String(args[0])})
		if err != nil {
			return err
		}
		defer out.Body.Close()
		_, err = io.Copy(os.Stdout, out.Body)
		return err
	case "hog":
		return hog()
	}
	return fmt.Errorf("no role %q", name)
}

func registerNamespace(ctx context.Context) error {
	c, err := sdkclient.NewNamespaceClient(sdkclient.Options{HostPort: frontend})
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Describe(ctx, "default"); err == nil {
		return nil
	}
	return c.Register(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace: "default", WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
}

// startWorkflow starts a workflow that nobody runs, and ends it: services learn of a new namespace after a while.
func startWorkflow(ctx context.Context) error {
	c, err := sdkclient.DialContext(ctx, sdkclient.Options{HostPort: frontend})
	if err != nil {
		return err
	}
	defer c.Close()
	run, err := c.ExecuteWorkflow(ctx, sdkclient.StartWorkflowOptions{ID: "ready", TaskQueue: "ready"}, "ready")
	if err != nil {
		return err
	}
	return c.TerminateWorkflow(ctx, run.GetID(), run.GetRunID(), "it could be started")
}

// hog takes memory until there is none.
func hog() error {
	for {
		page := make([]byte, 1<<20)
		for i := 0; i < len(page); i += 4096 {
			page[i] = 1
		}
		hogged = append(hogged, page)
		time.Sleep(time.Millisecond)
	}
}

var hogged [][]byte

// programs are what the cluster consists of.
type programs struct {
	self, stint, temporal, sqlTool string
	late                           string // stint whose clock is changed; "": none
	weed                           string // "": none
	postgres                       string // the directory of PostgreSQL's programs
}

// restart ends a service of Temporal with a signal, and starts it again.
func (s *servers) restart(name string, with syscall.Signal) error {
	s.temporal[name].signal(with, patience)
	return s.startService(name)
}

// findPostgres returns where Debian's package has the newest PostgreSQL's programs.
func findPostgres() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) == 0 {
		return "", fmt.Errorf("there is no PostgreSQL: install Debian's package postgresql: %w", exec.ErrNotFound)
	}
	return filepath.Dir(slices.Max(found)), nil
}
