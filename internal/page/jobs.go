//go:build unix

package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
	"asyncrepl/jobs/display"
)

// A Brief is a job in the list.
type Brief struct {
	ID         string      `json:"id"`
	Kind       jobs.Kind   `json:"kind"`
	Title      string      `json:"title"`
	Session    string      `json:"session,omitempty"`
	Place      string      `json:"place,omitempty"` // where it runs; empty: here
	Status     jobs.Status `json:"status"`
	StatusText string      `json:"status_text"`    // the status with its reason
	Past       bool        `json:"past,omitempty"` // an earlier server ran it
	Created    time.Time   `json:"created"`
	Started    time.Time   `json:"started,omitzero"`
	Ended      time.Time   `json:"ended,omitzero"`
	Question   *Question   `json:"question,omitempty"` // the input that it waits for
	Away                   // about the way to Place
	Server     string      `json:"server,omitempty"` // set on a page over several servers
}

// An Away is what is known of the way to the place of a job that has not ended, in the words of replies.
type Away struct {
	Where  string `json:"where,omitempty"`  // more about the place: Slurm job 812, node n2
	Link   string `json:"link,omitempty"`   // what is wrong with the link
	Queued string `json:"queued,omitempty"` // what the job waits for there
}

// away returns what is known of the way to the place of a job. It is zero for a job that runs here.
func (a *api) away(j *jobs.Job) Away {
	link := report.LinkOf(j.Live())
	return Away{view.Line(link.Where, briefMax), view.Line(a.reporter.LinkText(link), briefMax), view.Line(link.Queued, briefMax)}
}

// A Question is the input that a job waits for.
type Question struct {
	Kind   string `json:"kind"` // line, secret or key
	Prompt string `json:"prompt"`
	By     string `json:"by"` // the program that asks
}

// briefMax bounds each text of a brief, in characters, so that a message of briefs has a bound.
const briefMax = 150

func (a *api) brief(record jobs.Record) Brief {
	b := Brief{
		ID: record.ID, Kind: record.Kind, Title: view.Line(record.Title, briefMax), Session: view.Line(record.Session, briefMax), Place: view.Line(record.Place, briefMax),
		Status: record.Status, StatusText: view.Line(report.StatusText(record), briefMax),
		Past: record.Status.Final() && a.jobs.Lookup(record.ID) == nil, Created: record.Created.UTC(), Started: record.Started.UTC(), Ended: record.Ended.UTC(),
	}
	if j := a.jobs.Lookup(record.ID); record.Place != "" && j != nil {
		b.Away = a.away(j)
	}
	if q := record.Question; record.Asks() && q != nil {
		b.Question = &Question{q.Kind, view.Line(q.Prompt, briefMax), view.Line(q.By, briefMax)}
	}
	return b
}

// The most jobs that a request for the list gets, unless it says how many, and at all.
const (
	usualList = 300
	mostList  = 1000
)

func (a *api) serveList(w http.ResponseWriter, r *http.Request) {
	asked := r.URL.Query()
	filter := jobs.Filter{Session: asked.Get("session"), Before: asked.Get("before"), Limit: usualList}
	if s := asked.Get("status"); s != "" {
		filter.Status = []jobs.Status{jobs.Status(s)}
		if !slices.Contains(jobs.Statuses, filter.Status[0]) {
			refuse(w, http.StatusBadRequest, "status must be one of: %s.", strings.Trim(fmt.Sprint(jobs.Statuses), "[]"))
			return
		}
	}
	if s := asked.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > mostList {
			refuse(w, http.StatusBadRequest, "limit must be a number from 1 to %d.", mostList)
			return
		}
		filter.Limit = n
	}
	list := []Brief{}
	for _, record := range a.jobs.List(filter) {
		list = append(list, a.brief(record))
	}
	answer(w, map[string]any{"jobs": list})
}

// A Document is all about a job: what job:// has, and what only a page shows.
type Document struct {
	*report.Document
	// Code is what the job runs, if Title is not all of it: its first 16 KiB. CodeBytes is the length of
	// all of it.
	Code      string `json:"code,omitempty"`
	CodeBytes int    `json:"code_bytes,omitempty"`
	// Rows and Columns are the size of its terminal. They are 0 if it has none.
	Rows     int       `json:"rows,omitempty"`
	Columns  int       `json:"columns,omitempty"`
	Answered *Answered `json:"answered,omitempty"`
	Displays []Shown   `json:"displays,omitempty"`
	Streams  []Stretch `json:"streams,omitempty"` // of the newest output; only an answer of /api/jobs/ID has them
	Server   string    `json:"server,omitempty"`  // set on a page over several servers
}

