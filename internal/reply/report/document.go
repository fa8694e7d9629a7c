package report

import (
	"cmp"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/text/progress"
	"asyncrepl/jobs"
	"asyncrepl/jobs/display"
)

// A Document is a job in JSON, as programs read it from the resource job://{id}. Fields without
// information are left out. Times are RFC 3339 in UTC, durations are in seconds, sizes in bytes.
type Document struct {
	ID      string    `json:"id"`
	Kind    jobs.Kind `json:"kind"`  // python, shell or package
	Title   string    `json:"title"` // the first line of what it runs
	Session string    `json:"session,omitempty"`
	Place   string    `json:"place,omitempty"` // the place at which it runs; left out: here
	Where   string    `json:"where,omitempty"` // more about the place: Slurm job 812, node n2
	// Status is queued, running, waiting_input, completed, failed or cancelled.
	Status     string `json:"status"`
	StatusText string `json:"status_text"`    // the status with its reason, as in replies
	Past       bool   `json:"past,omitempty"` // an earlier server ran it

	// These describe a job that has not ended.
	Question *documentQuestion `json:"question,omitempty"`      // the input that the job waits for
	Accepts  bool              `json:"accepts_input,omitempty"` // a program would read input
	Reader   *documentReader   `json:"reader,omitempty"`        // the program that would read it
	// Stopped names a program that was stopped because it read the terminal.
	Stopped    string    `json:"stopped,omitempty"`
	Cancelling jobs.Rung `json:"cancelling,omitempty"` // how far a stop has come
	PID        int       `json:"pid,omitempty"`        // the process ID of the leader
	Keep       bool      `json:"keep,omitempty"`       // it continues when its client quits
	Link       string    `json:"link,omitempty"`       // what is wrong with the link to its place
	Queued     string    `json:"queued,omitempty"`     // what it waits for at its place
	// Input says what is known of the last input if the link was lost on its way.
	Input string `json:"input,omitempty"`

	// Listening has the TCP addresses that the job has opened and still listens on.
	Listening []documentListener `json:"listening,omitempty"`

	// Denied has the first connections that the proxy of the sandbox has refused it, three at most. It
	// counts the others.
	Denied     []jobs.Denial `json:"denied,omitempty"`
	DeniedMore int           `json:"denied_more,omitempty"`

	Created    time.Time `json:"created"`
	Started    time.Time `json:"started,omitzero"`
	Ended      time.Time `json:"ended,omitzero"` // unknown if its server was killed
	LastOutput time.Time `json:"last_output,omitzero"`
	Elapsed    float64   `json:"elapsed_seconds"` // from the start to the end, or to now
	Timeout    float64   `json:"timeout_seconds,omitempty"`

	Output   documentOutput `json:"output"`
	Progress *progress.Bar  `json:"progress,omitempty"` // the last bar of its output
	Result   *string        `json:"result,omitempty"`   // the last expression's repr
	// ResultChars is the length of the result if Result is only its beginning.
	ResultChars int               `json:"result_chars,omitempty"`
	Displays    []documentDisplay `json:"displays,omitempty"` // what the job has shown
	Receipt     *documentReceipt  `json:"receipt,omitempty"`  // set once the job has ended
	// Usage is set while the job runs, if the system reports it.
	Usage *documentUsage `json:"usage,omitempty"`
}

// A documentListener is an address with the process that listens on it.
type documentListener struct {
	Address string `json:"address"`
	documentProcess
}

// A documentQuestion is the input that a job waits for.
type documentQuestion struct {
	Kind   string `json:"kind"` // line, secret or key
	Prompt string `json:"prompt"`
	By     string `json:"by"` // input(), or the program that asks and its pid
}

// A documentReader is a program that takes input and waits for something else as well.
type documentReader struct {
	Kind string `json:"kind"` // line, secret or key
	By   string `json:"by"`   // the program and its pid, and what else it waits for
}

// A documentOutput describes the log of a job's output.
type documentOutput struct {
	URI string `json:"uri"` // the resource that has the output
	// Cursor is the number of bytes ever written, which is also the cursor after the last byte.
	Cursor  int64           `json:"cursor"`
	Kept    int64           `json:"kept"`              // bytes that can be read
	Dropped int64           `json:"dropped,omitempty"` // bytes that are gone
	Gaps    []documentRange `json:"gaps,omitempty"`    // the ranges of the dropped bytes
	// Late counts the bytes that were written after the end, by processes that the job left
	// running.
	Late int64         `json:"late,omitempty"`
	Lost *documentLoss `json:"dropped_by,omitempty"`
}

