package server

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/delivery"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

func (c *call) executePython(ctx context.Context) (*report.Reply, error) {
	if err := c.args.CheckCode(); err != nil {
		return nil, err
	}
	if err := c.canKeep(); err != nil {
		return nil, err
	}
	if c.args.Rerun && c.args.FromJob == "" {
		return nil, report.Mistakef("rerun is about the jobs up to from_job: give from_job too.")
	}
	session := c.session()
	if c.place != "" {
		return c.mirror(ctx, "execute_python", c.pythonSpec(session))
	}
	if c.args.FromJob != "" {
		return c.executeFrom(ctx)
	}
	py, made, err := c.Backend.Open(c.scope, session)
	if err != nil {
		return nil, err
	}
	c.made = made
	if c.args.Path == "" {
		return c.execute(ctx, c.pythonSpec(session), c.keeping(py, py.Exec(c.args.Code)))
	}
	file := engine.File{Path: c.args.Path, Args: c.args.Args}
	return c.execute(ctx, c.pythonSpec(session), c.keeping(py, py.ExecFile(file)))
}

// pythonSpec describes the job that runs the code or the file of the call in a session.
func (c *call) pythonSpec(session string) jobs.Spec {
	what := c.args.Code
	if c.args.Path != "" {
		what = engine.File{Path: c.args.Path, Args: c.args.Args}.String()
	}
	return jobs.Spec{Kind: jobs.Python, Session: session, Title: view.Title(what), Code: what}
}

// canKeep refuses a call that wants its job to be kept if the server ends with its client. At a place
// the job outlives the server.
func (c *call) canKeep() error {
	if c.place != "" {
		return nil
	}
	if c.args.Keep && c.Keep == KeepRefused {
		return report.Mistakef("keep: this server ends with its client (REPL_KEEPER=off), so it can keep no job. Leave keep out, or have a person set REPL_KEEPER=on.")
	}
	if c.args.Keep && c.CanKeep != nil {
		if err := c.CanKeep(); err != nil {
			return report.Mistakef("keep: no later client and no command could reach the job (%v). Leave keep out, or have a person change that.", err)
		}
	}
	return nil
}

// keeping returns a runner of code, which leaves a checkpoint if the call asks for one.
func (c *call) keeping(py engine.Session, run jobs.Runner) jobs.Runner {
	if c.args.Checkpoint {
		return py.WithCheckpoint(run)
	}
	return run
}

func (c *call) executeCommand(ctx context.Context) (*report.Reply, error) {
	if err := c.canKeep(); err != nil {
		return nil, err
	}
	spec := jobs.Spec{Kind: jobs.Shell, Session: c.args.ShellSession, Title: view.Title(c.args.Command), Code: c.args.Command}
	if c.place != "" {
		return c.mirror(ctx, "execute_command_async", spec)
	}
	dir, err := c.directory(c.args.Cwd)
	if err != nil {
		return nil, err
	}
	run, err := c.Backend.Shell(c.scope, engine.Command{
		Line:    c.args.Command,
		Dir:     dir,
		Env:     c.args.Env,
		TTY:     c.args.TTY == nil || *c.args.TTY,
		Session: c.args.ShellSession,
	})
	if err != nil {
		return nil, err
	}
	return c.execute(ctx, spec, run)
}

func (c *call) installPackage(ctx context.Context) (*report.Reply, error) {
	session := c.session()
	spec := jobs.Spec{Kind: jobs.Package, Session: session, Title: view.Title("install " + c.args.Package), Code: "install " + c.args.Package}
	if c.place != "" {
		return c.mirror(ctx, "install_package_async", spec)
	}
	install, made, err := c.Backend.Install(c.scope, session, c.args.Package)
	if err != nil {
		return nil, err
	}
	c.made, spec.Site = made, install.Site
	return c.execute(ctx, spec, install.Run)
}

