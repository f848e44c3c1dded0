package feedclient

import (
	"context"

	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"
)

// Slim has a worker's connection not send back what a feed has refused: the server does not need it.
func Slim() grpc.DialOption { return grpc.WithChainUnaryInterceptor(slim) }

// slimFrom is the size from which on a refusal is made smaller, in bytes.
const slimFrom = 1 << 10

// slim leaves the arguments of refused updates out of what is sent.
func slim(ctx context.Context, method string, request, reply any, c *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	if completed, ok := request.(*workflowservice.RespondWorkflowTaskCompletedRequest); ok {
		for _, m := range completed.Messages {
			if body := m.GetBody(); len(body.GetValue()) > slimFrom && body.MessageIs((*updatepb.Rejection)(nil)) {
				m.Body = slimmed(body)
			}
		}
	}
	return invoke(ctx, method, request, reply, c, options...)
}

func slimmed(body *anypb.Any) *anypb.Any {
	var rejection updatepb.Rejection
	if body.UnmarshalTo(&rejection) != nil {
		return body
	}
	if input := rejection.GetRejectedRequest().GetInput(); input != nil {
		input.Args = nil
	}
	slim, err := anypb.New(&rejection)
	if err != nil {
		return body
	}
	return slim
}
