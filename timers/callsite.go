package timers

import (
	"fmt"
	"maps"
	"path"
	"runtime"
	"sync"
	"sync/atomic"
)

// sites are the places that timers have been acquired from, by program counter. There are few, so
// a new one is added to a copy, and finding one takes no lock.
var (
	sites    atomic.Pointer[map[uintptr]string]
	addSites sync.Mutex
)

// callSite is the place that Expires or Do was called from.
func callSite() string {
	const skip = 4 // runtime.Callers, callSite, enter, Expires or Do; inlined or not
	var pc [1]uintptr
	if runtime.Callers(skip, pc[:]) == 0 {
		return "unknown"
	}
	if known := sites.Load(); known != nil {
		if site, ok := (*known)[pc[0]]; ok {
			return site
		}
	}
	return addSite(pc[0])
}

func addSite(pc uintptr) string {
	frame, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	site := fmt.Sprintf("%s#%d", path.Base(frame.File), frame.Line)
	addSites.Lock()
	defer addSites.Unlock()
	all := map[uintptr]string{pc: site}
	if known := sites.Load(); known != nil {
		maps.Copy(all, *known)
	}
	sites.Store(&all)
	return site
}
