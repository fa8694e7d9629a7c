package waiting

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/kernel/threads"
)

// A holder is a process of the job that has a pipe, a socket or a terminal open.
type holder struct {
	pid           int
	reads, writes bool
	master        bool // it holds the master of a pseudo-terminal
}

// holders lists the holder of each pipe, socket and terminal of the job, by the link that /proc shows.
type holders struct {
	of     map[string][]holder
	hidden bool // some process hides its open files, so it may hold any end
}

// others returns the processes that hold link in a way that other accepts.
func (hs *holders) others(link string, other func(holder) bool) (pids []int) {
	for _, h := range hs.of[link] {
		if other(h) {
			pids = append(pids, h.pid)
		}
	}
	return slices.Compact(pids) // they are in the order of processes
}

// readHolders reads the open files of all processes of the job.
func (p *probe) readHolders() (*holders, error) {
	hs := &holders{of: make(map[string][]holder)}
	for _, pid := range p.pids {
		if err := hs.read(pid); threads.Hidden(err) {
			if s, err := procfs.Inspect(pid); !errors.Is(err, procfs.ErrGone) && !s.Ended() {
				hs.hidden = true
			}
		} else if err != nil {
			return nil, err
		}
	}
	return hs, nil
}

// terminalLink is what stands for both ends of a pseudo-terminal among the links.
func terminalLink(end threads.TerminalEnd) string { return "terminal:" + strconv.Itoa(end.Number) }

// read adds the pipes, sockets and terminals of one process. All of its threads have the same,
// except that those that have ended show none.
func (hs *holders) read(pid int) error {
	t := threads.Thread{PID: pid, TID: pid}
	fds, err := procfs.Descriptors(pid, pid)
	if len(fds) == 0 {
		tids, threadsErr := procfs.Threads(pid)
		if threadsErr != nil {
			return threadsErr
		}
		for _, t.TID = range tids {
			if fds, err = procfs.Descriptors(pid, t.TID); len(fds) > 0 {
				break
			}
		}
	}
	if err != nil {
		return err
	}
	for _, fd := range fds {
		link, err := t.LinkOf(threads.Member{FD: fd})
		if err != nil {
			return err
		}
		h := holder{pid: pid}
		switch end, isTerminal, err := t.TerminalEnd(fd, link); {
		case err != nil:
			return err
		case isTerminal:
			link, h.master = terminalLink(end), end.Master
		case !strings.HasPrefix(link, "pipe:") && !strings.HasPrefix(link, "socket:"):
			continue
		}
		if h.reads, h.writes, err = t.Access(fd); err != nil {
			return err
		}
		hs.of[link] = append(hs.of[link], h)
	}
	return nil
}
