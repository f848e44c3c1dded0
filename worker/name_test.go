package worker

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestR24_AWorkerHasTheNameThatItIsGiven(t *testing.T) {
	t.Parallel()
	require.Equal(t, fmt.Sprintf("gpu-3-%d", os.Getpid()), workerName(Options{Name: "gpu-3"}))
	require.Equal(t, fmt.Sprintf("gpu-3-%d-clean", os.Getpid()), workerName(Options{Name: "gpu-3", label: "clean"}))
	for _, name := range []string{"-a", "a b", "a\n", "ä", strings.Repeat("a", 65)} {
		require.ErrorContains(t, Exec("cat").Check(Options{Name: name}), "Name", name)
	}
	require.NoError(t, Exec("cat").Check(Options{Name: "node-1.example"}))
}