// A documentDisplay describes a display in its full size.
type documentDisplay struct {
	URI    string `json:"uri"` // the resource that has the display
	Title  string `json:"title"`
	MIME   string `json:"mime_type"`
	Size   int    `json:"size"`
	Cursor int64  `json:"cursor"` // the cursor at which its line begins
}

// A documentLoss divides Dropped by its causes.
type documentLoss struct {
	Cap   int64 `json:"max_output,omitempty"` // the limit of one job, REPL_MAX_OUTPUT
	Disk  int64 `json:"disk,omitempty"`       // a disk that could not be written or read
	Limit int64 `json:"max_state,omitempty"`  // the limit of all jobs, REPL_MAX_STATE
}

// A documentRange is the bytes from cursor From up to, but not including, To.
type documentRange struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// A documentReceipt is the record of how a job ended.
type documentReceipt struct {
	// End is returned, exited, signaled, raised, out of memory, not started, not run or internal.
	End       jobs.End        `json:"end"`
	ExitCode  *int            `json:"exit_code,omitempty"` // the exit status of the process
	Signal    string          `json:"signal,omitempty"`    // the name of the signal: SIGKILL
	Exception string          `json:"exception,omitempty"` // its type and message
	Error     *jobs.Exception `json:"error,omitempty"`     // the exception as data
	Detail    string          `json:"detail,omitempty"`    // the cause of any other end, if known
	// By is program, agent, person, limit, shutdown, or outside or unknown.
	By jobs.By `json:"by"`
	// Reason says why the job was stopped, unless the stop was a plain cancel.
	Reason    string      `json:"reason,omitempty"`
	Rungs     []jobs.Rung `json:"rungs,omitempty"`         // the rungs that were needed
	Variables string      `json:"variables,omitempty"`     // kept or lost; empty outside a session
	Limit     float64     `json:"limit_seconds,omitempty"` // the timeout that was reached

	// HungUp has the processes that the hangup ended when the leader exited.
	HungUp    []documentProcess `json:"hung_up,omitempty"`
	Left      []documentProcess `json:"left_running,omitempty"` // processes that still run
	Survivors []documentProcess `json:"survivors,omitempty"`    // processes that could not be ended
	Unclaimed []documentProcess `json:"unclaimed,omitempty"`    // they may be another job's

	// NewNames has the first names that the job added to the session, 20 at most.
	NewNames  []string `json:"new_variables,omitempty"`
	GoneNames []string `json:"gone_variables,omitempty"` // the first names that it deleted

	// NewFiles has the first files made below its directory while it ran, 20 at most.
	NewFiles     []string `json:"new_files,omitempty"`
	ChangedFiles []string `json:"changed_files,omitempty"` // the first files changed there

	Checkpoint   string   `json:"checkpoint,omitempty"` // kept, or not kept and why
	PendingTasks int      `json:"pending_tasks,omitempty"`
	Notes        []string `json:"notes,omitempty"`
}

// A documentProcess names a process.
type documentProcess struct {
	PID     int    `json:"pid"`
	Program string `json:"program"`
}

// A documentUsage is the usage of a job's processes; for Python, of the session's.
type documentUsage struct {
	CPU       float64 `json:"cpu_seconds"`  // CPU time of the living processes since they started
	Memory    int64   `json:"memory_bytes"` // resident memory; shared memory counts each time
	Processes int     `json:"processes"`
}

// JobURI returns the URI of the document about a job.
func JobURI(id string) string { return "job://" + id }

// OutputURI returns the URI of a job's output.
func OutputURI(id string) string { return JobURI(id) + "/output" }

