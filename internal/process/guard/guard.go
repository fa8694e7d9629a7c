//go:build unix

// Package guard is the program of the guard: a small process that kills a server's remaining
// processes when the server ends, even if the server was killed.
//
// The guard's standard input is a pipe, to which the server writes the processes that it starts, in
// lines that [Mark], [Add] and [Forget] return. When the pipe ends because the server has ended, in
// any way, [Run] kills these processes, everything that descends from them or is in one of their
// sessions, and every process that carries the server's mark in its environment, unless the server
// has said with [Ended] that it has done so. The guard itself ends last.
//
// Rules
//   - The guard leads its own session and ignores every signal that can be ignored. Only SIGKILL
//     ends it, and SIGSTOP stops it until the server ends or wakes it.
//   - It needs only the pipe and the kernel's process table: no file, no memory of the server, no
//     answer from another process. Last, it removes the control groups that the server has made, and
//     the directories that the server has named with [Remove].
//   - It kills a process only if the process has the start time that the server wrote for its pid,
//     or if a session, a parent or the mark proves that it belongs to the server.
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
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/process/cgroup"
)

// The words that begin a line of the protocol.
const (
	wordMark   = "mark"
	wordAdd    = "add"
	wordForget = "forget"
	wordEnded  = "ended"
	wordRemove = "remove"
)

// Mark returns the line that names the environment variable that every process of the server
// carries, and its value.
func Mark(name, value string) string { return fmt.Sprintf("%s %s=%s\n", wordMark, name, value) }

// Add returns the line that makes the guard watch p and everything that is in a session or group of
// p's pid or descends from p.
func Add(p procfs.Process) string { return fmt.Sprintf("%s %d %d\n", wordAdd, p.PID, p.Start) }

// Forget returns the line that retracts the Add of a pid.
func Forget(pid int) string { return fmt.Sprintf("%s %d\n", wordForget, pid) }

// Remove returns the line that makes the guard remove a directory once all processes have ended.
func Remove(dir string) string { return wordRemove + " " + strconv.Quote(dir) + "\n" }

// Ended returns the last line of a server that has proven that none of its processes is left. The
// guard then scans for none: a scan reads about all processes of the machine, and a server can have
// a thousand guards.
func Ended() string { return wordEnded + "\n" }

const (
	// killLimit bounds how long the guard tries to kill, so that a process that can't die, because
	// it waits in the kernel, does not keep a guard on the machine forever.
	killLimit = 10 * time.Second

	firstPause = 200 * time.Microsecond
	lastPause  = 10 * time.Millisecond
)

// Run is the main function of the guard. It reads lines from r until r ends, then kills until no
// process is left, and removes the control groups of its parent, the server. It returns the exit
// status: 1 if processes are left after 10 s.
func Run(r io.Reader) int {
	wakeWithParent() // first of all: a guard that is stopped before this call is never woken
	server := os.Getppid()
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	w := newWatched()
	for lines := bufio.NewScanner(r); lines.Scan(); {
		w.handleLine(lines.Text())
	}
	status := 0
	if !w.ended {
		status = w.kill(time.Now().Add(killLimit))
	}
	cgroup.Clean(server)
	for _, dir := range w.dirs {
		os.RemoveAll(dir) // an error: the server has removed it, or the next one does
	}
	return status
}

// A watched is the set of processes that a guard watches.
type watched struct {
	name, value string         // the mark in the environment
	added       map[int]uint64 // start times by pid: of a process, its group, its session
	ended       bool           // the server has proven that none of its processes is left
	dirs        []string       // are removed at the end
	signalled   map[int]uint64 // start times by pid, because a dying process shows neither mark nor parent
}

func newWatched() *watched {
	return &watched{added: make(map[int]uint64), signalled: make(map[int]uint64)}
}

// handleLine obeys one line. It ignores a line that it does not understand: no server of this build
// has written it.
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
	case wordEnded:
		w.ended = true
	case wordRemove:
		if dir, err := strconv.Unquote(rest); err == nil && filepath.IsAbs(dir) {
			w.dirs = append(w.dirs, dir)
		}
	}
}

// kill kills all processes that w watches and returns the exit status. It tries until the given
// time, or until two scans in a row find nothing. One is not enough: a scan can miss a process that
// forks and exits while the table is read, and a process that was being started when the server
// exited carries its mark only a moment after the pipe has ended. A scan that fails proves nothing.
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

// killGroup kills the group that s is in. The group's id can't have passed to other processes since
// the scan, unless the group has ended and the kernel has used all other pids within microseconds.
func killGroup(s procfs.Stat) {
	if s.Group <= 1 { // it is in another pid namespace
		syscall.Kill(s.PID, syscall.SIGKILL)
		return
	}
	syscall.Kill(-s.Group, syscall.SIGKILL)
}

// find returns the processes among all that must be killed. Those to kill with their group are the
// ones that were added, the ones in one of their sessions, and the descendants of both. Those to
// kill alone only carry the mark or have been signalled already. The server has ended and adopts no
// orphans any more, so descent shows only processes with living parents. The error means that a
// mark could not be read.
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

// trees returns the pids of the living processes that were added or are in one of the sessions, and
// of their descendants.
func (w *watched) trees(living []procfs.Stat, sessions map[int]bool) map[int]bool {
	found := make(map[int]bool)
	for grown := true; grown; { // repeated, because a child may be listed before its parent
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

// sessions returns the sessions of the processes that were added. If a process has ended, its pid
// is taken for a session, because members of the session that it led can remain.
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

// marked reports whether s carries the mark. A process of another user, with an environment that we
// have no permission to read, does not carry it.
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
