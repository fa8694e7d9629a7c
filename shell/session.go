package shell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"asyncrepl/internal/process"
	"asyncrepl/internal/runner"
	"asyncrepl/jobs"
)

// A Session runs command lines one at a time, in the order of their jobs. Each begins with the
// directory, the exported variables, the umask and the options with which the shell of the last one
// ended, and in bash with its functions, aliases and other variables. A command that was killed, or
// whose shell did not say how it ended, changes nothing of this.
type Session struct {
	name string

	mu    sync.Mutex
	queue []*turn // the first one has its turn
	used  time.Time
	state state
}

// NewSession returns a session whose first command runs in dir.
func NewSession(name, dir string) *Session {
	return &Session{name: name, used: time.Now(), state: state{dir: dir}}
}

// Idle returns since when no command of the session runs or waits, and its directory. The time is
// zero while one does.
func (s *Session) Idle() (since time.Time, dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) > 0 {
		return time.Time{}, s.state.dir
	}
	return s.used, s.state.dir
}

// A Line is a command line for a session.
type Line struct {
	Owner *process.Owner
	Shell string // the path of a shell for which [CanCarry] holds
	Text  string
	Dir   string            // this command runs here; empty: in the directory of the session
	Env   []string          // KEY=value: the environment of a new session
	Given map[string]string // variables for this command only
	TTY   bool
}

// Runner returns a runner of l.
func (s *Session) Runner(l Line) jobs.Runner {
	return &turn{session: s, line: l, ready: make(chan struct{})}
}

// A turn is one command of a session.
type turn struct {
	session *Session
	line    Line
	ready   chan struct{} // closed when its turn has come
}

// Queue puts the command behind the commands of earlier jobs.
func (t *turn) Queue(*jobs.Port) {
	s := t.session
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, t)
	if len(s.queue) == 1 {
		close(t.ready)
	}
}

// leave releases the command's place.
func (t *turn) leave() {
	s := t.session
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.queue, t)
	s.queue = slices.Delete(s.queue, i, i+1)
	s.used = time.Now()
	if i == 0 && len(s.queue) > 0 {
		close(s.queue[0].ready)
	}
}

// Run waits for its turn, runs the command and keeps the state for the next one.
func (t *turn) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	defer t.leave()
	select {
	case <-t.ready:
	case <-ctx.Done():
		return runner.NotRun(ctx)
	}
	t.session.mu.Lock()
	before := t.session.state
	t.session.mu.Unlock()
	c, err := t.command(before)
	defer closeAll(c.files)
	if err != nil {
		err = runner.Scarce(fmt.Errorf("carrying the state of shell session %s: %w", t.session.name, err))
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.NotStarted, Detail: err.Error(), By: jobs.Program}}
	}
	out := c.Run(ctx, p)
	after, notes := t.carry(out.Receipt, before, c)
	t.session.mu.Lock()
	t.session.state = after
	t.session.mu.Unlock()
	out.Receipt.Notes = append(out.Receipt.Notes, notes...)
	return out
}

// command returns the command that runs the line from a state on. Its files are open even if there
// is an error.
func (t *turn) command(from state) (*Command, error) {
	l := t.line
	dir := cmp.Or(l.Dir, from.dir)
	local := from.local.text(l.Given)
	c := &Command{
		Owner: l.Owner, Argv: Script(l.Shell, from.script(l.Shell, l.Text, local != "")), Dir: dir,
		Env: append(from.environment(l.Env, l.Given), "PWD="+dir), TTY: l.TTY,
	}
	report, err := unnamedFile()
	if err != nil {
		return c, err
	}
	c.files = append(c.files, report)
	if local == "" {
		return c, nil
	}
	f, err := textFile(local)
	if err != nil {
		return c, err
	}
	c.files = append(c.files, f)
	return c, nil
}

// errKilled means that a command was ended from outside.
var errKilled = errors.New("it was killed")

// carry returns the state that the next command begins with, and notes about it for the client. c is
// the command that has ended.
func (t *turn) carry(rec jobs.Receipt, before state, c *Command) (after state, notes []string) {
	name := t.session.name
	note := func(format string, args ...any) {
		notes = append(notes, "shell session "+name+" "+fmt.Sprintf(format, args...))
	}
	rep, err := readReport(c.files[0])
	switch {
	case rec.End == jobs.NotStarted || rec.End == jobs.NotRun:
		return before, nil
	case rec.End != jobs.Exited || rec.Stop != nil:
		err = errKilled
	}
	if err != nil {
		note("carries nothing of this command: %v", err)
		return before, notes
	}
	after, readonly := rep.state(t.line.Env, c.Env)
	if before.changed == nil {
		// The client may have misspelled the name.
		note("is new")
	}
	if after.dir != before.dir {
		note("is in %s now", after.dir)
	}
	switch {
	case rep.noEnv:
		after.changed, after.local.variables = before.changed, before.local.variables
		if after.changed == nil { // see "is new"
			after.changed = make(map[string]*string)
		}
		note("keeps its variables of before: no program can be started with those that this command has left, they are too large")
	default:
		after.keepGiven(t.line.Given, before)
		if len(readonly) > 0 {
			note("does not carry %s: readonly", strings.Join(readonly, ", "))
		}
	}
	if len(rep.unread) > 0 {
		note("has lost the function %s: bash can't read what declare -f prints of it", strings.Join(rep.unread, ", "))
	}
	if rep.cut || after.local.size() > maxLocal {
		after.local = before.local
		note("keeps its functions, aliases and unexported variables of before: those that this command has left take more than 1 MiB")
	}
	return after, notes
}
