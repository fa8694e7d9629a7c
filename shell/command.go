package shell

import (
	"cmp"
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

	"asyncrepl/internal/kernel/listening"
	"asyncrepl/internal/output"
	"asyncrepl/internal/process"
	"asyncrepl/internal/runner"
	"asyncrepl/internal/terminal/pump"
	"asyncrepl/internal/terminal/queries"
	"asyncrepl/internal/terminal/stdin"
	"asyncrepl/internal/terminal/tty"
	"asyncrepl/internal/terminal/waiting"
	"asyncrepl/jobs"
)

// A startError says why a command could not start, with the cause for its receipt.
type startError struct {
	text  string
	cause jobs.Cause
}

func (e startError) Error() string { return e.text }

// A Command is a program to be run as a job. Its fields are not changed once it has been started;
// it is run once.
type Command struct {
	Owner *process.Owner
	Argv  []string
	Dir   string   // an existing directory
	Env   []string // KEY=value, the full environment
	TTY   bool     // it runs on a terminal; false: on pipes, with stdout and stderr apart

	files []*os.File // the shell of a session gets them as reportFD and, if any, localFD
	pace  tty.Pace   // the pace at which the keys of clients are typed; zero: tty.UsualPace
}

// Run starts the command, follows it to its end and reports how it ended.
func (c *Command) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	if ctx.Err() != nil || p.Admit(ctx) != nil {
		return runner.NotRun(ctx)
	}
	r, err := c.start(p)
	if errors.Is(err, process.ErrShutdown) { // what ends the server has asked the job to end before
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.NotRun, Stop: p.Stop()}}
	}
	if err != nil {
		var named startError
		errors.As(err, &named)
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.NotStarted, Detail: err.Error(), Cause: named.cause, By: jobs.Program}}
	}
	return r.follow(ctx)
}

// A run is one started command.
type run struct {
	port     *jobs.Port
	shell    string // the shell that runs a command line; empty: another program runs
	handle   *process.Handle
	terminal *runner.Terminal // nil on pipes
	stdin    *stdin.Pipe      // nil on a terminal
	typist   *tty.Typist      // nil on pipes
	watcher  *waiting.Watcher // watches the terminal or stdin
	pumps    []*pump.Pump
	dir      string // the directory in which it was started
	watch    runner.Stopwatch
	modes    queries.Modes // the terminal's; only input uses it, and no two calls of input overlap

	// Guarded by mu.
	mu         sync.Mutex
	reading    bool               // a program reads input, and may wait for other things as well
	readsAgain chan struct{}      // closed when a program reads again; nil: nothing waits
	signals    map[string]jobs.By // the sender of the last signal of each name
	request    request
}

// start starts the program with its descriptors and the pumps that read them.
func (c *Command) start(p *jobs.Port) (*run, error) {
	r := &run{port: p, dir: c.Dir, watch: runner.Begin()}
	spec := process.Spec{Env: c.Env, Dir: c.Dir, Mark: p.ID(), Files: make([]*os.File, 3)}
	r.shell, _, _ = scriptOf(c.Argv)
	spec.Files = append(spec.Files, c.files...)
	var line string
	argv := c.Argv
	if c.TTY && len(c.files) == 0 { // a session's script lingers itself
		argv = lingering(argv)
	}
	if spec.Argv, line = splitLongLine(argv, len(spec.Files)); line != "" {
		f, err := textFile(line)
		if err != nil {
			return nil, runner.Scarce(fmt.Errorf("keeping a long command line: %w", err))
		}
		defer f.Close()
		spec.Files = append(spec.Files, f)
	}
	r.mu.Lock() // input can come once the job runs, and waits here for the pumps
	defer r.mu.Unlock()
	var err error
	if c.TTY {
		err = r.startOnTTY(c.Owner, spec, cmp.Or(c.pace, tty.UsualPace))
	} else {
		err = r.startOnPipes(c.Owner, spec)
	}
	if err != nil {
		if _, gone := os.Stat(c.Dir); errors.Is(gone, fs.ErrNotExist) {
			return nil, startError{fmt.Sprintf("the directory %s is not there", c.Dir), jobs.NoDirectory}
		}
		return nil, runner.Scarce(err)
	}
	return r, nil
}

