package worker

import (
	"errors"

	"asyncrepl/internal/output"
	"asyncrepl/jobs/display"
)

// A displayEvent shows something, or replaces what was shown. The data of a form is in the event,
// or else in a file: the files come in the order of the forms without data.
//
// The files are open until the line of the display has its place in the output. A worker that sends
// the end of a pipe after them, and waits until all its holders have closed it, prints nothing
// before the display has its place.
type displayEvent struct {
	aboutJob
	Label string        `json:"label"` // figure 1
	About string        `json:"about"` // PNG 640x480
	Items []displayItem `json:"items"`
	Clear string        `json:"clear"` // erases the job's displays: "now", or "wait" for the next
	Quiet bool          `json:"quiet"` // no line stands for it: other output says the same
	Left  int           `json:"left"`  // displays that the limits kept back until it is replaced

	files []int
}

// A displayItem is a form of a display.
type displayItem struct {
	MIME string `json:"mime"`
	Size int    `json:"size"`
	Data []byte `json:"data"` // nil: the data is in a file
}

var errMalformed = errors.New("malformed display")

// forms reads the data of the event.
func (e displayEvent) forms() (forms []display.Form, err error) {
	if len(e.Items) > display.MaxForms {
		return nil, errMalformed
	}
	files := e.files
	for _, item := range e.Items {
		data := item.Data
		if data == nil {
			if len(files) == 0 || item.Size < 0 || item.Size > display.MaxForm {
				return nil, errMalformed
			}
			if data, err = readFile(files[0], item.Size); err != nil {
				return nil, err
			}
			files = files[1:]
		}
		forms = append(forms, display.Form{MIME: item.MIME, Data: data})
	}
	return forms, nil
}

// show adds a display to the output of the running job, or of the last one, after everything that
// has been printed, or replaces that.
func (w *Worker) show(ev displayEvent) {
	sink := w.sinkOf(ev.ID)
	if sink == nil {
		return
	}
	if ev.Clear != "" {
		w.Drain()
		sink.Leave(ev.Left)
		sink.Clear(ev.Clear == "wait")
		return
	}
	forms, err := ev.forms()
	if err != nil {
		sink.Leave(1)
		return
	}
	w.Drain()
	if ev.Quiet {
		sink.AddQuietly(ev.Label, ev.About, forms)
	} else {
		sink.Add(ev.Label, ev.About, forms)
	}
	w.mu.Lock()
	p := w.port
	w.mu.Unlock()
	w.printed(p, output.Stdout)
}

// sinkOf returns the sink of the job with that id, if it runs or is the last one, and nil
// otherwise.
func (w *Worker) sinkOf(id string) *display.Sink {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.port.ID() != id {
		return nil
	}
	if w.sink == nil || w.sink.JobID() != id {
		w.sink = display.NewSink(w.port)
	}
	return w.sink
}

// leave counts n displays of a job that the worker has left out.
func (w *Worker) leave(job string, n int) {
	if n <= 0 {
		return
	}
	if sink := w.sinkOf(job); sink != nil {
		sink.Leave(n)
	}
}

// LeftOut says how many displays of the job with that id were left out. It returns the empty string
// if none was.
func (w *Worker) LeftOut(id string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sink == nil || w.sink.JobID() != id {
		return ""
	}
	return w.sink.Note()
}
