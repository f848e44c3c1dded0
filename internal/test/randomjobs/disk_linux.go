package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// inNamespace is the environment variable that is set in the mount namespace which enterNamespace has made.
const inNamespace = "RANDOMJOBS_NAMESPACE"

// enterNamespace runs the program again in a mount namespace of its own, which belongs to a whole process, and ends
// with its exit status. It returns if it is there already, or if that is not permitted.
func enterNamespace() {
	unshare, err := exec.LookPath("unshare")
	if err != nil || os.Getenv(inNamespace) != "" || exec.Command(unshare, "-m", "true").Run() != nil {
		return
	}
	self, err := os.Executable()
	if err != nil {
		return
	}
	_ = syscall.Exec(unshare, append([]string{unshare, "-m", self}, os.Args[1:]...), append(os.Environ(), inNamespace+"=1")) // or else go on without
}

// mountDisk mounts a small disk that only this process and its children see. It returns an empty path if that is not
// permitted.
func mountDisk(dir string) (string, error) {
	disk := filepath.Join(dir, "disk")
	if os.Getenv(inNamespace) == "" {
		return "", nil
	}
	if err := os.Mkdir(disk, 0o755); err != nil {
		return "", err
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, fmt.Sprintf("size=%d", diskSize)); err != nil {
		return "", fmt.Errorf("mounting a small disk: %w", err)
	}
	return disk, nil
}

func unmount(disk string) { _ = syscall.Unmount(disk, syscall.MNT_DETACH) }
