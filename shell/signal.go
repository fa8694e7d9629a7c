package shell

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/procfs"
	"asyncrepl/jobs"
)

// signal sends the signal of that name to the foreground group, and returns the names of the
// processes in it.
func (r *run) signal(name string) (to string, err error) {
	tree, _ := r.handle.Tree() // before: it can end them; an error: fewer are named
	group := r.foreground()
	r.noteSignal(name)
	if err := syscall.Kill(-group, unix.SignalNum(name)); err != nil {
		return "", fmt.Errorf("sending %s to process group %d: %w", name, group, err)
	}
	return groupNames(tree, group), nil
}

// foreground returns the process group that has the terminal, or the command's own if there is
// none.
func (r *run) foreground() int {
	if r.pty != nil {
		if group, err := r.pty.Foreground(); err == nil && group > 1 {
			return group
		}
	}
	return r.handle.PID()
}

// groupNames names processes of a group: the first few, and how many more there are.
func groupNames(tree []procfs.Process, group int) string {
	const most = 3
	var names []string
	for _, p := range tree {
		if p.Group == group {
			names = append(names, jobs.Process{PID: p.PID, Program: p.Program}.String())
		}
	}
	if left := len(names) - most; left > 0 {
		names = append(names[:most], fmt.Sprintf("%d more", left))
	}
	if names == nil {
		return fmt.Sprintf("process group %d", group)
	}
	return strings.Join(names, ", ")
}

// noteSignal records that a client has sent the signal of that name, for the receipt.
func (r *run) noteSignal(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.signals, name) {
		r.signals = append(r.signals, name)
	}
}

// noteSignalKeys records the signals that the terminal makes of keys. It returns the name of the
// last one, or "" if some of the keys stand for none.
func (r *run) noteSignalKeys(sent string) (last string) {
	mode, err := r.pty.Mode()
	if err != nil {
		return ""
	}
	all := true
	for _, key := range []byte(sent) {
		if name := mode.Signal(key); name != "" {
			r.noteSignal(name)
			last = name
		} else {
			all = false
		}
	}
	if !all {
		return ""
	}
	return last
}

// sentSignal reports whether a client has sent the signal of that name.
func (r *run) sentSignal(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.signals, name)
}
