//go:build unix

package process

import "asyncrepl/internal/kernel/procfs"

// Disown leaves a process below this one to itself: no job has started it, and it may outlive this
// program. It is reaped when it ends here, and nothing else. Disown reports whether the process is below
// this one and is is; it does nothing if not.
func Disown(pid int, is func(procfs.Process) bool) bool {
	r := reaper
	r.scanning.Lock() // no scan makes an orphan of it meanwhile
	defer r.scanning.Unlock()
	s, err := procfs.Inspect(pid)
	if err != nil || topOf(pid) == 0 || !is(s.Process) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.disowned[key{pid, s.Start}] = true
	if o := r.orphans[pid]; o != nil && o.Start == s.Start {
		for _, owner := range o.owners() {
			owner.guard.forget(o.Process)
		}
		o.handle, o.candidates, o.disowned = nil, nil, true
	}
	return true
}
