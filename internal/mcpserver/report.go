package mcpserver

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"asyncrepl/internal/view"
	"asyncrepl/jobs"
)

// A reporter puts jobs into words and into records.
type reporter struct {
	jobs *jobs.Registry   // where a queued job's predecessor is found; nil: it is not named
	now  func() time.Time // nil: time.Now

	// busy and usage are the Engine's fields of these names.
	busy  func(leader int) (p jobs.Process, percent float64, ok bool)
	usage func(leader int) (Usage, bool)
}

func (rp *reporter) time() time.Time {
	if rp.now == nil {
		return time.Now()
	}
	return rp.now()
}

// A window says what part of a job's output a reply shows, and what else the
// reply has to say.
type window struct {
	from     int64  // the output from here on
	newest   bool   // while the job runs, only the newest of it
	maxChars int    // of the whole reply
	facts    []fact // header lines of the call

	// also returns the other jobs that the reply announces, given those that it shows
	// anyway, as it shows them. Nil: it announces none.
	also func(shown []jobs.Info) []jobs.Info
}

// A fact is one header line.
type fact struct{ name, value string }

// newestChars is how much output of a running job is shown to one who names no
// cursor.
const newestChars = 2000

// silence is how long a job must have been quiet before that is worth a line.
const silence = 5 * time.Second

// job is the reply about one job. The status is taken before the output is
// looked at, so that a final status comes with all of it.
func (rp *reporter) job(j *jobs.Job, w window) *reply {
	info := j.Info()
	head := &reply{}
	rp.describe(head, info)
	var also []jobs.Info
	if w.also != nil {
		also = w.also(append(head.shown, info))
	}
	for _, f := range w.facts {
		head.line(f.name, f.value)
	}
	// How long the lines about the output are is known once it has been cut. A
	// page is cut at ends of lines, so a little less room may change nothing.
	for room := max(0, w.maxChars-head.chars()-usualRest); ; {
		r := withOutput(head, j, info, w, also, room)
		over := r.chars() - w.maxChars
		if over <= 0 || room == nothing {
			return r
		}
		if room -= over + lessRoom; room < 0 {
			room = nothing
		}
	}
}

const (
	usualRest = 240 // characters of cursor, section marks, what is said of omissions
	lessRoom  = 50  // the least by which room is made smaller
	nothing   = -1  // room for no output at all, not even a line
)

// withOutput completes a reply by output and result, in room characters.
func withOutput(head *reply, j *jobs.Job, info jobs.Info, w window, also []jobs.Info, room int) *reply {
	r := &reply{}
	r.b.WriteString(head.String())
	x := newExcerpt(j.Log(), info.Status.Final(), w, room-min(chars(info.Result), room/2))
	if x.late > 0 {
		r.line("Late output", view.Count(x.late)+" bytes")
	}
	if n := x.omitted.To - x.omitted.From; n > 0 {
		r.line("Omitted", fmt.Sprintf("%s bytes (cursor %d..%d)", view.Count(n), x.omitted.From, x.omitted.To))
	}
	if x.gone > 0 {
		r.line("Dropped", fmt.Sprintf("%s bytes of these can't be read any more: %s", view.Count(x.gone), causes(x.loss)))
	}
	result := ""
	if info.HasResult {
		if result = clip(info.Result, room-x.chars()); room < 0 {
			r.line("Omitted result", view.Count(chars(info.Result))+" characters")
			result = ""
		}
	}
	r.cursor(x.next)
	r.also(also)
	r.next(info)
	r.section("STDOUT", x.text[stdout])
	r.section("STDERR", x.text[stderr])
	r.section("RESULT", result)
	return r
}

// causes says what took output that is gone.
func causes(l jobs.Loss) string {
	var why []string
	if l.Cap > 0 {
		why = append(why, "the limit of output kept of a job was reached (REPL_MAX_OUTPUT)")
	}
	if l.Disk > 0 {
		why = append(why, "the disk could not be written to or read (server_status tells more)")
	}
	if l.State > 0 {
		why = append(why, "the limit of output kept of all jobs was reached (REPL_MAX_STATE)")
	}
	if why == nil {
		return "the job is being forgotten"
	}
	return strings.Join(why, "; ")
}

// describe writes the lines that say how a job stands, but for its cursor.
func (rp *reporter) describe(r *reply, info jobs.Info) {
	r.line("Job ID", info.ID)
	r.line("Status", statusText(info))
	if q := info.Question; q != nil && info.Status == jobs.WaitingInput {
		if q.Prompt != "" {
			r.line("Prompt", q.Prompt)
		}
		r.line("Waiting", strings.TrimSuffix(q.Kind+", "+q.By, ", "))
	}
	if info.Cancelling != "" && !info.Status.Final() {
		r.line("Cancelling", string(info.Cancelling))
	}
	switch {
	case info.Status == jobs.Queued:
		rp.queued(r, info)
	case info.Status == jobs.Running:
		r.line("Elapsed", rp.elapsed(info))
		if info.Accepts {
			r.line("Accepts input", "yes")
		}
		rp.activity(r, info)
	case info.Status.Final():
		if !info.Started.IsZero() {
			r.line("Elapsed", rp.elapsed(info))
		}
		receipt(r, info.ID, info.Receipt)
	}
}

