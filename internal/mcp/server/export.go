package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"asyncrepl/internal/notebook/export"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/text/view"
)

func (c *call) exportSession(_ context.Context) (*report.Reply, error) {
	session := c.session()
	py, err := c.Backend.Session(session)
	if err != nil {
		return nil, err
	}
	c.ticket.Pass()
	src := export.Source{Session: session, History: py.History(), Jobs: c.jobs}
	if len(src.History.Entries) == 0 {
		return nil, fmt.Errorf("session %s has not run anything yet", session)
	}
	saved, err := src.Save(c.Files.Dir(c.scope.Workspace), c.args.Path, c.args.Overwrite != nil && *c.args.Overwrite)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%w; overwrite=true replaces it", err)
	}
	if err != nil {
		return nil, err
	}
	r := &report.Reply{}
	r.Line("Session", session)
	exported := fmt.Sprintf("%s, %s, %s", report.OneLine(saved.Path), view.CountOf(saved.Cells, "cell"), view.CountOf(saved.Bytes, "byte"))
	if saved.Replaced {
		exported += ", in place of an earlier file"
	}
	r.Line("Exported", exported)
	if saved.Dropped > 0 {
		r.Line("Note", "left out before these: "+view.CountOf(saved.Dropped, "job")+", whose code the session no longer keeps")
	}
	return r, nil
}
