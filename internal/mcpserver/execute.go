package mcpserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"asyncrepl/internal/report"
	"asyncrepl/internal/view"
	"asyncrepl/jobs"
)

// titleLen bounds the line by which a list shows a job.
const titleLen = 100

func (c *conn) executePython(ctx context.Context, a *args) (*report.Reply, error) {
	session := c.session(a)
	py, err := c.Runners.Python(c.scope, session)
	if err != nil {
		return nil, err
	}
	return c.execute(ctx, a, jobs.Spec{Kind: jobs.Python, Session: session, Title: title(a.code)}, py.Exec(a.code))
}

func (c *conn) executeCommand(ctx context.Context, a *args) (*report.Reply, error) {
	dir, err := c.directory(a.cwd)
	if err != nil {
		return nil, err
	}
	run, err := c.Runners.Shell(c.scope, ShellRequest{
		Command: a.command,
		Dir:     dir,
		Env:     a.env,
		TTY:     a.tty == nil || *a.tty,
	})
	if err != nil {
		return nil, err
	}
	return c.execute(ctx, a, jobs.Spec{Kind: jobs.Shell, Title: title(a.command)}, run)
}

func (c *conn) installPackage(ctx context.Context, a *args) (*report.Reply, error) {
	session := c.session(a)
	run, err := c.Runners.Install(c.scope, session, a.packages)
	if err != nil {
		return nil, err
	}
	return c.execute(ctx, a, jobs.Spec{Kind: jobs.Package, Session: session, Title: title("install " + a.packages)}, run)
}

// execute starts a job and waits its grace.
func (c *conn) execute(ctx context.Context, a *args, spec jobs.Spec, run jobs.Runner) (*report.Reply, error) {
	spec.Tenant, spec.Timeout = c.scope.Tenant, c.Timeout
	if a.timeout != nil {
		spec.Timeout = *a.timeout
	}
	j, err := c.Jobs.Start(spec, run)
	if err != nil {
		return nil, err
	}
	a.follow(j)
	c.await(ctx, a, j, c.grace())
	return c.reporter().Job(j, a.window(0)), nil
}

// await waits for the job to end or to ask: as long as the call says, or def.
// Why it returned is to be seen in the job; a wait that is cut short is answered
// like one that is over.
func (c *conn) await(ctx context.Context, a *args, j *jobs.Job, def time.Duration) {
	a.turn.pass()
	d := a.waitFor(def)
	if d <= 0 {
		return
	}
	defer a.teller.start(ctx, d, func() string { return c.reporter().Progress(j) })()
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	_ = j.Await(ctx)
}

// waitFor is how long the call waits, def where it doesn't say.
func (a *args) waitFor(def time.Duration) time.Duration {
	if a.wait != nil {
		return *a.wait
	}
	return def
}

// session is the Python session that the call means.
func (c *conn) session(a *args) string {
	if a.session != "" {
		return a.session
	}
	return c.scope.session()
}

// directory is where a command is to run: cwd, from the workspace on.
func (c *conn) directory(cwd string) (string, error) {
	if cwd == "" {
		return c.scope.Workspace, nil
	}
	dir := cwd
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(c.scope.Workspace, dir)
	}
	fi, err := os.Stat(dir)
	switch {
	case err != nil && os.IsNotExist(err):
		return "", mistakef("cwd: there is no directory %s. Relative paths start in the workspace, %s.", report.OneLine(dir), report.OneLine(c.scope.Workspace))
	case err != nil:
		return "", mistakef("cwd: %s can't be used: %v.", report.OneLine(dir), err)
	case !fi.IsDir():
		return "", mistakef("cwd: %s is not a directory.", report.OneLine(dir))
	}
	return dir, nil
}

// title is the first line of s that says something, for lists.
func title(s string) string {
	s = strings.TrimSpace(s)
	first, rest, _ := strings.Cut(s, "\n")
	first = strings.TrimRight(first, " \t\r")
	if r := []rune(first); len(r) > titleLen {
		return string(r[:titleLen-1]) + "…"
	}
	if rest != "" {
		return first + " …"
	}
	return first
}