// execute starts a job and waits for it during the grace.
func (c *call) execute(ctx context.Context, spec jobs.Spec, run jobs.Runner) (*report.Reply, error) {
	spec.Timeout, spec.Keep = c.scope.Timeout, c.args.Keep
	if spec.Keep && spec.Kind == jobs.Python && spec.Place == "" {
		c.Backend.Keep(spec.Session)
	}
	if c.args.Timeout != nil {
		spec.Timeout, spec.Spare = *c.args.Timeout, spec.Kind == jobs.Python
	}
	if c.as != "" {
		_, err := c.jobs.StartAs(c.as, spec, noting{run, c})
		return &report.Reply{}, err
	}
	j, err := c.jobs.Start(spec, run)
	if err != nil {
		return nil, err
	}
	c.changes.Changed()
	c.notices.Watch(j)
	until := time.Now().Add(startTime)
	c.awaitBy(ctx, j, c.scope.GraceTime(), func(ctx context.Context) error { return j.AwaitServing(ctx, jobs.ReaderTime, servingTime) })
	if record := j.Record(); record.Status == jobs.Queued && c.reporter.Ahead(record) == nil {
		start, cancel := context.WithDeadline(ctx, until)
		defer cancel()
		j.AwaitStart(start)
	}
	w := c.window(0)
	if spec.Place != "" {
		c.made = (c.made || c.again.Load()) && j.Record().Receipt.End != jobs.NotStarted // its place can have refused the session
		return c.reporter.Job(j, w), nil
	}
	if note := c.Backend.TakeNote(c.scope); note != "" {
		w.Line("Note", note)
	}
	if record := j.Record(); spec.Keep && spec.Kind == jobs.Python && c.Keep == KeepLonger && record.Status.Final() && record.Receipt.State == jobs.Kept {
		w.Line("Keep", keptSession)
	}
	return c.reporter.Job(j, w), nil
}

// A noting runner adds to the receipt what a reply of this engine would say of its Python environment. The reply is
// another engine's.
type noting struct {
	run jobs.Runner
	c   *call
}

// Queue implements jobs.Queuer.
func (n noting) Queue(p *jobs.Port) {
	if q, ok := n.run.(jobs.Queuer); ok {
		q.Queue(p)
	}
}

// Run implements jobs.Runner.
func (n noting) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	out := n.run.Run(ctx, p)
	if note := n.c.Backend.TakeNote(n.c.scope); note != "" {
		out.Receipt.Notes = append(out.Receipt.Notes, note)
	}
	return out
}

// startTime is how long a call that does not wait still waits for its job to start, if no other job
// is ahead of it. Without that its reply would always say queued.
const startTime = 50 * time.Millisecond

// servingTime is how long a job that listens must be quiet to count as a server that has started.
const servingTime = 200 * time.Millisecond

// await waits until the job ends or asks for input, for as long as the call says, or def. It does
// not say why it returned: the reply shows the state of the job.
func (c *call) await(ctx context.Context, j *jobs.Job, def time.Duration) {
	c.awaitBy(ctx, j, def, func(ctx context.Context) error { return j.AwaitReader(ctx, jobs.ReaderTime) })
}

// awaitBy is await with wait in place of Job.Await.
func (c *call) awaitBy(ctx context.Context, j *jobs.Job, def time.Duration, wait func(context.Context) error) {
	c.ticket.Pass()
	d := c.waitFor(def)
	if d <= 0 {
		return
	}
	defer c.progress.Start(ctx, d, func() delivery.Note { return delivery.NoteOf(j) })()
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	_ = wait(ctx)
}

// waitFor returns how long the call waits: its wait_seconds, or def.
func (c *call) waitFor(def time.Duration) time.Duration {
	if c.args.Wait != nil {
		return *c.args.Wait
	}
	return def
}

// directory returns the directory in which a command is to run, or "" if cwd is empty. A relative
// cwd starts in the workspace.
func (c *conn) directory(cwd string) (string, error) {
	if cwd == "" {
		return "", nil
	}
	dir := cwd
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(c.scope.Workspace, dir)
	}
	fi, err := os.Stat(dir)
	switch {
	case err != nil && os.IsNotExist(err):
		return "", report.Mistakef("cwd: there is no directory %s. Relative paths start in the workspace, %s.", report.OneLine(dir), report.OneLine(c.scope.Workspace))
	case err != nil:
		return "", report.Mistakef("cwd: %s can't be used: %v.", report.OneLine(dir), err)
	case !fi.IsDir():
		return "", report.Mistakef("cwd: %s is not a directory.", report.OneLine(dir))
	}
	return dir, nil
}