// A Stretch is a range of the output that came by one stream.
type Stretch struct {
	Stream string `json:"stream"`
	From   int64  `json:"cursor"`
	To     int64  `json:"cursor_end"`
}

// An Answered says who has typed something for a job last, and when, but never what.
type Answered struct {
	By jobs.By   `json:"by"`
	At time.Time `json:"at"`
}

// A Shown is a display.
type Shown struct {
	Number int    `json:"number"`
	Label  string `json:"label"` // what it is, in words
	MIME   string `json:"mime_type"`
	Served string `json:"served_type,omitempty"` // the type by which it can be shown; empty: it is a download
	Size   int    `json:"size"`
	From   int64  `json:"cursor"` // the range of its line in the output; empty: at its place
	To     int64  `json:"cursor_end"`
}

func (a *api) document(j *jobs.Job) Document {
	record := j.Record()
	list := j.Displays()
	d := Document{Document: a.reporter.Document(record, j.Live(), list, j.Log()), Code: record.Code, CodeBytes: record.CodeBytes}
	if record.Code == "" && record.CodeBytes == 0 {
		d.Code = record.Title
	}
	if record.Terminal != nil {
		d.Rows, d.Columns = record.Terminal.Rows, record.Terminal.Cols
	}
	if !record.Answered.IsZero() {
		d.Answered = &Answered{jobs.Person, record.Answered.UTC()}
	}
	for _, each := range list {
		form := best(each)
		d.Displays = append(d.Displays, Shown{each.Number, each.Title, form.MIME, display.Served(form.MIME), form.Size, each.Line.From, each.Line.To})
	}
	return d
}

func (a *api) serveJob(w http.ResponseWriter, _ *http.Request, j *jobs.Job) {
	d := a.document(j)
	d.Streams = stretches(j.Log())
	answer(w, d)
}

// A session shows stretchedBytes of the output of a job that has ended, in stretchesMax stretches at most.
const (
	stretchedBytes = 64 << 10
	stretchesMax   = 1000
)

// stretches returns the stretches of the newest output, without gaps and up to its end.
func stretches(log output.Reader) (list []Stretch) {
	b, end := make([]byte, stretchedBytes), log.Stat().End
	for at := max(0, end-stretchedBytes); at < end; {
		c := log.ReadInto(at, b)
		if c.Dropped > 0 {
			list = nil
		}
		if at = c.From; c.Next <= at {
			break
		}
		for _, s := range c.Spans {
			list = append(list, Stretch{s.Stream.String(), at, at + int64(len(s.Data))})
			at += int64(len(s.Data))
		}
	}
	return list[max(0, len(list)-stretchesMax):]
}