func (r *run) startOnTTY(owner *process.Owner, spec process.Spec, pace tty.Pace) (err error) {
	if r.terminal, err = runner.OpenTerminal(); err != nil {
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) { // pipes would fail
			return err
		}
		return startError{err.Error(), jobs.NoTerminal}
	}
	spec.TTY = r.terminal.PTY
	if r.handle, err = owner.Start(spec); err != nil {
		r.terminal.Close()
		return err
	}
	r.watcher = runner.NewWatcher(r.terminal.PTY, r.handle, r.lastOutput, r.onInput)
	r.port.SetTerminal(r.terminal.Size)
	r.announce()
	r.terminal.Connect(r.handle, func() *jobs.Port { return r.port }, func(*jobs.Port) { r.watcher.Kick() })
	r.terminal.Keyboard.OnType = func(signal, by string) { r.noteSent(signal, jobs.By(by)) }
	r.typist = tty.NewTypist(r.terminal.Keyboard, pace)
	r.pumps = []*pump.Pump{r.terminal.Screen}
	return nil
}

func (r *run) startOnPipes(owner *process.Owner, spec process.Spec) error {
	in, reader, err := stdin.Open()
	if err != nil {
		return fmt.Errorf("opening pipes: %w", err)
	}
	ours, theirs := []*os.File{}, []*os.File{reader}
	for range 2 {
		our, their, err := pump.Pipe()
		if err != nil {
			in.Close()
			closeAll(ours)
			closeAll(theirs)
			return fmt.Errorf("opening pipes: %w", err)
		}
		ours, theirs = append(ours, our), append(theirs, their)
	}
	copy(spec.Files, theirs)
	r.handle, err = owner.Start(spec)
	closeAll(theirs) // now, or we would accept input that no program can read
	if err != nil {
		in.Close()
		closeAll(ours)
		return err
	}
	r.stdin = in
	r.watcher = runner.NewWatcher(r.stdin, r.handle, r.lastOutput, r.onInput)
	r.announce()
	out := pump.New(ours[0], r.write(output.Stdout))
	errs := pump.New(ours[1], pump.After(out, r.write(output.Stderr)))
	r.pumps = []*pump.Pump{out, errs}
	return nil
}

// write returns a function that writes the bytes from a pipe to a stream of the job's output.
func (r *run) write(to output.Stream) func([]byte) {
	return func(b []byte) {
		r.port.Write(to, b)
		r.watcher.Kick()
	}
}

// lastOutput returns the time of the newest output.
func (r *run) lastOutput() (last time.Time) {
	for _, p := range r.pumps {
		if t := p.Last(); t.After(last) {
			last = t
		}
	}
	return last
}

