//go:build unix

// Package guard is the program of the guard: a small process that kills what remains of a server's
// processes when the server ends, even if the server was killed.
//
// The server writes to the guard's standard input, a pipe, which processes it has started, in lines
// that [Mark], [Add] and [Forget] make. When the pipe ends because the server has ended, however it
// did, [Run] kills these processes, everything that descends from them or is in one of their
// sessions, and every process that carries the server's mark in its environment. Then the guard
// ends, last of all.
//
// Rules
//   - The guard leads its own session and ignores every signal that can be ignored. Only SIGKILL
//     ends it, and SIGSTOP stops it until the server ends or wakes it.
//   - It needs the pipe and the kernel's process table and nothing else: no file, no memory of the
//     server, no answer of anyone.
//   - It kills a process only if the process's start time is that of the one it was told of, or if
//     a session, a parent or the mark proves that it belongs to the server.
//   - Times are the kernel's start times, see [procfs.Process].
//
// The package knows nothing of jobs, and starts no process: package process starts the guard and
// talks to it. Begin with Run; watched.find says which processes it kills.
package guard

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"asyncrepl/internal/procfs"
)

// The words that begin a line of the protocol.
const (
	wordMark   = "mark"
	wordAdd    = "add"
	wordForget = "forget"
)

// Mark returns the line that names the environment variable that every process of the server
// carries, and its value.
func Mark(name, value string) string { return fmt.Sprintf("%s %s=%s\n", wordMark, name, value) }

// Add returns the line that makes the guard answer for p, with everything that is in a session or
// group of p's pid or descends from p.
func Add(p procfs.Process) string { return fmt.Sprintf("%s %d %d\n", wordAdd, p.PID, p.Start) }

// Forget returns the line that takes back the Add of a pid.
func Forget(pid int) string { return fmt.Sprintf("%s %d\n", wordForget, pid) }

const (
	// killLimit bounds how long the guard tries to kill.
	killLimit = 10 * time.Second

	firstPause = 200 * time.Microsecond
	lastPause  = 10 * time.Millisecond
)

// Run is the guard's life: it reads lines from r until r ends, then kills until nothing is left. It
// returns the exit status, 1 if processes are left after 10 s.
func Run(r io.Reader) int {
	wakeWithParent() // first of all: a guard that is stopped before this call is never woken
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	w := newWatched()
	for lines := bufio.NewScanner(r); lines.Scan(); {
		w.handleLine(lines.Text())
	}
	return w.kill(time.Now().Add(killLimit))
}

// watched is what a guard answers for.
type watched struct {
	name, value string         // the mark in the environment
	added       map[int]uint64 // start times by pid: of a process, its group, its session
	signalled   map[int]uint64 // start times by pid: a dying process shows no mark, and its parent may be gone
}

func newWatched() *watched {
	return &watched{added: make(map[int]uint64), signalled: make(map[int]uint64)}
}

// handleLine takes in one line. A line that it does not understand is from no server of this build
// and is ignored.
func (w *watched) handleLine(line string) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case wordMark:
		w.name, w.value, _ = strings.Cut(rest, "=")
	case wordAdd:
		number, start, _ := strings.Cut(rest, " ")
		pid, err := strconv.Atoi(number)
		t, err2 := strconv.ParseUint(start, 10, 64)
		if err == nil && err2 == nil && pid > 1 {
			w.added[pid] = t
		}
	case wordForget:
		if pid, err := strconv.Atoi(rest); err == nil {
			delete(w.added, pid)
		}
	}
}

