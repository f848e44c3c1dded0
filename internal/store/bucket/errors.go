package bucket

import (
	"errors"
	"io/fs"
	"net/url"

	"gocloud.dev/gcerrors"

	"github.com/stint-run/stint/internal/store/object"
)

// What is done to an object that may be missing.
const opReading, opLookingUp = "reading", "looking up"

// bucketError wraps an error of package blob and leaves out its request IDs and codes.
func bucketError(op, where string, err error) error {
	if err == nil {
		return nil
	}
	var api object.APIError
	known := errors.As(err, &api)
	switch code := gcerrors.Code(err); {
	case known && api.ErrorCode() == "NoSuchBucket":
		return &object.OpError{Op: op, Where: where, Err: err, Text: "there is no such bucket",
			Next: "create it, or check its name, region and endpoint"}
	case code == gcerrors.NotFound:
		return &object.OpError{Op: op, Where: where, Text: "there is no such object", Err: fs.ErrNotExist}
	case code == gcerrors.PermissionDenied, known && deniedCodes[api.ErrorCode()]:
		text := "access is denied"
		if known && api.ErrorMessage() != "" {
			text += ": " + api.ErrorMessage()
		}
		next := "check the credentials that the worker runs with, and their permissions"
		if op == opReading || op == opLookingUp {
			next += "; S3 answers the same if there is no such object and the bucket may not be listed"
		}
		return &object.OpError{Op: op, Where: where, Err: fs.ErrPermission, Text: text, Next: next}
	case known:
		return &object.OpError{Op: op, Where: where, Err: err, Text: api.ErrorCode() + ": " + api.ErrorMessage()}
	}
	if sent, ok := errors.AsType[*url.Error](err); ok { // the layers above it say nothing of why there is no answer
		return &object.OpError{Op: op, Where: where, Err: err, Text: sent.Err.Error()}
	}
	// The driver's own error says enough.
	if wrapped, ok := err.(interface{ Unwrap() []error }); ok && len(wrapped.Unwrap()) > 0 {
		err = wrapped.Unwrap()[0]
	}
	return &object.OpError{Op: op, Where: where, Err: err}
}

// deniedCodes are the error codes of S3, besides AccessDenied, for a lack of permission.
var deniedCodes = map[string]bool{"InvalidAccessKeyId": true, "SignatureDoesNotMatch": true, "AllAccessDisabled": true}
