//go:build unix

package waiting

import (
	"fmt"
	"slices"
	"time"

	"asyncrepl/internal/kernel/threads"
	"asyncrepl/internal/terminal/tty"
)

// A Source is what the programs of a job read: a [*tty.PTY], their terminal, or a [*stdin.Pipe],
// their standard input.
type Source interface {
	// OnSend has f called at the start of each Send, before a program can see the input, and at
	// its end.
	OnSend(f func())

	// Sending reports whether a Send is in progress.
	Sending() bool
}

// Kinds of input, by the terminal's mode. A pipe has lines.
const (
	kindLine   = "line"
	kindSecret = "secret" // a line that is not echoed
	kindKey    = "key"    // single keys
)

// Evidence names the program that waits for input and the kind of input it waits for, or a program
// that was stopped because it read the terminal in the background. The zero Evidence means none.
type Evidence struct {
	Kind string // line, secret or key; empty: it is stopped

	pid, tid int
	program  string
	also     string // words after its name that say what else can wake it; empty: nothing can
	inferred bool   // only the terminal's mode shows the wait; no read was seen
}

// Reads reports whether a program takes input.
func (e Evidence) Reads() bool { return e.Kind != "" }

// Stopped names the program that was stopped, for a reply, or returns nothing if none was.
func (e Evidence) Stopped() string {
	if e.Reads() || e.pid == 0 {
		return ""
	}
	return fmt.Sprintf("%s (pid %d)", e.program, e.pid)
}

// By names the program that waits, for a reply: as the reader that was seen, with what else it
// waits for, or as inferred.
func (e Evidence) By() string {
	if e.inferred {
		return fmt.Sprintf("inferred from the terminal's mode, which %s (pid %d) has set", e.program, e.pid)
	}
	by := fmt.Sprintf("read by %s (pid %d)", e.program, e.pid)
	if e.also != "" {
		by += ", which also " + e.also
	}
	return by
}

// scanTree scans p, whose processes tree returned just before. If a process was started since, the
// verdict is uncertain: it can hold the other end of something that the program waits for beside the
// terminal.
func scanTree(p *probe, tree func() ([]int, error)) (Evidence, verdict) {
	ev, v := p.scan()
	if v != waits {
		return ev, v
	}
	now, err := tree()
	if threads.UnlessHidden(err) != nil || slices.ContainsFunc(now, func(pid int) bool { return !slices.Contains(p.pids, pid) }) {
		return Evidence{}, uncertain
	}
	return ev, v
}

// A verdict is the result of a scan. Of several threads, the one with the greatest verdict counts.
type verdict int

const (
	busy      verdict = iota // no program waits for input
	stopped                  // one in the background was stopped because it read the terminal
	accepts                  // one does, and something else can wake it as well
	crowded                  // one does, but another of its threads is at work
	looping                  // one does, but it wakes by itself soon, and perhaps asks again
	refused                  // one in the foreground can't be inspected, and echo is off
	uncertain                // one might, but something is in transit or unreadable: scan again
	waits                    // one waits for input alone
)

// alone reports whether nothing but input can wake the program, except its own threads.
func (v verdict) alone() bool { return v == crowded || v == waits }

// A moment holds the facts about one thread whose system call waits for input. All were true
// at the same time.
type moment struct {
	program   string // the program that the thread runs
	stopped   bool   // inside the call, by a signal or a debugger
	reads     bool   // the call is a read
	mayRead   bool   // the kernel lets it read the source
	inTransit bool   // input that no program has read, or output that the server has not read
	// also has words that follow the program's name: they say what else can wake it. Empty: nothing
	// can.
	also    string
	working bool          // another thread of the program is at work
	timeout time.Duration // the call ends after it in any case; negative: never
}

// A rule returns its verdict on a moment, and whether it applies to it.
type rule func(m moment) (v verdict, applies bool)

// rules are tried in order. If none applies, the program waits.
var rules = []rule{stoppedReader, transit, wokenByOthers, waitsBriefly, besideWork}

// judge returns the verdict of the first rule that applies.
func judge(m moment) verdict {
	for _, r := range rules {
		if v, applies := r(m); applies {
			return v
		}
	}
	return waits
}

// stoppedReader: a stopped program takes no input. The kernel stops one that reads the terminal in
// the background (SIGTTIN, https://man7.org/linux/man-pages/man7/credentials.7.html), and a debugger
// any.
func stoppedReader(m moment) (verdict, bool) {
	if m.stopped && m.reads && !m.mayRead {
		return stopped, true
	}
	return busy, m.stopped
}

// transit: the call is about to end, or not all of the prompt is there.
func transit(m moment) (verdict, bool) { return uncertain, !m.mayRead || m.inTransit }

// wokenByOthers: the program continues without input when something else happens.
func wokenByOthers(m moment) (verdict, bool) { return accepts, m.also != "" }

// briefWait bounds a wait that a program makes between other work: it shows progress, say, and
// checks for a key meanwhile.
const briefWait = time.Second

// waitsBriefly: the program continues without input after a short time. A [history] finds out
// whether it does anything but ask again.
func waitsBriefly(m moment) (verdict, bool) { return looping, brief(m.timeout) }

// brief reports whether a wait with this timeout ends without an event in less than briefWait.
func brief(timeout time.Duration) bool { return timeout >= 0 && timeout < briefWait }

// besideWork: what the other thread does is unknown, and so is what the program does next. A
// [history] waits until the thread rests.
func besideWork(m moment) (verdict, bool) { return crowded, m.working }

// verdictAfter returns the verdict on a thread that could not be read because of err.
func verdictAfter(err error) verdict {
	if threads.Hidden(err) {
		return busy
	}
	return uncertain
}

// kindOf returns the kind of input that a program in this mode waits for.
func kindOf(m tty.Mode) string {
	switch {
	case !m.Canon:
		return kindKey
	case !m.Echo:
		return kindSecret
	}
	return kindLine
}
