package devserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-run/stint/internal/backoff"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const readyPoll = 2 * time.Millisecond

// waitReady returns when the server can start a workflow: a question for one
// that does not exist is answered with "not found" only after it went through
// the frontend, the namespace and the history shard.
func waitReady(ctx context.Context, address, namespace string) (err error) {
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	client := workflowservice.NewWorkflowServiceClient(conn)
	for {
		_, err := client.DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
			Namespace: namespace,
			Execution: &common.WorkflowExecution{WorkflowId: "stint-ready"},
		}, grpc.WaitForReady(true))
		if status.Code(err) == codes.NotFound || err == nil {
			return nil
		}
		if !backoff.Wait(readyPoll, ctx.Done()) {
			return fmt.Errorf("waiting for it to answer: %w (last answer: %w)", ctx.Err(), err)
		}
	}
}