// kill kills all that w answers for, until then, and returns the exit status. It ends early if two
// scans in a row find nothing: one scan may miss a process that forks and exits while the table is
// read, and a process that was being started when the server died carries its mark only a moment
// after the pipe has ended. A scan that fails proves nothing.
func (w *watched) kill(until time.Time) (status int) {
	pause := firstPause
	for empty := 0; time.Now().Before(until); {
		all, err := procfs.All()
		withGroup, alone, findErr := w.find(all)
		switch {
		case len(withGroup)+len(alone) > 0:
			empty = 0
		case err != nil || findErr != nil:
			empty, pause = 0, lastPause
		default:
			if empty++; empty == 2 {
				return 0
			}
			pause = lastPause
		}
		for _, s := range withGroup {
			killGroup(s)
			w.signalled[s.PID] = s.Start
		}
		for _, s := range alone {
			s.Signal(syscall.SIGKILL) // an error: it has ended, or the next scan finds it again
			w.signalled[s.PID] = s.Start
		}
		time.Sleep(pause)
		pause = min(2*pause, lastPause)
	}
	return 1
}

// killGroup kills the group that s is in. The pid can't belong to others since the scan, unless the
// whole group has ended and all pids have been used within microseconds.
func killGroup(s procfs.Stat) {
	if s.Group <= 1 { // it is in another pid namespace
		syscall.Kill(s.PID, syscall.SIGKILL)
		return
	}
	syscall.Kill(-s.Group, syscall.SIGKILL)
}

// find picks the processes to kill among all there are: with their whole group, those that were
// added, those in one of their sessions and the descendants of both; alone, those that only carry
// the mark or have been signalled already. Since the server ended no process has adopted an orphan,
// so ancestry leads only to processes whose parents live. The error is one of reading a mark.
func (w *watched) find(all []procfs.Stat) (withGroup, alone []procfs.Stat, err error) {
	sessions := w.sessions(all)
	living := slices.DeleteFunc(slices.Clone(all), func(s procfs.Stat) bool { return s.Ended() || s.PID == os.Getpid() })
	found := w.trees(living, sessions)
	for _, s := range living {
		if found[s.PID] {
			withGroup = append(withGroup, s)
			continue
		}
		mine, e := w.signalledBefore(s), error(nil)
		if !mine {
			mine, e = w.marked(s)
		}
		if mine {
			alone = append(alone, s)
		}
		if err == nil {
			err = e
		}
	}
	return withGroup, alone, err
}

// trees returns the pids of the living processes that were added, are in one of the sessions or
// descend from such.
func (w *watched) trees(living []procfs.Stat, sessions map[int]bool) map[int]bool {
	found := make(map[int]bool)
	for grown := true; grown; { // until none is added: a child may be listed before its parent
		grown = false
		for _, s := range living {
			if found[s.PID] {
				continue
			}
			start, added := w.added[s.PID]
			if added && start == s.Start || sessions[s.Session] && s.Start >= w.added[s.Session] || found[s.Parent] {
				found[s.PID], grown = true, true
			}
		}
	}
	return found
}

// sessions returns the sessions of the processes that were added. The pid of a process that has
// ended is a session still if the process led one.
func (w *watched) sessions(all []procfs.Stat) map[int]bool {
	sessions := make(map[int]bool)
	for pid := range w.added {
		sessions[pid] = true
	}
	for _, s := range all {
		start, added := w.added[s.PID]
		if added && start != s.Start { // another process has the pid
			delete(sessions, s.PID)
		}
	}
	for _, s := range all {
		if start, added := w.added[s.PID]; added && start == s.Start {
			sessions[s.Session] = true
		}
	}
	return sessions
}

// signalledBefore reports whether the guard has sent s a SIGKILL.
func (w *watched) signalledBefore(s procfs.Stat) bool {
	start, ok := w.signalled[s.PID]
	return ok && start == s.Start
}

// marked reports whether s carries the mark. A process of another user, whose environment we may
// not read, does not carry it.
func (w *watched) marked(s procfs.Stat) (bool, error) {
	if w.value == "" {
		return false, nil
	}
	v, found, err := procfs.LookupEnv(s.PID, w.name)
	if errors.Is(err, procfs.ErrGone) || errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return found && v == w.value, err
}
