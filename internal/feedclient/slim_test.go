package feedclient

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
	protocolpb "go.temporal.io/api/protocol/v1"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// What a feed has refused is not sent back; what it has accepted is, because older servers write that into the history.
func TestD3_RefusedItemsAreNotSentBack(t *testing.T) {
	t.Parallel()
	items := &commonpb.Payloads{Payloads: []*commonpb.Payload{{Data: bytes.Repeat([]byte("x"), 1<<20)}}}
	update := &updatepb.Request{Meta: &updatepb.Meta{UpdateId: "u"}, Input: &updatepb.Input{Name: "exchange", Args: items}}
	message := func(m proto.Message) *protocolpb.Message {
		body, err := anypb.New(m)
		require.NoError(t, err)
		return &protocolpb.Message{Id: "m", Body: body}
	}
	refused := &updatepb.Rejection{RejectedRequestMessageId: "m", RejectedRequest: update, Failure: &failurepb.Failure{Message: "full"}}
	accepted := message(&updatepb.Acceptance{AcceptedRequestMessageId: "m", AcceptedRequest: update})
	request := &workflowservice.RespondWorkflowTaskCompletedRequest{Messages: []*protocolpb.Message{message(refused), proto.CloneOf(accepted)}}
	var sent *workflowservice.RespondWorkflowTaskCompletedRequest
	err := slim(context.Background(), "", request, nil, nil, func(_ context.Context, _ string, request, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
		sent = request.(*workflowservice.RespondWorkflowTaskCompletedRequest)
		return nil
	})
	require.NoError(t, err)
	require.Less(t, proto.Size(sent.Messages[0]), 1000)
	var slimmed updatepb.Rejection
	require.NoError(t, sent.Messages[0].GetBody().UnmarshalTo(&slimmed))
	require.Equal(t, "full", slimmed.GetFailure().GetMessage())
	require.Equal(t, "u", slimmed.GetRejectedRequest().GetMeta().GetUpdateId())
	require.Equal(t, "exchange", slimmed.GetRejectedRequest().GetInput().GetName())
	require.True(t, proto.Equal(accepted, sent.Messages[1]))
}