// announce names the job's process and makes the job run, which takes input from then on. No output
// has been read yet.
func (r *run) announce() {
	r.port.SetPID(r.handle.PID())
	r.port.SetProbe(runner.Probe(r.handle))
	r.port.SetInput(r.input)
	r.port.Begin()
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// follow waits until the command has ended, and returns what became of it and of the processes that
// it left.
func (r *run) follow(ctx context.Context) jobs.Outcome {
	stopWatcher := r.watcher.Start()
	ports := listening.NewTree(r.handle.Tree)
	ports.Follow(runner.ReportPorts(r.port), false)
	stopped := r.await(ctx)
	if r.typist != nil {
		r.typist.Close(errEnded)
	}
	ports.Close()
	stopWatcher()
	for _, p := range r.pumps {
		p.Drain()
	}
	rec := runner.ExitReceipt(r.handle)
	rec.Rest, rec.Survivors = stopped.Escalated, runner.Processes(stopped.Survivors)
	if by := r.senderOf(rec.Signal); rec.End == jobs.Signaled && by != "" {
		rec.By = by
	}
	st := r.port.Stop()
	if req := r.requested(); req.rung != "" && st == nil && rec.End == jobs.Exited && rec.Code == 0 {
		rec.Rungs, rec.By = []jobs.Rung{req.rung}, req.by
	}
	// A shutdown hangs up every process group itself, often before the rungs of the job's own stop.
	hungUp := st != nil && st.By.EndsServer() && rec.End == jobs.Signaled
	if st != nil && (len(stopped.Needed) > 0 || hungUp) {
		rec.Rungs = stopped.Needed
		if rec.End != jobs.Exited || rec.Code != 0 { // the command did not finish anyway
			rec.Stop, rec.By = st, st.By
		}
	}
	if r.typist != nil {
		rec.Notes = append(rec.Notes, r.typist.Lost()...)
	}
	if st == nil || !st.By.EndsServer() {
		rec.Files = r.watch.Files(r.dir)
	}
	r.settle(&rec, stopped.Err)
	return jobs.Outcome{Receipt: rec}
}

// await waits until the leader has ended, by itself or because the job was asked to end, or could
// not be killed.
func (r *run) await(ctx context.Context) process.StopResult {
	select {
	case <-r.handle.Done():
		return process.StopResult{}
	case <-ctx.Done():
		if r.typist != nil {
			r.typist.Drop(errStopping)
		}
		return r.handle.Stop(process.Ladder{Step: r.port.Stop().Step, Interrupt: r.interrupt, Requests: r.port})
	}
}

// settle closes the files that are no longer needed, and records in the receipt what became of the
// processes that the command left. If they could not be checked, because of stopErr or now, a note
// says so.
func (r *run) settle(rec *jobs.Receipt, stopErr error) {
	remaining := rec.Survivors
	unchecked := stopErr
	if runner.Ended(r.handle) {
		hungUp, living, err := r.handle.Settle()
		unchecked = err // Settle may have checked what the stop could not
		remaining = runner.Processes(living)
		rec.HungUp, rec.Left = runner.Processes(hungUp), without(remaining, rec.Survivors)
	}
	unclaimed, _ := r.handle.Unattributed() // an error: it has those that could be read
	rec.Unclaimed = runner.Processes(unclaimed)
	if unchecked != nil {
		rec.Notes = append(rec.Notes, unchecked.Error())
	}
	if r.terminal != nil {
		r.terminal.CloseSlave() // so that the pump ends when the last process closes the terminal
	} else {
		r.stdin.Close()
	}
	if len(remaining) == 0 && unchecked == nil {
		r.release()
		return
	}
	cleared := make(chan struct{})
	r.port.SetCleanup(func(ctx context.Context, st jobs.Stop) jobs.Remains { return r.cleanup(ctx, st, cleared) })
	go r.awaitClear(cleared, unchecked) // owned by the handle; ends when nothing is left, at shutdown at the latest
}

// cleanup ends the processes that the command left, and returns when the receipt says so or ctx
// ends. The cleanup continues after ctx has ended.
func (r *run) cleanup(ctx context.Context, st jobs.Stop, cleared <-chan struct{}) jobs.Remains {
	ended := make(chan jobs.Remains, 1)                  // buffered: the caller can have left
	go func() { ended <- r.endRemaining(st, cleared) }() // owned by the handle; ends when nothing is left, or after the kill
	select {
	case remains := <-ended:
		return remains
	case <-ctx.Done():
		return jobs.Remains{Pending: true}
	}
}

// endRemaining is cleanup without a ctx.
func (r *run) endRemaining(st jobs.Stop, cleared <-chan struct{}) jobs.Remains {
	from := jobs.Terminate // the remaining processes did not heed anything milder
	if st.From == jobs.Kill {
		from = jobs.Kill
	}
	tree, _ := r.handle.Tree() // an error: Stop finds the others
	before := runner.Processes(tree)
	result := r.handle.Stop(process.Ladder{From: from, Step: st.Step})
	if result.Err != nil {
		return jobs.Remains{Err: result.Err}
	}
	survivors := runner.Processes(result.Survivors)
	if len(survivors) == 0 {
		<-cleared
	}
	return jobs.Remains{Ended: without(before, survivors), Survivors: survivors}
}

// awaitClear waits until every process that the command left has ended. It then takes them out of
// the receipt, with the note that they could not be checked.
func (r *run) awaitClear(cleared chan<- struct{}, unchecked error) {
	defer close(cleared)
	<-r.port.Ended()
	<-r.handle.TreeGone()
	r.port.SetCleanup(nil)
	late := runner.Processes(r.handle.HungUp())
	r.release() // reads their last output, before the receipt says that they have ended
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

// release closes terminal and pumps, which drains them, and drops the table entry. Nothing of the
// tree is left.
func (r *run) release() {
	for _, p := range r.pumps {
		p.Close()
	}
	if r.terminal != nil {
		r.terminal.Close()
	}
	r.handle.Forget()
}

// without returns the processes of ps that are not among others. It changes ps.
func without(ps, others []jobs.Process) []jobs.Process {
	return slices.DeleteFunc(ps, func(p jobs.Process) bool { return slices.Contains(others, p) })
}
