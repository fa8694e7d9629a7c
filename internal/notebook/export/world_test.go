package export_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/files"
	"asyncrepl/internal/notebook/export"
	"asyncrepl/internal/output"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
	"asyncrepl/pyrepl"
)

// A program is what a job does.
type program func(p *jobs.Port) jobs.Outcome

// Run implements jobs.Runner.
func (f program) Run(_ context.Context, p *jobs.Port) jobs.Outcome {
	p.Begin()
	return f(p)
}

// A world is a session with its jobs.
type world struct {
	t   *testing.T
	src export.Source
	dir string

	outputs, displays int // the bytes that a notebook takes
}

func newWorld(t *testing.T) *world {
	return &world{outputs: 32 << 20, displays: 160 << 20, t: t, dir: t.TempDir(), src: export.Source{Session: "lab", Jobs: jobstest.Registry(t)}}
}

// workspace returns the directory of exports.
func (w *world) workspace() *files.Dir { return new(files.Store).Dir(w.dir) }

// run adds a job that has ended to the session.
func (w *world) run(code string, f program) jobs.Record {
	w.t.Helper()
	record := jobstest.End(w.t, jobstest.Start(w.t, w.src.Jobs, jobs.Spec{Kind: jobs.Python}, f))
	w.add(pyrepl.Entry{Job: record.ID, Work: pyrepl.Work{Code: code}, Receipt: record.Receipt, Ended: time.Now()})
	return record
}

func (w *world) add(e pyrepl.Entry) {
	if e.Lost == "" {
		e.Began = time.Now()
	}
	w.src.History.Entries = append(w.src.History.Entries, e)
}

// prints returns a program that writes texts, each to the stream of its first letter.
func prints(rec jobs.Receipt, texts ...string) program {
	return func(p *jobs.Port) jobs.Outcome {
		for _, text := range texts {
			p.Write(map[byte]output.Stream{'o': output.Stdout, 'e': output.Stderr, 't': output.TTY}[text[0]], []byte(text[1:]))
		}
		return jobs.Outcome{Receipt: rec}
	}
}

// A cell is a cell of a notebook, as a test reads it.
type cell struct {
	ID      string
	Source  []string
	Count   *int `json:"execution_count"`
	Outputs []struct {
		Type      string `json:"output_type"`
		Name      string
		Text      []string
		Ename     string
		Evalue    string
		Traceback []string
		Data      map[string]any
	}
	Metadata struct {
		Title string `json:"async_repl"`
	}
}

// cells exports the session and returns the cells.
func (w *world) cells() []cell {
	w.t.Helper()
	if _, err := w.src.SaveWithin(w.workspace(), "x.ipynb", w.outputs, w.displays); err != nil {
		w.t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(w.dir, "x.ipynb"))
	if err != nil {
		w.t.Fatal(err)
	}
	var doc struct{ Cells []cell }
	if err := json.Unmarshal(raw, &doc); err != nil {
		w.t.Fatal(err)
	}
	return doc.Cells
}

// text returns the outputs of a cell in short, a line each.
func (c *cell) text() string {
	var b strings.Builder
	for _, o := range c.Outputs {
		switch o.Type {
		case "stream":
			fmt.Fprintf(&b, "%s %q\n", o.Name, strings.Join(o.Text, ""))
		case "error":
			fmt.Fprintf(&b, "error %q: %q, %q\n", o.Ename, o.Evalue, strings.Join(o.Traceback, "|"))
		default:
			data, _ := json.Marshal(o.Data) // in the order of the types
			fmt.Fprintf(&b, "%s %s\n", o.Type, data)
		}
	}
	return b.String()
}

// want compares the outputs of the last cell.
func (w *world) want(outputs ...string) {
	w.t.Helper()
	all := w.cells()
	if want, got := strings.Join(outputs, "\n")+"\n", all[len(all)-1].text(); got != want {
		w.t.Errorf("got %.5000s\nwant %s", got, want)
	}
}

func raised(detail string) jobs.Receipt { return jobs.Receipt{End: jobs.Raised, Detail: detail} }
