package server

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/delivery"
	"asyncrepl/internal/reply/overview"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

func (c *call) createSession(ctx context.Context) (*report.Reply, error) {
	if c.args.FromSession != "" {
		return c.branch(ctx)
	}
	spec := engine.SessionSpec{Name: c.args.Name, Env: c.args.Env, Python: c.args.Python, Venv: c.args.Venv, Packages: c.args.Packages}
	if c.args.MemoryMB != nil {
		spec.MemoryMB = int(*c.args.MemoryMB)
	}
	if c.args.Cwd != "" {
		dir, err := c.directory(c.args.Cwd)
		if err != nil {
			return nil, err
		}
		spec.Dir = dir
	}
	status, install, err := c.Backend.Create(ctx, c.scope, spec)
	if err != nil {
		return nil, err
	}
	r := &report.Reply{}
	r.Line("Session", "new")
	if install != nil {
		j, err := c.installFirst(spec, install)
		if err != nil {
			return nil, err
		}
		r.Line("Installing", "job "+j.ID()+"; the first jobs of the session wait for it")
	}
	r.Body(status.String() + "\n")
	return r, nil
}

// branch makes a session that continues with the variables of another one.
func (c *call) branch(ctx context.Context) (*report.Reply, error) {
	from := c.args.FromSession
	if c.args.Python+c.args.Venv+c.args.Packages+c.args.Cwd != "" || c.args.Env != nil || c.args.MemoryMB != nil {
		return nil, report.Mistakef("from_session continues with the Python of session %s and all its settings: leave out python, venv, packages, cwd, env and memory_mb.", from)
	}
	c.ticket.Pass()
	defer c.progress.Start(ctx, 0, func() delivery.Note { return delivery.Note{Line: "waiting for session " + from} })()
	limited, cancel := context.WithTimeout(ctx, c.scope.GraceTime())
	defer cancel()
	status, shared, err := c.Backend.Branch(limited, from, c.args.Name)
	if err != nil {
		return nil, err
	}
	return overview.Branch(status, shared), nil
}

// installFirst starts the install of a new session's packages. If that is refused, the session is
// deleted.
func (c *call) installFirst(spec engine.SessionSpec, install *engine.Install) (*jobs.Job, error) {
	j, err := c.jobs.Start(jobs.Spec{
		Timeout: c.scope.Timeout,
		Kind:    jobs.Package, Session: spec.Name, Title: view.Title("install " + spec.Packages), Code: "install " + spec.Packages, Site: install.Site, Holds: true,
	}, install.Run)
	if err != nil {
		c.Backend.Delete(spec.Name, c.By, "create_session") // an error: it is gone already
		return nil, err
	}
	c.changes.Changed()
	c.notices.Watch(j)
	c.notices.Shows(j.Record())
	return j, nil
}

func (c *call) listSessions(ctx context.Context) (*report.Reply, error) {
	c.ticket.Pass()
	list, limit := c.Backend.Sessions()
	return overview.Sessions(list, limit, c.replyChars()-headRoom, c.listPlaces(ctx)), nil
}

// deleteSession ends a session. An end that has begun is completed even if the call is cancelled.
func (c *call) deleteSession(ctx context.Context) (*report.Reply, error) {
	session := c.session()
	ended := c.unended(session)
	wait, kept, err := c.Backend.Delete(session, c.By, "delete_session")
	if err != nil {
		return nil, err
	}
	c.ticket.Pass()
	defer c.progress.Start(ctx, 0, func() delivery.Note { return delivery.Note{Line: "ending session " + session} })()
	end, err := wait(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("session %s is deleted; the end of its Python continues", session)
	}
	r := &report.Reply{}
	r.Line("Session", session)
	if end.Had {
		r.Line("Deleted", "yes; all variables are lost")
	} else {
		r.Line("Deleted", "yes; no Python was running")
	}
	if dir := kept(); dir != "" {
		r.Line("Kept", dir+", the environment of the session")
	}
	c.showEnd(ctx, r, session, ended, end, err)
	return r, nil
}

// unended returns the jobs that have not ended and that the end of a session's Python ends: those
// of Python, and the install that they wait for.
func (c *call) unended(session string) []jobs.Record {
	list := c.jobs.List(jobs.Filter{
		Session: session,
		Status:  []jobs.Status{jobs.Queued, jobs.Running, jobs.WaitingInput},
	})
	return slices.DeleteFunc(list, func(record jobs.Record) bool { return record.Kind != jobs.Python && !record.Holds })
}

// exists returns an error if there is no session of that name, neither here nor at a place. The session
// of calls that name none always exists.
func (c *call) exists(session string) error {
	if c.Places != nil && c.Places.Of(jobs.Python, session) != "" {
		return nil
	}
	_, err := c.Backend.Session(session)
	return c.absent(err)
}

// absent returns the error of a call for a session that does not exist. It returns nil if that is
// the session of calls that name none: nothing has been asked of it yet.
func (c *call) absent(err error) error {
	if no, ok := errors.AsType[*engine.NoSessionError](err); ok && no.Name == c.scope.SessionName("") {
		return nil
	}
	return err
}
