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
	r.noteSent(name)
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

// A request is a signal by which a client asked the job to end, if nothing was sent to the job since.
type request struct {
	rung  jobs.Rung // what the signal asks for; empty: nothing
	asked int       // how often the job had begun to wait for input
}

// requests are the signals that ask a program to end. SIGHUP is not one: servers read their settings
// again. Neither is SIGQUIT, after which Java and Python print their stacks and continue.
var requests = map[string]jobs.Rung{"SIGINT": jobs.Interrupt, "SIGTERM": jobs.Terminate}

// noteSent records for the receipt that a client is about to send the signal of that name, or "" for
// anything else.
func (r *run) noteSent(signal string) {
	rung := requests[signal]
	if rung != "" && r.ignored(unix.SignalNum(signal)) {
		rung = ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.request = request{rung, r.port.Asked()}
	if signal != "" && !slices.Contains(r.signals, signal) {
		r.signals = append(r.signals, signal)
	}
}

// ignored reports whether each process of the foreground group is known to ignore a signal.
func (r *run) ignored(sig syscall.Signal) bool {
	tree, err := r.handle.Tree()
	if err != nil {
		return false
	}
	group, members := r.foreground(), 0
	for _, p := range tree {
		if p.Group != group {
			continue
		}
		members++
		if d, err := p.Disposition(sig); err != nil || !d.Ignored {
			return false
		}
	}
	return members > 0
}

// madeOf returns the last signal that the terminal makes of keys, or "" if some of them stand for none.
func (r *run) madeOf(keys string) (last string) {
	mode, _ := r.pty.Mode() // an error: typing fails, too
	for _, key := range []byte(keys) {
		if last = mode.Signal(key); last == "" {
			return ""
		}
	}
	return last
}

// requested returns the rung of the ladder that stands for the signal after which the command ended,
// or "" if something else came between: the command has asked for input, or was sent something.
func (r *run) requested() jobs.Rung {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.port.Asked() != r.request.asked {
		return ""
	}
	return r.request.rung
}

// sentSignal reports whether a client has sent the signal of that name.
func (r *run) sentSignal(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.signals, name)
}