// Document returns the document about a job that has shown these displays. It asks live while the
// job runs. log is the job's output; nil if the job has no output.
func (rp *Reporter) Document(record jobs.Record, live jobs.Live, shown []jobs.Display, log output.Reader) *Document {
	out := record.Output
	r := &Document{
		ID: record.ID, Kind: record.Kind, Title: record.Title, Session: record.Session, Place: record.Place,
		Status: string(record.Status), StatusText: StatusText(record), Past: rp.isPast(record), Cancelling: record.Cancelling, Accepts: record.Accepts != (jobs.Reader{}), Stopped: record.Stopped,
		Created: instant(record.Created), Started: instant(record.Started), Ended: instant(record.Ended), LastOutput: instant(record.Output.Last),
		Denied: record.Denied.First, DeniedMore: record.Denied.More,
		Timeout: record.Timeout.Seconds(), Progress: progressBar(record, log, rp.time()),
		Output: documentOutput{
			URI: OutputURI(record.ID), Cursor: out.End, Kept: out.End - out.Dropped, Dropped: out.Dropped,
		},
	}
	link := LinkOf(live)
	r.Where = OneLine(cmp.Or(link.Where, record.Where))
	r.Link, r.Queued, r.Input = OneLine(rp.LinkText(link)), OneLine(link.Queued), OneLine(link.Input)
	listeners, _ := listenersOf(record, live)
	for _, l := range listeners {
		r.Listening = append(r.Listening, documentListener{l.Address, documentProcess(l.Process)})
	}
	for _, g := range out.Gaps {
		r.Output.Gaps = append(r.Output.Gaps, documentRange(g))
	}
	if out.Loss != (output.Loss{}) {
		lost := documentLoss(out.Loss)
		r.Output.Lost = &lost
	}
	for _, d := range shown {
		full := d.Forms[len(d.Forms)-1]
		r.Displays = append(r.Displays, documentDisplay{display.URI(record.ID, d.Number), d.Title, full.MIME, full.Size, d.Line.From})
	}
	if out.Final >= 0 {
		r.Output.Late = out.End - out.Final
	}
	if q := record.Question; q != nil && record.Status == jobs.WaitingInput {
		r.Question = &documentQuestion{Kind: q.Kind, Prompt: q.Prompt, By: q.By}
	}
	if a := record.Accepts; a != (jobs.Reader{}) {
		r.Reader = &documentReader{a.Kind, a.By}
	}
	if hasElapsed(record) {
		end := rp.time()
		if record.Status.Final() {
			end = record.Ended
		}
		r.Elapsed = end.Sub(record.Started).Round(time.Millisecond).Seconds()
	}
	if record.Status.Final() {
		r.Receipt = newDocumentReceipt(ReceiptWithRemedy(record.Receipt))
	} else if r.PID, r.Keep = record.PID, record.Keep; live.Probe != nil {
		if u, err := live.Probe.Usage(); err == nil {
			r.Usage = &documentUsage{CPU: u.CPU.Seconds(), Memory: u.Memory, Processes: u.Processes}
		}
	}
	if record.HasResult {
		r.Result, r.ResultChars = &record.Result, record.ResultChars
	}
	return r
}

func newDocumentReceipt(rec jobs.Receipt) *documentReceipt {
	r := &documentReceipt{
		End: rec.End, Signal: rec.Signal, Detail: rec.Detail, By: rec.By, Rungs: rec.Rungs, Limit: rec.Limit.Seconds(),
		HungUp: documentProcesses(rec.HungUp), Left: documentProcesses(rec.Left),
		Survivors: documentProcesses(rec.Survivors), Unclaimed: documentProcesses(rec.Unclaimed),
		NewNames: rec.Names.New, GoneNames: rec.Names.Gone,
		NewFiles: rec.Files.New, ChangedFiles: rec.Files.Changed,
		Checkpoint: rec.Checkpoint, PendingTasks: rec.PendingTasks, Notes: notes(rec), Error: rec.Exception,
	}
	switch rec.State {
	case jobs.Kept:
		r.Variables = "kept"
	case jobs.Lost:
		r.Variables = "lost"
	}
	switch rec.End {
	case jobs.Exited:
		r.ExitCode = &rec.Code
	case jobs.Raised:
		r.Exception, r.Detail = rec.Detail, ""
	case jobs.Internal:
		r.Detail = "" // only the server's log shows it
	}
	if rec.Stop != nil {
		r.Reason = rec.Stop.Reason
	}
	return r
}

func documentProcesses(ps []jobs.Process) []documentProcess {
	var list []documentProcess
	for _, p := range ps {
		list = append(list, documentProcess(p))
	}
	return list
}

// instant returns t in UTC, to the millisecond.
func instant(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC().Truncate(time.Millisecond)
}
