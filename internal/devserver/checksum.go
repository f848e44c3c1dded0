package devserver

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"runtime/debug"
	"sync"

	"go.temporal.io/sdk/worker"
)

// nameBinary gives the SDK a name for this program. Without one the first worker
// of the process, which is one inside the server, reads the whole executable for
// a checksum: a third of a second for a program that contains a server.
var nameBinary = sync.OnceFunc(func() {
	if name := binaryName(); name != "" {
		worker.SetBinaryChecksum(name)
	}
})

// binaryName differs from build to build, which is all that the SDK asks of it:
// it marks reset points in histories.
func binaryName() string {
	name := ""
	if path, err := os.Executable(); err == nil { // otherwise there is no /proc, and the SDK would panic
		if file, err := os.Stat(path); err == nil {
			name = fmt.Sprint(file.Size(), file.ModTime().UnixNano())
		}
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		name += info.String()
	}
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16])
}
