//go:build unix

package process

import (
	"bufio"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// What the guard is told, a line each: the variable that marks all that is the server's, a number and start time to
// answer for, and a number to forget.
const (
	wordMark   = "mark"
	wordAdd    = "add"
	wordForget = "forget"
)

// guardLimit is when the guard gives up on what can't be killed.
const guardLimit = 10 * time.Second

// wards is what a guard answers for.
type wards struct {
	name, value string         // the mark in the environment
	told        map[int]uint64 // start times by number: a process, its group, its session
	struck      map[int]uint64 // by number too: who dies hides its mark, and its parent may die first
}

func newWards() *wards {
	return &wards{told: make(map[int]uint64), struck: make(map[int]uint64)}
}

// RunGuard is the whole life of the guard: it hears from r what to answer for, and when r ends, because the server has
// ended however it did, it ends that until nothing is left. It returns the exit status. It needs r and the kernel's
// table of processes and nothing else, and no signal that can be refused ends it.
func RunGuard(r io.Reader) int {
	wakeWithParent() // first of all: one that is stopped before sleeps on
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	w := newWards()
	for lines := bufio.NewScanner(r); lines.Scan(); {
		w.hear(lines.Text())
	}
	return w.end(time.Now().Add(guardLimit))
}

// end ends all that w answers for, until then. Two looks in a row must find nothing: a process that forks and ends
// while the table is read may be missed by one, and one that was being started when the server died carries its mark
// only from a moment after the pipe has ended.
func (w *wards) end(until time.Time) (status int) {
	var p pause
	for clear := 0; time.Now().Before(until); {
		groups, single := w.find(everybody())
		if len(groups)+len(single) == 0 {
			if clear++; clear == 2 {
				return 0
			}
			time.Sleep(lastPause)
			continue
		}
		clear = 0
		signalGroups(groups, syscall.SIGKILL)
		for _, e := range single {
			SignalPID(e.Process, syscall.SIGKILL)
		}
		for _, e := range slices.Concat(groups, single) {
			w.struck[e.PID] = e.Start
		}
		p.sleep()
	}
	return 1
}

// hear takes in one line. What it does not understand comes from no server of this build, and means nothing.
func (w *wards) hear(line string) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case wordMark:
		w.name, w.value, _ = strings.Cut(rest, "=")
	case wordAdd:
		number, start, _ := strings.Cut(rest, " ")
		pid, err := strconv.Atoi(number)
		t, err2 := strconv.ParseUint(start, 10, 64)
		if err == nil && err2 == nil && pid > 1 {
			w.told[pid] = t
		}
	case wordForget:
		if pid, err := strconv.Atoi(rest); err == nil {
			delete(w.told, pid)
		}
	}
}

// find picks out of all the processes those to end: with their whole group, what it was told of, what is in a session
// of theirs and what descends from such; singly, what only carries the mark. Where the server died, nobody has adopted
// anything since, so ancestry tells only of those whose parents live.
func (w *wards) find(all []entry) (groups, single []entry) {
	sessions := make(map[int]bool)
	reused := make(map[int]bool) // numbers that others have now
	for _, e := range all {
		switch start, told := w.told[e.PID]; {
		case told && start == e.Start:
			sessions[e.session] = true
		case told:
			reused[e.PID] = true
		}
	}
	for pid := range w.told {
		if !reused[pid] {
			sessions[pid] = true
		}
	}
	in := make(map[int]bool)
	for grown := true; grown; { // until none is added: a child may be listed before its parent
		grown = false
		for _, e := range all {
			if in[e.PID] || e.ended() || e.PID == os.Getpid() {
				continue
			}
			start, told := w.told[e.PID]
			if told && start == e.Start || sessions[e.session] && e.Start >= w.told[e.session] || in[e.Parent] {
				in[e.PID], grown = true, true
				groups = append(groups, e)
			}
		}
	}
	for _, e := range all {
		if in[e.PID] || e.ended() || e.PID == os.Getpid() {
			continue
		}
		if start, struck := w.struck[e.PID]; struck && start == e.Start || w.marked(e) {
			single = append(single, e)
		}
	}
	return groups, single
}

// marked tells whether e carries the mark.
func (w *wards) marked(e entry) bool {
	v, ok := variable(e.PID, w.name)
	return ok && w.value != "" && v == w.value
}
