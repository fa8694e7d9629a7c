package shell

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/process"
	"asyncrepl/internal/procfs"
	"asyncrepl/internal/pump"
	"asyncrepl/internal/runner"
	"asyncrepl/internal/tty"
	"asyncrepl/internal/waiting"
	"asyncrepl/jobs"
)

// Size of the terminal that a command sees, in character cells.
const (
	Rows = 40
	Cols = 120
)

// Errors that keep a command from starting, in the Err of its outcome.
var (
	ErrNoTerminal  = errors.New("no terminal can be opened")
	ErrNoDirectory = errors.New("the directory of the command does not exist")
)

// A startError is one of these with the words of its cause.
type startError struct {
	text string
	is   error
}

func (e startError) Error() string { return e.text }
func (e startError) Unwrap() error { return e.is }

// A Command is a program to be run as a job. Its fields are not changed once it
// has been started; it is run once.
type Command struct {
	Owner *process.Owner
	Argv  []string
	Dir   string   // an existing directory
	Env   []string // KEY=value, the whole of it
	TTY   bool     // on a terminal; else on pipes, stdout and stderr apart
}

// Run starts the command, follows it to its end and reports how it ended.
func (c *Command) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	if ctx.Err() != nil {
		return notRun(ctx)
	}
	p.Begin()
	r, err := c.start(p)
	if err != nil {
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.NotStarted, Detail: err.Error(), By: jobs.Program}, Err: err}
	}
	return r.follow(ctx)
}

// notRun is the outcome of a command that was stopped before its turn.
func notRun(ctx context.Context) jobs.Outcome {
	rec := jobs.Receipt{End: jobs.NotRun, By: jobs.Unknown}
	var st *jobs.Stop
	if errors.As(context.Cause(ctx), &st) {
		rec.Stop, rec.By = st, st.By
	}
	return jobs.Outcome{Receipt: rec}
}

// A run is one started command.
type run struct {
	port   *jobs.Port
	begin  time.Time
	shell  string // that runs a command line; empty: it is another program
	handle *process.Handle
	pty    *tty.PTY // nil on pipes
	keys   keyboard
	pumps  []*pump.Pump

	watch *waiting.Watcher // nil on pipes

	// What the terminal shows of the program, guarded by mu.
	mu      sync.Mutex
	reading bool // a program waits for input, maybe for other things as well
}

// A keyboard is where a run's input goes.
type keyboard interface {
	Type(ctx context.Context, text string, eof, secret bool) error
}

// start starts the program with its descriptors and the pumps that read them.
func (c *Command) start(p *jobs.Port) (*run, error) {
	r := &run{port: p, begin: time.Now()}
	spec := process.Spec{Env: c.Env, Dir: c.Dir, Mark: p.ID(), Files: make([]*os.File, 3)}
	if len(c.Argv) == 3 && c.Argv[1] == "-c" {
		r.shell = c.Argv[0]
	}
	var line string
	if spec.Argv, line = aside(c.Argv); line != "" {
		f, err := textFile(line)
		if err != nil {
			return nil, process.Scarce(err)
		}
		defer f.Close()
		spec.Files = append(spec.Files, f)
	}
	var err error
	if c.TTY {
		err = r.startTTY(c.Owner, spec)
	} else {
		err = r.startPipes(c.Owner, spec)
	}
	if err != nil {
		return nil, c.explain(err)
	}
	return r, nil
}

// explain returns the cause of an error of the start.
func (c *Command) explain(err error) error {
	if _, gone := os.Stat(c.Dir); errors.Is(gone, fs.ErrNotExist) {
		return startError{fmt.Sprintf("the directory %s is not there", c.Dir), ErrNoDirectory}
	}
	return process.Scarce(err)
}

// announce lets the job take input and name its process, before anything that
// the program writes can be seen.
func (r *run) announce() {
	r.port.SetPID(r.handle.PID())
	r.port.SetProbe(runner.Probe(r.handle))
	r.port.SetInput(r.input)
}

func (r *run) startTTY(owner *process.Owner, spec process.Spec) (err error) {
	if r.pty, err = tty.Open(Rows, Cols); err != nil {
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) { // pipes would be no better
			return err
		}
		return startError{err.Error(), ErrNoTerminal}
	}
	spec.TTY = r.pty
	if r.handle, err = owner.Start(spec); err != nil {
		r.pty.Close()
		return err
	}
	r.keys = tty.NewKeyboard(r.pty, r.tree)
	r.watch = &waiting.Watcher{PTY: r.pty, Tree: r.tree, Quiet: r.quiet, OnChange: r.news}
	r.announce()
	r.pumps = []*pump.Pump{pump.Shared(r.pty.Master(), func(b []byte) {
		r.port.Write(output.TTY, b)
		r.watch.Kick()
	})}
	return nil
}

