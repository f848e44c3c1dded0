package inputs

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	SpoolChunk = 256 // so that small inputs have many
	goleak.VerifyTestMain(m)
}
