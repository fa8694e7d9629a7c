//go:build unix

package proc

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// tellLimit bounds what a guard that does not listen can hold up. A pipe takes thousands of lines before it does.
const tellLimit = 100 * time.Millisecond

// A guard is our side of the guard: the process that ends what is left when this one is killed. It is started before
// the first process it must answer for, and again, and told everything again, if it has died.
type guard struct {
	owner *Owner

	starting sync.Mutex // held while one is started; never together with mu or kin.mu

	mu     sync.Mutex
	told   map[int]Process // what it must end
	w      *os.File        // nil: there is none
	child  *child
	closed bool
}

func newGuard(o *Owner) *guard { return &guard{owner: o, told: make(map[int]Process)} }

// ensure starts the guard if none runs. That it can't be started keeps nobody from working.
func (g *guard) ensure() {
	config := g.owner.config
	if len(config.Guard) == 0 {
		return
	}
	g.starting.Lock()
	defer g.starting.Unlock()
	g.mu.Lock()
	running := g.w != nil || g.closed
	g.mu.Unlock()
	if running {
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
	go g.follow(c) // owned by the guard; ends when the process has been reaped

	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		w.Close()
		return
	}
	g.w, g.child = w, c
	var lines strings.Builder
	fmt.Fprintf(&lines, "%s %s_OWNER=%s\n", wordMark, config.Mark, g.owner.token)
	for _, p := range g.told {
		fmt.Fprintf(&lines, "%s %d %d\n", wordAdd, p.PID, p.Start)
	}
	g.tell(lines.String())
}

// follow notes that the guard has ended.
func (g *guard) follow(c *child) {
	kin.wait(c, func() {})
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.child == c {
		if g.w != nil {
			g.owner.config.Log.Warn("the guard has ended; the next start starts another")
		}
		g.drop()
	}
}

// add tells the guard to end p, and all that is in a group or session of its number, when we can't.
func (g *guard) add(p Process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.told[p.PID] = p
	g.tell(fmt.Sprintf("%s %d %d\n", wordAdd, p.PID, p.Start))
}

// forget tells the guard that p has ended and that nothing is left that only its number tells of.
func (g *guard) forget(p Process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.told[p.PID].Start != p.Start {
		return
	}
	delete(g.told, p.PID)
	g.tell(fmt.Sprintf("%s %d\n", wordForget, p.PID))
}

// tell sends lines. A guard that does not take them is of no use; it is killed before its pipe is closed, for an end of
// file would set it to work. The caller holds mu.
func (g *guard) tell(lines string) {
	if g.w == nil {
		return
	}
	g.w.SetWriteDeadline(time.Now().Add(tellLimit))
	if _, err := g.w.WriteString(lines); err != nil {
		g.owner.config.Log.Warn("telling the guard", "error", err)
		g.child.process.Kill()
		g.drop()
	}
}

// drop gives up the guard that runs. The caller holds mu.
func (g *guard) drop() {
	if g.w != nil {
		g.w.Close()
		g.w = nil
	}
}

// close sets the guard to work on what is left, and is the end of it.
func (g *guard) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.drop()
}

// pid is the number of the guard that runs, 0 if there is none.
func (g *guard) pid() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.w == nil {
		return 0
	}
	return g.child.self.PID
}
