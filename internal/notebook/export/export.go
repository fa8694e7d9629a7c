package export

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"asyncrepl/internal/files"
	"asyncrepl/internal/notebook"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
	"asyncrepl/pyrepl"
)

// A Saved describes the file that Save has written.
type Saved struct {
	Path     string // the absolute path
	Bytes    int    // the size of the file
	Replaced bool   // Save replaced an older file
	Cells    int    // the number of cells, both code and text
	Dropped  int    // how many jobs are left out because the session no longer keeps their code
}

// A Source is a session whose history Save writes.
type Source struct {
	Session string
	History pyrepl.History
	Jobs    *jobs.Registry
}

// Save writes what a session ran to a file of the workspace, in the format of the file's extension. If
// there is one, it is replaced if overwrite is true; else the error is fs.ErrExist.
func (s *Source) Save(workspace *files.Dir, path string, overwrite bool) (Saved, error) {
	return s.save(workspace, path, overwrite, room{outputs: maxOutputs, displays: maxDisplays})
}

func (s *Source) save(workspace *files.Dir, path string, overwrite bool, left room) (Saved, error) {
	ext := filepath.Ext(path)
	if ext != notebook.Jupyter && ext != notebook.Script {
		return Saved{}, errors.New("the path must end in .ipynb, for a Jupyter notebook, or in .py")
	}
	outputs := ext == notebook.Jupyter // a script has none
	n := notebook.Notebook{Session: s.Session}
	saved := Saved{Dropped: s.History.Dropped}
	if saved.Dropped > 0 {
		n.Cells = append(n.Cells, notebook.Cell{ID: "dropped", Text: fmt.Sprintf(
			"Left out before these: %s, whose code the session no longer keeps.", view.CountOf(saved.Dropped, "job"))})
	}
	count := 0
	for i, e := range s.History.Entries {
		if e.Lost != "" {
			n.Cells = append(n.Cells, notebook.Cell{ID: fmt.Sprintf("lost-%d", i+1), Text: "**" + e.Lost + "**"})
			count = 0
			continue
		}
		cell, ok := cell(&e, !outputs)
		if !ok {
			continue
		}
		cell.Title = title(&e)
		if !e.Ended.IsZero() {
			count++
			cell.Count = count
		}
		if outputs && e.Work.Request == nil { // the answer to a request is no output of the code
			cell.Outputs = s.outputs(&e, &left)
		}
		n.Cells = append(n.Cells, cell)
	}
	saved.Cells = len(n.Cells)
	b, err := n.Encode(ext)
	if err != nil {
		return Saved{}, err
	}
	w := files.Write{Content: bytes.NewReader(b), Limit: int64(len(b))}
	if !overwrite {
		w.Check = files.Fresh
	}
	written, err := workspace.Write(path, w)
	saved.Path, saved.Bytes, saved.Replaced = workspace.Abs(path), len(b), written.Replaced
	return saved, err
}

// title says in one line which job a cell was, and how it ended.
func title(e *pyrepl.Entry) string {
	if e.Ended.IsZero() {
		return "job " + e.Job + ": still running"
	}
	return fmt.Sprintf("job %s: %s, %v", e.Job, e.Receipt.Text(), e.Ended.Sub(e.Began).Round(time.Millisecond))
}

// outputs returns the outputs of a job that fit into left, and for a job that has failed also an
// error output.
func (s *Source) outputs(e *pyrepl.Entry, left *room) (list []notebook.Output) {
	j := s.Jobs.Lookup(e.Job)
	if j == nil {
		list = []notebook.Output{note("the output of this job is gone: the server no longer keeps the job")}
	} else {
		r := reading{job: j, displays: j.Displays(), answers: j.Answers(), markdown: e.Markdown, room: left}
		list = r.all()
	}
	if e.Ended.IsZero() || e.Receipt.Status() == jobs.Completed {
		return list
	}
	name, text := string(e.Receipt.Status()), e.Receipt.Text()
	if e.Receipt.End == jobs.Raised {
		name, text, _ = strings.Cut(e.Receipt.Detail, ": ")
		if list, ok := withError(list, name, text); ok {
			return list
		}
	}
	return append(list, notebook.Output{Name: name, Text: text, Traceback: []string{e.Receipt.Text()}})
}