// queued names what a job stands behind, which may wait for an answer.
func (rp *reporter) queued(r *reply, info jobs.Info) {
	if rp.jobs == nil {
		return
	}
	for _, front := range rp.jobs.List(info.Tenant, jobs.Filter{
		Session: info.Session,
		Status:  []jobs.Status{jobs.Running, jobs.WaitingInput},
	}) {
		if front.Kind == info.Kind && info.Session != "" {
			r.line("Queued behind", fmt.Sprintf("%s (%s)", front.ID, statusText(front)))
			r.shown = append(r.shown, front)
			return
		}
	}
}

// activity tells silence as silence, with what the process does meanwhile.
func (rp *reporter) activity(r *reply, info jobs.Info) {
	last, what := info.LastOutput, "no output for "
	if last.IsZero() {
		last, what = info.Started, "no output yet, for "
	}
	quiet := rp.time().Sub(last)
	if quiet < silence {
		return
	}
	s := what + duration(quiet)
	if info.PID != 0 && rp.busy != nil {
		if p, percent, ok := rp.busy(info.PID); ok {
			s += fmt.Sprintf(", %s uses %.0f %% CPU", p, percent)
		}
	}
	r.line("Activity", s)
}

// notesMax is how many notes of a receipt a reply shows.
const notesMax = 20

// receipt writes what a status text doesn't hold.
func receipt(r *reply, id string, rec jobs.Receipt) {
	ended := rec.End == jobs.Signaled || rec.End == jobs.Exited || rec.End == jobs.OutOfMemory
	if rec.Stop != nil || ended && rec.By != "" && rec.By != jobs.Program {
		r.line("Ended by", string(rec.By))
	}
	if len(rec.Rungs) > 1 || len(rec.Rest) > 0 {
		r.line("Rungs", rungs(rec))
	}
	r.processes("Hung up", rec.HungUp, "; give a server a job of its own")
	r.processes("Left running", rec.Left, "")
	r.processes("Survivors", rec.Survivors, "")
	r.processes("Unclaimed", rec.Unclaimed, "; of this job or of another")
	if rec.PendingTasks > 0 {
		r.line("Pending tasks", strconv.Itoa(rec.PendingTasks))
	}
	for i, note := range rec.Notes {
		if i == notesMax {
			r.line("Note", fmt.Sprintf("%d more: read the resource job://%s", len(rec.Notes)-i, id))
			break
		}
		r.line("Note", note)
	}
}

// rungs names those that a job needed, then those that the rest of its tree
// needed when it had ended.
func rungs(rec jobs.Receipt) string {
	var parts []string
	if len(rec.Rungs) > 0 {
		parts = append(parts, list(rec.Rungs))
	}
	if len(rec.Rest) > 0 {
		parts = append(parts, list(rec.Rest)+" for what it had started")
	}
	return strings.Join(parts, "; ")
}

func list(rungs []jobs.Rung) string {
	names := make([]string, len(rungs))
	for i, rung := range rungs {
		names[i] = string(rung)
	}
	return strings.Join(names, ", ")
}

// statusText is the value of the Status line.
func statusText(info jobs.Info) string {
	if info.Status.Final() {
		return info.Receipt.Text()
	}
	return string(info.Status)
}

// kindText is the kind of a job and the session it is of.
func kindText(info jobs.Info) string {
	if info.Session == "" {
		return string(info.Kind)
	}
	return string(info.Kind) + " " + info.Session
}

// line shows a job in one line of a list.
func (rp *reporter) line(info jobs.Info) string {
	s := fmt.Sprintf("%s %s, %s", info.ID, statusText(info), kindText(info))
	if !info.Started.IsZero() {
		s += ", " + rp.elapsed(info)
	}
	s += ": " + info.Title
	if q := info.Question; q != nil && q.Prompt != "" && info.Status == jobs.WaitingInput {
		s += fmt.Sprintf(" (asks %q)", q.Prompt)
	}
	return view.Line(s, lineMax)
}

// lines shows jobs, a line each, as far as there is room for them, in
// characters, and returns how many these are.
func (rp *reporter) lines(list []jobs.Info, room int) (text string, shown int) {
	var b strings.Builder
	for _, info := range list {
		line := rp.line(info) + "\n"
		if room -= chars(line); room < 0 {
			break
		}
		b.WriteString(line)
		shown++
	}
	return b.String(), shown
}

func (rp *reporter) elapsed(info jobs.Info) string {
	end := info.Ended
	if end.IsZero() {
		end = rp.time()
	}
	return duration(end.Sub(info.Started))
}

// summary adds a block of lines that say how a job stands, without its output.
func (rp *reporter) summary(r *reply, j *jobs.Job, info jobs.Info) {
	r.blank()
	rp.describe(r, info)
	r.cursor(j.Log().Stat().End)
	r.next(info)
}

// next says what must be done, where something must.
func (r *reply) next(info jobs.Info) {
	q := info.Question
	if !info.Asks() || q == nil {
		return
	}
	if info.Kind == jobs.Python && q.Kind != "key" { // which is no line
		r.line("Next", "send_python_input(text=…) or cancel_job")
		return
	}
	arguments := `text="…\n"`
	switch q.Kind {
	case "key":
		arguments = "text=…"
	case "secret":
		arguments += ", secret=true"
	}
	r.b.WriteString("Next: send_command_input(" + arguments + ") or cancel_job\n") // \n is meant as it stands
}
