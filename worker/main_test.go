package worker

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if kind := os.Getenv(asProgram); kind != "" {
		runProgram(kind)
	}
	if isolatedIn != nil {
		isolatedTests()
	}
	goleak.VerifyTestMain(m)
}
