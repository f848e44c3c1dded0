package guard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tableGroups is how many process groups a guard can have at once.
const tableGroups = 1 << 16

// table holds the numbers of process groups in memory that the guard has, too. A process that is started and ends within a
// millisecond costs no system call then, and does not wake the guard, which looks at the table at its end.
//
// It is not safe for concurrent use.
type table struct {
	file *os.File // for the guard
	// memory is that of the file: the numbers, each of 4 bytes in the order of this machine; 0 is none.
	memory []byte
	places map[int]int // of the groups
	used   int         // places that have ever been used
	free   []int       // of these
}

func newTable() (*table, error) {
	fd, err := unix.MemfdCreate("stint-guard", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making the guard's table: %w", os.NewSyscallError("memfd_create", err))
	}
	t := &table{file: os.NewFile(uintptr(fd), "the guard's table"), places: map[int]int{}}
	if err = t.file.Truncate(4 * tableGroups); err == nil {
		t.memory, err = unix.Mmap(fd, 0, 4*tableGroups, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		_ = t.file.Close()
		return nil, fmt.Errorf("making the guard's table: %w", err)
	}
	return t, nil
}

// close gives the memory back: a guard that has the file keeps it.
func (t *table) close() {
	_ = errors.Join(unix.Munmap(t.memory), t.file.Close()) // nothing depends on it
}

func (t *table) add(group int) error {
	if _, ok := t.places[group]; ok {
		return nil
	}
	place := t.used
	if n := len(t.free); n > 0 {
		place, t.free = t.free[n-1], t.free[:n-1]
	} else if t.used++; place == tableGroups {
		t.used--
		return fmt.Errorf("more than %d processes at once", tableGroups)
	}
	t.places[group] = place
	t.set(place, group)
	return nil
}

func (t *table) remove(group int) {
	place, ok := t.places[group]
	if !ok {
		return
	}
	delete(t.places, group)
	t.free = append(t.free, place)
	t.set(place, 0)
}

// set stores a number at once, so that a guard never sees a half of it.
func (t *table) set(place, group int) {
	atomic.StoreInt32((*int32)(unsafe.Pointer(&t.memory[4*place])), int32(group))
}

// groupsIn returns the groups of the table in a file.
func groupsIn(file *os.File) (map[int]struct{}, error) {
	data := make([]byte, 4*tableGroups)
	n, err := file.ReadAt(data, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	groups := map[int]struct{}{}
	for data = data[:n]; len(data) >= 4; data = data[4:] {
		if group := int(int32(binary.NativeEndian.Uint32(data))); group > 1 {
			groups[group] = struct{}{}
		}
	}
	return groups, nil
}
