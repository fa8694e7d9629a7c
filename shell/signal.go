package shell

import (
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/terminal/tty"
	"asyncrepl/jobs"
)

// signal sends the signal of that name to the foreground group for by, and returns the names of the
// processes in it.
func (r *run) signal(name string, by jobs.By) (to string, err error) {
	// The signal, which can end them, comes later. After an error fewer are named.
	tree, _ := r.handle.Tree()
	group := r.foreground()
	r.noteSent(name, by)
	if err := syscall.Kill(-group, unix.SignalNum(name)); err != nil {
		return "", fmt.Errorf("sending %s to process group %d: %w", name, group, err)
	}
	return groupNames(tree, group), nil
}

// foreground returns the process group that has the terminal, or the command's own if there is
// none.
func (r *run) foreground() int {
	if r.terminal != nil {
		if group, err := r.terminal.Foreground(); err == nil && group > 1 {
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

// A request is a signal by which the job was asked to end, if nothing was sent to the job since.
type request struct {
	by    jobs.By
	rung  jobs.Rung // the rung that the signal stands for; empty: it asks for no end
	asked int       // how often the job had begun to wait for input
}

// requests are the signals that ask a program to end. SIGHUP is not one: servers read their settings
// again. Neither is SIGQUIT, after which Java prints its stacks and continues, as Python can
// (https://docs.python.org/3/library/faulthandler.html#faulthandler.register).
var requests = map[string]jobs.Rung{"SIGINT": jobs.Interrupt, "SIGTERM": jobs.Terminate}

// noteSent records for the receipt that by is about to send the signal of that name, or "" for
// anything else.
func (r *run) noteSent(signal string, by jobs.By) {
	rung := requests[signal]
	if rung != "" && r.ignored(unix.SignalNum(signal)) {
		rung = ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.request = request{by, rung, r.port.Asked()}
	if signal != "" {
		if r.signals == nil {
			r.signals = make(map[string]jobs.By)
		}
		r.signals[signal] = by
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

// madeOf returns the last signal that the terminal makes of s, or "", and whether some of s follows it.
func (r *run) madeOf(s tty.Strokes) (last string, rest bool) {
	mode, _ := r.terminal.Mode() // an error: typing fails, too
	typed := s.Text + s.Paste + strings.Join(s.Keys, "")
	for i := range len(typed) {
		if made := mode.Signal(typed[i]); made != "" {
			last, rest = made, s.EOF || i < len(typed)-1
		}
	}
	return last, rest
}

// requested returns the signal after which the command ended. Its rung is empty if something else
// came between: the command has asked for input, or was sent something.
func (r *run) requested() request {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.port.Asked() != r.request.asked {
		return request{}
	}
	return r.request
}

// senderOf returns the last sender of the signal of that name, or "" if no input has sent it.
func (r *run) senderOf(name string) jobs.By {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.signals[name]
}