// serveOutput sends what a job has written so far, from a cursor on, as a download.
func (a *api) serveOutput(w http.ResponseWriter, r *http.Request, j *jobs.Job) {
	log, at := j.Log(), int64(0)
	end := log.Stat().End
	if s := r.URL.Query().Get("cursor"); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 || n > end {
			refuse(w, http.StatusBadRequest, "cursor must be a number from 0 to %d, the end of the output.", end)
			return
		}
		at = n
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="%s.log"`, j.ID()))
	for b := make([]byte, writeSize); at < end; {
		chunk := log.ReadInto(at, b[:min(int64(len(b)), end-at)])
		for _, s := range chunk.Spans {
			if _, err := w.Write(s.Data); err != nil {
				return
			}
		}
		if chunk.Next == at {
			return
		}
		at = chunk.Next
	}
}

// best returns the form of a display that a page shows: the last picture, else the last that can be shown.
func best(d jobs.Display) jobs.Form {
	form := d.Forms[len(d.Forms)-1]
	for _, f := range d.Forms {
		if display.Served(f.MIME) != "" && (strings.HasPrefix(f.MIME, "image/") || display.Served(form.MIME) == "") {
			form = f
		}
	}
	return form
}

// Display sets the headers of an answer that is a display of some type. A browser runs nothing of it, and
// saves what it can't show as a file of that name.
func Display(h http.Header, mimeType, name string) {
	Protect(h)
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'")
	if served := display.Served(mimeType); served != "" {
		h.Set("Content-Type", served)
		return
	}
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", name))
}

// extensions are those of files that are downloaded, by their types. Others have none.
var extensions = map[string]string{
	"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "image/svg+xml": ".svg",
	"text/html": ".html", "text/plain": ".txt", "text/markdown": ".md", "application/json": ".json", "application/pdf": ".pdf",
	"application/vnd.plotly.v1+json": ".json",
}

// serveDisplay sends a display in the form that a page shows or, with download, in full size as a file.
func (a *api) serveDisplay(w http.ResponseWriter, r *http.Request, j *jobs.Job) {
	n, err := strconv.Atoi(r.PathValue("n"))
	list := j.Displays()
	i := slices.IndexFunc(list, func(d jobs.Display) bool { return err == nil && d.Number == n })
	if i < 0 {
		refuse(w, http.StatusNotFound, "Job %s has no display %s, or has replaced it.", j.ID(), report.OneLine(r.PathValue("n")))
		return
	}
	form := best(list[i])
	saved := r.URL.Query().Has("download")
	if saved {
		form = list[i].Forms[len(list[i].Forms)-1]
	}
	data, err := j.Data(form)
	if err != nil {
		refuse(w, http.StatusGone, "The data of display %d of job %s can't be read any more: %v.", n, j.ID(), err)
		return
	}
	base, _, _ := strings.Cut(form.MIME, ";")
	name, kind := fmt.Sprintf("%s-%d%s", j.ID(), n, extensions[base]), form.MIME
	if saved {
		kind = ""
	}
	Display(w.Header(), kind, name)
	w.Write(data)
}

// answerMax bounds what is typed at once, in bytes.
const answerMax = 64 << 10

const tooLong = "An answer can have 64 KiB at most; nothing was sent."

func (a *api) takeInput(w http.ResponseWriter, r *http.Request, j *jobs.Job) {
	var in struct {
		Text   string `json:"text"`
		Secret bool   `json:"secret"`
		EOF    bool   `json:"eof"`
	}
	if !decode(w, r, &in) {
		return
	}
	if len(in.Text) > answerMax {
		refuse(w, http.StatusRequestEntityTooLarge, tooLong)
		return
	}
	if why := a.typeFor(r.Context(), j, jobs.Input{Text: in.Text, Secret: in.Secret, EOF: in.EOF}); why != "" {
		refuse(w, http.StatusConflict, "%s", why)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// deliverTime is how long a program has to take what was typed before.
const deliverTime = 2 * time.Second

// typeFor types something for a job, and returns why it could not. A question of Python gets a line.
func (a *api) typeFor(ctx context.Context, j *jobs.Job, in jobs.Input) (why string) {
	ctx, cancel := context.WithTimeout(ctx, deliverTime)
	defer cancel()
	record := j.Record()
	in.By = jobs.Person
	if record.Kind == jobs.Python {
		in.Text, in.Line = strings.TrimSuffix(in.Text, "\n"), in.Text != "" || !in.EOF
		if strings.Contains(in.Text, "\n") {
			return "An answer to Python is one line; nothing was sent."
		}
	}
	if q := record.Question; q != nil && q.Kind == "secret" {
		in.Secret = true
	}
	if !in.Types() {
		return "There is nothing to send."
	}
	_, err := j.Send(ctx, in)
	if errors.Is(err, jobs.ErrEnded) {
		j.Await(ctx) // so that the reason can say how it has ended
	}
	switch {
	case err == nil:
		return ""
	case errors.Is(err, jobs.ErrEnded):
		return fmt.Sprintf("Job %s has ended: %s. Nothing was sent.", j.ID(), report.StatusText(j.Record()))
	case errors.Is(err, jobs.ErrNotReading):
		return fmt.Sprintf("Job %s does not wait for input (%s). Nothing was sent.", j.ID(), report.StatusText(j.Record()))
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("Job %s has not taken yet what was sent before. Nothing was sent.", j.ID())
	}
	return report.OneLine(err.Error())
}

// remainsStep is the time between the rungs for processes that an ended job left running.
const remainsStep = time.Second

// cancel asks a job to stop, and does not wait for that. If the job has ended, it ends what the job left
// running. Only force costs a Python session its variables.
func (a *api) cancel(w http.ResponseWriter, r *http.Request, j *jobs.Job) {
	var in struct {
		Force bool `json:"force"`
	}
	if !decode(w, r, &in) {
		return
	}
	record := j.Record()
	st := jobs.Stop{By: jobs.Person, From: jobs.Interrupt, Spare: record.Kind == jobs.Python}
	if record.Status.Final() {
		st = jobs.Stop{By: jobs.Person, From: jobs.Terminate, Step: remainsStep}
	}
	if in.Force {
		st.From, st.Spare = jobs.Kill, false
	}
	if !record.Status.Final() {
		j.Stop(st)
	} else {
		soon, cancel := context.WithTimeout(r.Context(), deliverTime)
		defer cancel()
		if _, found := j.Cleanup(soon, st); !found {
			left := "Nothing of it is running"
			if record.Receipt.Unseen() {
				left = "Nothing of it can be ended from here"
			}
			refuse(w, http.StatusConflict, "Job %s has ended: %s. %s.", j.ID(), report.StatusText(record), left)
			return
		}
	}
	w.WriteHeader(http.StatusAccepted)
}