func (r *run) startPipes(owner *process.Owner, spec process.Spec) (err error) {
	var ours, theirs []*os.File
	for i := range 3 {
		pr, pw, err := os.Pipe()
		if err != nil {
			closeAll(ours)
			closeAll(theirs)
			return fmt.Errorf("opening pipes: %w", err)
		}
		if i == 0 {
			pr, pw = pw, pr
		}
		ours, theirs = append(ours, pr), append(theirs, pw)
	}
	copy(spec.Files, theirs)
	r.handle, err = owner.Start(spec)
	closeAll(theirs) // at once: input that the program can't read is not to be taken for it
	if err != nil {
		closeAll(ours)
		return err
	}
	r.keys = &pipe{w: ours[0]}
	r.announce()
	r.pumps = []*pump.Pump{
		pump.New(ours[1], func(b []byte) { r.port.Write(output.Stdout, b) }),
		pump.New(ours[2], func(b []byte) { r.port.Write(output.Stderr, b) }),
	}
	return nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// follow waits for the end of the command and settles what it left behind.
func (r *run) follow(ctx context.Context) jobs.Outcome {
	stopWatch := func() {}
	if r.watch != nil {
		stopWatch = r.watch.Start()
	}
	result := r.await(ctx)
	stopWatch()
	for _, p := range r.pumps {
		p.Drain()
	}
	rec := r.receipt()
	rec.Rest, rec.Survivors = result.Escalated, processes(result.Survivors)
	if st, _ := r.port.Stop(); st != nil && len(result.Needed) > 0 {
		rec.Rungs = result.Needed
		if rec.End != jobs.Exited || rec.Code != 0 { // finished all the same: the truth wins
			rec.Stop, rec.By = st, st.By
		}
	}
	r.leave(&rec, result.Err)
	return jobs.Outcome{Receipt: rec}
}

// await returns when the leader has ended, by itself or by the ladder, or could
// not be ended.
func (r *run) await(ctx context.Context) process.StopResult {
	select {
	case <-r.handle.Done():
		return process.StopResult{}
	case <-ctx.Done():
	}
	st, _ := r.port.Stop()
	return r.handle.Stop(process.Ladder{
		Step: st.Step, Interrupt: r.interrupt, Requests: r.port,
	})
}

// ended tells whether the leader has ended. One that can't be ended has not,
// though its job is over.
func (r *run) ended() bool {
	select {
	case <-r.handle.Done():
		return true
	default:
		return false
	}
}

// receipt says how the leader ended.
func (r *run) receipt() jobs.Receipt {
	if !r.ended() {
		return jobs.Receipt{End: jobs.Alive}
	}
	x := r.handle.Exit()
	switch {
	case x.OOM:
		return jobs.Receipt{End: jobs.OutOfMemory, By: jobs.Limit}
	case x.Signal != 0:
		return jobs.Receipt{End: jobs.Signaled, Signal: process.SignalName(x.Signal), By: jobs.Blame(process.OwnFault(x.Signal))}
	}
	return jobs.Receipt{End: jobs.Exited, Code: x.Code, By: jobs.Program}
}

// leave closes what is over and hands what is left behind to the job. If the
// processes could not be checked, for stopErr or now, the receipt says so.
func (r *run) leave(rec *jobs.Receipt, stopErr error) {
	left := rec.Survivors
	unchecked := stopErr
	if r.ended() {
		hungUp, living, err := r.handle.Settle()
		unchecked = err // what the stop could not check, Settle may have
		rec.HungUp, rec.Left = processes(hungUp), without(processes(living), rec.Survivors)
		left = processes(living)
	}
	unclaimed, _ := r.handle.Unclaimed() // an error: those that could be read
	rec.Unclaimed = processes(unclaimed)
	if unchecked != nil {
		rec.Notes = append(rec.Notes, unchecked.Error())
	}
	if r.pty != nil {
		r.pty.CloseSlave() // so that the pump ends with the last process on it
	} else {
		r.keys.(*pipe).close()
	}
	if len(left) == 0 && unchecked == nil {
		r.release()
		return
	}
	cleared := make(chan struct{})
	r.port.SetCleanup(func(ctx context.Context, st jobs.Stop) jobs.Remains {
		from := jobs.Terminate // what is left did not heed anything milder
		if st.From == jobs.Kill {
			from = jobs.Kill
		}
		tree, _ := r.handle.Tree() // an error: Stop finds the others
		before := processes(tree)
		result := r.handle.Stop(process.Ladder{From: from, Step: st.Step})
		if result.Err != nil {
			return jobs.Remains{Err: result.Err}
		}
		survivors := processes(result.Survivors)
		if len(survivors) == 0 {
			select {
			case <-cleared: // the receipt says so
			case <-ctx.Done():
			}
		}
		return jobs.Remains{Ended: without(before, survivors), Survivors: survivors}
	})
	go r.clear(cleared, unchecked) // owned by the handle; ends when nothing is left, at shutdown at the latest
}

// clear waits until nothing is left of what the command left behind, and takes
// it out of the receipt, with the note of what could not be checked.
func (r *run) clear(cleared chan<- struct{}, unchecked error) {
	defer close(cleared)
	<-r.port.Ended()
	<-r.handle.TreeGone()
	r.port.SetCleanup(nil)
	late := processes(r.handle.HungUp())
	r.release() // with their last words, before they are said to have ended
	r.port.AmendReceipt(func(rec *jobs.Receipt) {
		var names []string
		for _, p := range without(slices.Concat(rec.Left, rec.Survivors), late) {
			names = append(names, p.String())
		}
		if len(names) > 0 {
			rec.Notes = append(rec.Notes, "left running, and ended since: "+strings.Join(names, ", "))
		}
		rec.HungUp = append(rec.HungUp, late...)
		rec.Left, rec.Survivors = nil, nil
		if unchecked != nil {
			rec.Notes = slices.DeleteFunc(rec.Notes, func(n string) bool { return n == unchecked.Error() })
		}
	})
}

// release gives up the terminal and the table entry once nothing is left. What was written until then is in the output.
func (r *run) release() {
	for _, p := range r.pumps {
		p.Close()
	}
	if r.pty != nil {
		r.pty.Close()
	}
	r.handle.Forget()
}

// without returns those of ps that are not among others.
func without(ps, others []jobs.Process) []jobs.Process {
	return slices.DeleteFunc(ps, func(p jobs.Process) bool { return slices.Contains(others, p) })
}

func processes(ps []procfs.Process) []jobs.Process {
	var out []jobs.Process
	for _, p := range ps {
		out = append(out, jobs.Process{PID: p.PID, Program: p.Program})
	}
	return out
}
