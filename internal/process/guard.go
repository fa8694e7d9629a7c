//go:build unix

package process

import (
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"asyncrepl/internal/guard"
	"asyncrepl/internal/procfs"
)

const (
	// tellLimit bounds what a guard that does not listen can hold up. A pipe takes thousands of lines before it does. It
	// is longer than a busy machine may take between the setting of a deadline and the write.
	tellLimit = time.Second

	// A guard that has died is replaced at once, unless it is one of guardTries in a row that have lived for less than
	// guardLife: one that can't live is tried again with each start of a process only.
	guardTries = 3
	guardLife  = time.Second
)

// A guardLink is our side of the guard: the process that ends what is left when this one is killed. It is started before
// the first process it must answer for. If it dies it is replaced at once, or before the next process is started at the
// latest, and told everything again; if it was stopped it is woken then. So what is left is nobody's only where this
// process is killed with its guard, or in the milliseconds before there is another one.
type guardLink struct {
	owner *Owner

	starting sync.Mutex // held while one is started; never together with mu or kin.mu

	mu     sync.Mutex
	told   map[int]Process // what it must end
	w      *os.File        // nil: there is none
	child  *child
	brief  int // guards in a row that did not live long
	closed bool
}

func newGuard(o *Owner) *guardLink { return &guardLink{owner: o, told: make(map[int]Process)} }

// ensure sees to it that a guard runs. That it can't be started keeps nobody from working.
func (g *guardLink) ensure() {
	config := g.owner.config
	if len(config.Guard) == 0 {
		return
	}
	g.starting.Lock()
	defer g.starting.Unlock()
	if g.ready() {
		return
	}
	r, w, err := os.Pipe()
	if err != nil {
		config.Log.Error("starting the guard", "error", err)
		return
	}
	defer r.Close()
	attr := &os.ProcAttr{
		Dir:   "/", // it keeps no directory busy
		Env:   append([]string{}, config.GuardEnv...),
		Files: []*os.File{r, g.owner.null, g.owner.null},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}
	c, err := kin.launch(config.Guard[0], config.Guard, attr, func(*child) {})
	if err != nil {
		w.Close()
		config.Log.Error("starting the guard", "error", err)
		return
	}
	go g.follow(c, time.Now()) // owned by the guard; ends when the process has been reaped

	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		w.Close()
		return
	}
	g.w, g.child = w, c
	var lines strings.Builder
	lines.WriteString(guard.Mark(config.Mark+"_OWNER", g.owner.token))
	for _, p := range g.told {
		lines.WriteString(guard.Add(procfs.Process(p)))
	}
	g.tell(lines.String())
}

// ready tells whether no guard need be started, and wakes one that was stopped or is about to be. It looks for itself: we
// may not have been told yet that ours has died.
func (g *guardLink) ready() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return true
	}
	if g.w != nil {
		if e, ok := inspect(g.child.self.PID); ok && !e.ended() {
			g.child.wake()
			return true
		}
	}
	g.drop()
	return false
}

// follow replaces a guard that has ended and that nobody has replaced yet.
func (g *guardLink) follow(c *child, begin time.Time) {
	kin.wait(c, func() {})
	g.mu.Lock()
	ours := g.child == c && !g.closed
	if ours {
		g.drop()
	}
	if g.brief++; time.Since(begin) >= guardLife {
		g.brief = 0
	}
	again := g.brief < guardTries
	g.mu.Unlock()
	if !ours {
		return
	}
	g.owner.config.Log.Warn("the guard has ended", "another is started", again)
	if again {
		g.ensure()
	}
}

// add tells the guard to end p, and all that is in a group or session of its number, when we can't. It returns false if
// no guard took it; the next one will be told.
func (g *guardLink) add(p Process) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.told[p.PID] = p
	return g.tell(guard.Add(procfs.Process(p)))
}

// forget tells the guard that p has ended and that nothing is left that only its number tells of.
func (g *guardLink) forget(p Process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.told[p.PID].Start != p.Start {
		return
	}
	delete(g.told, p.PID)
	g.tell(guard.Forget(p.PID))
}

// tell sends lines. A guard that does not take them is of no use. The caller holds mu.
func (g *guardLink) tell(lines string) bool {
	if g.w == nil {
		return false
	}
	g.w.SetWriteDeadline(time.Now().Add(tellLimit))
	if _, err := g.w.WriteString(lines); err != nil {
		g.owner.config.Log.Warn("telling the guard", "error", err)
		g.drop()
		return false
	}
	return true
}

// drop gives up the guard that runs, if one does. It is killed before its pipe is closed, for an end of file would set it
// to work. The caller holds mu.
func (g *guardLink) drop() {
	if g.w != nil {
		g.child.process.Kill() // an error: it has ended
		g.w.Close()
		g.w = nil
	}
}

// close sets the guard to work on what is left, and is the end of it.
func (g *guardLink) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	if g.w != nil {
		g.child.wake()
		g.w.Close()
		g.w = nil
	}
}

// pid is the number of the guard that runs, 0 if there is none.
func (g *guardLink) pid() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.w == nil {
		return 0
	}
	return g.child.self.PID
}
