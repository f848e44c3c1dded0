package child

import (
	"bufio"
	"bytes"
	"os"
	"path"
	"strconv"
	"strings"
)

// OomKills is how many processes of this control group the kernel has killed because memory ran out; 0
// if that is not known.
func OomKills() int64 {
	group, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(group)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		switch {
		case fields[0] == "0" && fields[1] == "": // version 2
			for _, below := range []string{fields[2], ""} { // in a container it is the root
				if n, ok := counter(path.Join("/sys/fs/cgroup", below, "memory.events"), "oom_kill"); ok {
					return n
				}
			}
		case fields[1] == "memory": // version 1
			for _, below := range []string{fields[2], ""} {
				if n, ok := counter(path.Join("/sys/fs/cgroup/memory", below, "memory.oom_control"), "oom_kill"); ok {
					return n
				}
			}
		}
	}
	return 0
}

// counter reads a line "name value" of a file.
func counter(file, name string) (int64, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
