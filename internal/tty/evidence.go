//go:build unix

package tty

import "slices"

import "fmt"

// Kinds of evidence, told by the terminal's mode.
const (
	Line   = "line"   // a line is awaited
	Secret = "secret" // a line that is not shown
	Key    = "key"    // single keys
)

// Evidence says who waits for the terminal and for what; the zero Evidence, that nobody does.
type Evidence struct {
	PID, TID int
	Program  string
	Kind     string // Line, Secret or Key
	Inferred bool   // told by the terminal's mode alone; nobody was seen to read
}

// By names who waits, for a reply: a read that was seen, or what was inferred.
func (e Evidence) By() string {
	if e.Inferred {
		return fmt.Sprintf("inferred from the terminal's mode, which %s (pid %d) has set", e.Program, e.PID)
	}
	return fmt.Sprintf("read by %s (pid %d)", e.Program, e.PID)
}

// Waiting takes a full look at the processes procs, and reports the first that waits for this terminal. See look for
// what counts.
func (p *PTY) Waiting(procs []int) (Evidence, bool) {
	ev, v := p.look(procs)
	return ev, v == waits
}

// lookOver takes a full look at procs, the job's processes as tree listed them just before. One that was started since
// may hold the other end of what the program waits for beside the terminal: then nothing is said yet.
func (p *PTY) lookOver(procs []int, tree func() []int) (Evidence, verdict) {
	ev, v := p.look(procs)
	if v == waits && slices.ContainsFunc(tree(), func(pid int) bool { return !slices.Contains(procs, pid) }) {
		return Evidence{}, passing
	}
	return ev, v
}

// verdict is what a look came to.
type verdict int

const (
	busy    verdict = iota // nobody waits
	accepts                // somebody does, and for other things as well
	passing                // somebody would, but input or output is on its way: look again
	waits                  // somebody does, and for nothing else
)

func (m Mode) kind() string {
	switch {
	case !m.Canon:
		return Key
	case !m.Echo:
		return Secret
	}
	return Line
}