func (c *conn) listVariables(ctx context.Context, a *args) (*report.Reply, error) {
	session := c.session(a)
	py, err := c.Runners.Python(c.scope, session)
	if err != nil {
		return nil, err
	}
	a.turn.pass()
	vars, err := py.Variables(ctx)
	if err != nil {
		return nil, err
	}
	asOf := ""
	if vars.Busy != "" {
		asOf = fmt.Sprintf("before job %s, with which the session is busy", vars.Busy)
		if vars.AsOf != "" {
			asOf = fmt.Sprintf("job %s; the session is busy with job %s", vars.AsOf, vars.Busy)
		}
	}
	if len(vars.Vars) == 0 && vars.Total == 0 {
		if vars.Busy != "" {
			return report.Textf("No variables are known in session %s yet; it is busy with job %s.", session, vars.Busy), nil
		}
		return report.Textf("No variables in session %s.", session), nil
	}
	r := &report.Reply{}
	r.Line("Session", session)
	r.Line("Variables", view.Count(vars.Total))
	if asOf != "" {
		r.Line("As of", asOf)
	}
	shown := 0
	var list strings.Builder
	for _, v := range vars.Vars {
		line := variableLine(v) + "\n"
		if list.Len()+len(line) > defaultText { // bytes: an upper bound of the characters
			break
		}
		list.WriteString(line)
		shown++
	}
	if left := vars.Total - shown; left > 0 {
		r.Line("Omitted", view.Count(left)+" variables")
	}
	r.Body(list.String())
	return r, nil
}

func variableLine(v Variable) string {
	s := report.OneLine(v.Name)
	if v.Type != "" {
		s += ": " + report.OneLine(v.Type)
	}
	switch {
	case v.Value != "":
		s += " = " + report.OneLine(v.Value)
	case v.Size > 0:
		s += ", " + view.Count(v.Size) + " bytes"
	}
	return s
}

// endedMax is how many of the jobs that a restart ended its reply shows.
const endedMax = 20

// restartPython ends a session's worker. A restart that has been asked for is
// finished whatever becomes of the call: half of one would leave a session that
// nobody asked for.
func (c *conn) restartPython(ctx context.Context, a *args) (*report.Reply, error) {
	session := c.session(a)
	py, err := c.Runners.Python(c.scope, session)
	if err != nil {
		return nil, err
	}
	ended := c.Jobs.List(c.scope.Tenant, jobs.Filter{
		Session: session,
		Status:  []jobs.Status{jobs.Queued, jobs.Running, jobs.WaitingInput},
	})
	ended = slices.DeleteFunc(ended, func(info jobs.Info) bool { return info.Kind != jobs.Python })
	wait, err := py.Restart(jobs.Agent)
	if err != nil {
		return nil, err
	}
	a.turn.pass()
	defer a.teller.start(ctx, 0, func() string { return "restarting session " + session })()
	had, survivors, err := wait(ctx)
	if err != nil {
		return nil, fmt.Errorf("the restart of session %s has been asked for and goes on", session)
	}
	r := &report.Reply{}
	r.Line("Session", session)
	if had {
		r.Line("Restarted", "yes; all variables are lost, the next execute starts a new Python")
	} else {
		r.Line("Restarted", "no Python was running; the next execute starts one")
	}
	ended = c.ends(ctx, ended)
	for _, info := range ended[:min(endedMax, len(ended))] {
		a.shows(info)
		if info.Status.Final() {
			r.Line("Ended", c.reporter().Line(info))
		} else {
			r.Line("Still ending", c.reporter().Line(info))
		}
	}
	if left := len(ended) - endedMax; left > 0 {
		r.Line("More", fmt.Sprintf("%d jobs: list_jobs with session=%s", left, session))
	}
	r.Processes("Survivors", survivors, "")
	return r, nil
}

// ends waits, for the grace, until the jobs of a worker that has ended are final,
// and tells how they are then: they end a little later than it does.
func (c *conn) ends(ctx context.Context, list []jobs.Info) []jobs.Info {
	ctx, cancel := context.WithTimeout(ctx, c.grace())
	defer cancel()
	for i := range list {
		j, err := c.Jobs.Get(c.scope.Tenant, list[i].ID)
		if err != nil {
			continue // forgotten meanwhile
		}
		select {
		case <-j.Done():
		case <-ctx.Done():
		}
		list[i] = j.Info()
	}
	return list
}
