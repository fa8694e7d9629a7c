package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/text/callstack"
	"asyncrepl/internal/text/findings"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// A Reporter describes jobs in replies and in documents.
type Reporter struct {
	Jobs     *jobs.Registry // finds the job that a queued job waits for; nil: it is not named
	NoImages bool           // replies have no blocks and count none
	// Restorable returns the job of the checkpoint that the session of a job can continue from, if
	// the variables were lost in that job and none were made since; nil: there are no checkpoints.
	Restorable func(jobs.Record) string
	// Kept says how long a job is kept that its client wants to be kept.
	Kept string
	// Sandbox says what jobs can reach, in one line. Empty: there is no sandbox.
	Sandbox string
	now     func() time.Time // if nil, time.Now
}

func (rp *Reporter) time() time.Time {
	if rp.now == nil {
		return time.Now()
	}
	return rp.now()
}

// A Window selects the part of a job's output that a reply shows, and holds the lines about the
// call that the reply answers.
type Window struct {
	From      int64        // the cursor of the first byte
	Part      Part         // the part to show if not all of the output fits
	MaxChars  int          // bounds the complete reply; a value below 500 bounds the output alone
	NewestMax int          // the most characters of a running job's newest output; 0: all that fit
	FloodMax  int          // bounds a reply about a flood instead of MaxChars; 0: nothing does
	Notices   *CallNotices // the notices of the call; nil: the reply announces no other jobs

	// Answered is the question that the call answered, or nil. If it is set, the lines about the
	// next question leave out what equals it, and a prompt that the output ends with.
	Answered *jobs.Question

	// Look shows where the code of a running job is.
	Look bool

	// Changes shows of the screen only the rows that have changed since the client was last shown it.
	Changes bool

	// View selects how the output is shown. The zero value shows text, and in its place the screen of
	// a program that waits for input and draws on all of its terminal.
	View string

	cleared int64               // the cursor up to which the job has replaced its output
	screen  *screenShown        // the screen shown in place of output; nil if output is shown
	errors  *findings.Collector // has the errors of the omitted middle; nil: none are shown

	facts    []fact
	noImages bool
	stack    string // the calls of the running code
	lines    int    // if not 0, show only this many lines, the last ones
}

// A fact is one header line.
type fact struct{ name, value string }

// Line adds a header line about the call itself, after the lines about the job.
func (w *Window) Line(name, value string) { w.facts = append(w.facts, fact{name, value}) }

// How many lines of its output the reply about an ended install shows. An installer prints its
// result last.
const (
	installedLines = 5
	failedLines    = 20
)

// silence is how long a job must be without output before a reply says so.
const silence = 5 * time.Second

// Job returns the reply about one job. It takes the status before the output, so a reply with a
// final status can show all output. Its blocks are the pictures of exactly the display lines that
// it shows.
func (rp *Reporter) Job(j *jobs.Job, w Window) *Reply {
	record, live := j.Record(), j.Live()
	// The Status line of an install has its result.
	if record.Kind == jobs.Package && record.Status.Final() && w.Part != Forward {
		if w.lines = failedLines; record.Status == jobs.Completed {
			w.lines = installedLines
		}
	}
	w.noImages = rp.NoImages
	head := &Reply{}
	head.b.Grow(usualHead)
	in := newInputContext(j, record, live, w)
	rp.describe(head, record, live, in)
	head.past(j, record)
	rp.progressLine(head, record, j.Log())
	if w.Look && live.Looker != nil && record.Status == jobs.Running {
		var at string
		if at, w.stack = callstack.Describe(live.Looker, min(stackMax, w.MaxChars/4)); at != "" {
			head.Line("At", at)
		}
	}
	var also []string
	if w.Notices != nil {
		w.Notices.Answered(head, record)
		w.Notices.Shows(append(head.shown, record)...)
		also = w.Notices.Also()
	}
	for _, f := range w.facts {
		head.Line(f.name, f.value)
	}
	rest := &Reply{}
	rest.Also(also)
	rp.writeNext(rest, record, in)
	w.cleared = record.Cleared
	w.screen = takeScreen(head, j, record, w)
	w.errors = j.Errors()
	room := max(1, w.MaxChars)
	if w.MaxChars < smallReply {
		r, pictures := withOutput(head, j, record, w, room, rest)
		r.attach(j, pictures)
		return r
	}
	room = max(leastRoom, room-head.Chars()-usualRest)
	if less := w.MaxChars - w.FloodMax; w.FloodMax > 0 && less > 0 && isFlood(j, record, w, room) {
		w.MaxChars, room = w.FloodMax, max(leastRoom, room-less)
	}
	// The length of the header lines about the output depends on where the output is cut. That is
	// usually between lines, so a little less room can change nothing: each try reduces the room by
	// at least lessRoom.
	for {
		r, pictures := withOutput(head, j, record, w, room, rest)
		over := r.Chars() - w.MaxChars
		if over <= 0 || room == leastRoom {
			r.attach(j, pictures)
			return r
		}
		room = max(leastRoom, room-over-lessRoom)
	}
}

const (
	stackMax   = 2000 // characters of the stack of a running job
	smallReply = 500  // a smaller Window.MaxChars bounds the output alone
	leastRoom  = 100  // characters that output always has, however long the other lines are
	usualHead  = 160  // bytes of the header lines about a job
	usualRest  = 240  // characters of cursor, section marks and the lines about omissions
	lessRoom   = 50
)

// withOutput returns head with output added, in about room characters, and the lines of rest. It
// also returns the pictures of the output that it shows.
func withOutput(head *Reply, j *jobs.Job, record jobs.Record, w Window, room int, rest *Reply) (r *Reply, pictures []jobs.Form) {
	r = &Reply{}
	r.b.Grow(head.b.Len() + usualRest)
	r.b.WriteString(head.String())
	x := newExcerpt(j.Log(), record.Status.Final(), w, room)
	if w.screen != nil {
		r.Line("Screen", w.screen.line)
	}
	if x.late > 0 {
		r.Line("Late output", view.CountOf(x.late, "byte"))
	}
	if x.cleared.To > x.cleared.From {
		r.Line("Cleared", Ranges([]output.Range{x.cleared})+": the job has replaced them; view=raw shows them")
	}
	if len(x.omitted) > 0 {
		r.Line("Omitted", Ranges(x.omitted))
	}
	if x.errors > 0 {
		r.Line("First errors", view.CountOf(int64(x.errors), "line")+" of what is omitted")
	}
	if x.gone > 0 {
		r.Line("Dropped", fmt.Sprintf("%s of these can't be read any more: %s", view.CountOf(x.gone, "byte"), Causes(x.loss)))
	}
	if !w.noImages {
		pictures = r.pictures(j, x)
	}
	r.cursor(x.next)
	r.b.WriteString(rest.String())
	for i, text := range x.text {
		r.section(sectionNames[i], text)
	}
	if w.screen != nil {
		r.section(w.screen.name, w.screen.text)
	}
	r.section("STACK", w.stack)
	return r, pictures
}

// Ranges counts the bytes of some ranges and lists the ranges.
func Ranges(list []output.Range) string {
	var n int64
	var cursors []string
	for _, o := range list {
		n += o.To - o.From
		cursors = append(cursors, fmt.Sprintf("%d..%d", o.From, o.To))
	}
	return fmt.Sprintf("%s (cursor %s)", view.CountOf(n, "byte"), strings.Join(cursors, ", "))
}

// Causes returns the reasons why output is gone.
func Causes(l output.Loss) string {
	var why []string
	if l.Cap > 0 {
		why = append(why, "the output limit of one job was reached (REPL_MAX_OUTPUT)")
	}
	if l.Disk > 0 {
		why = append(why, "the disk could not be written or read (see server_status)")
	}
	if l.Limit > 0 {
		why = append(why, "the output limit of all jobs was reached (REPL_MAX_STATE)")
	}
	if why == nil {
		return "the job is being forgotten"
	}
	return strings.Join(why, "; ")
}

// describe writes the header lines about a job, except its cursor and what the caller already knows
// about its question.
func (rp *Reporter) describe(r *Reply, record jobs.Record, live jobs.Live, in inputContext) {
	r.Line("Job ID", record.ID)
	r.Line("Status", StatusText(record))
	rp.Place(r, record, live)
	writeQuestion(r, record, in)
	var listening []string
	listeners, onLoop := listenersOf(record, live)
	for _, l := range listeners {
		listening = append(listening, fmt.Sprintf("%s (%s, pid %d)", l.Address, l.Program, l.PID))
	}
	if listening != nil {
		r.Line("Listening", strings.Join(listening, ", "))
	}
	if onLoop != nil {
		r.Line("Note", loopNote(onLoop))
	}
	if record.Cancelling != "" && !record.Status.Final() {
		rung := string(record.Cancelling)
		if in.hold != nil {
			rung += " (" + in.hold.Why + ")"
		}
		r.Line("Cancelling", rung)
	}
	if record.Keep && !record.Status.Final() {
		r.Line("Keep", rp.kept(record))
	}
	switch {
	case record.Status == jobs.Queued:
		rp.queued(r, record, LinkOf(live))
	case record.Status == jobs.Running:
		r.Line("Elapsed", rp.elapsed(record))
		writeReader(r, record, in)
		if record.Stopped != "" {
			r.Line("Stopped", record.Stopped+" wants the terminal; it is in the background")
		}
		if LinkOf(live).Lost.IsZero() { // else it can have written since
			rp.activity(r, record, live.Probe)
		}
	case record.Status.Final():
		if hasElapsed(record) {
			r.Line("Elapsed", rp.elapsed(record))
		}
		receipt(r, record.ID, record.Receipt)
	}
	r.Denied(record.Denied, "")
	rp.writeSandbox(r, record)
}

// sandboxMax bounds what a reply about a failed job says of the sandbox, in characters.
const sandboxMax = 120

// writeSandbox says once in a reply what jobs can reach, if that can be why a job has failed: a file that is
// not there, a connection, a system call. Memory and the end of a server are not of that kind. A job of an
// earlier server can have had another sandbox.
func (rp *Reporter) writeSandbox(r *Reply, record jobs.Record) {
	ends := []jobs.End{jobs.Exited, jobs.Raised, jobs.Signaled, jobs.NotStarted}
	if rp.Sandbox == "" || r.confined || record.Status != jobs.Failed || !slices.Contains(ends, record.Receipt.End) || rp.isPast(record) {
		return
	}
	r.confined = true
	r.Line("Sandbox", view.Line(rp.Sandbox, sandboxMax))
}

// listenersOf returns the listeners of a job that answer at any time, and the addresses of those on an
// event loop.
func listenersOf(record jobs.Record, live jobs.Live) (listeners []jobs.Listener, onLoop []string) {
	if record.Listening == nil || live.OnLoop == nil {
		return record.Listening, nil
	}
	served := live.OnLoop()
	for _, l := range record.Listening {
		if slices.Contains(served, l.Address) {
			onLoop = append(onLoop, l.Address)
		} else {
			listeners = append(listeners, l)
		}
	}
	return listeners, onLoop
}

// kept says how long a job is kept.
func (rp *Reporter) kept(record jobs.Record) string {
	if record.Place == "" {
		return rp.Kept
	}
	return "continues at " + record.Place + " when this client quits, and without this server"
}

// queued says what a queued job waits for. It names the jobs, because they can be waiting for input.
func (rp *Reporter) queued(r *Reply, record jobs.Record, link jobs.Link) {
	if link.Queued != "" {
		r.Line("Queued", link.Queued)
		return
	}
	if ahead := rp.Ahead(record); ahead != nil {
		r.Line("Queued behind", named(*ahead))
		r.shown = append(r.shown, *ahead)
		return
	}
	if rp.Jobs == nil {
		return
	}
	running := rp.Jobs.Running(record.ID)
	if len(running) == 0 {
		return
	}
	var names []string
	for i, other := range running {
		if i == runningMax {
			names = append(names, view.Count(len(running)-i)+" more")
			break
		}
		names = append(names, named(other))
		r.shown = append(r.shown, other)
	}
	r.Line("Queued", fmt.Sprintf("%s running, the most allowed (REPL_MAX_JOBS): %s", view.CountAre(len(running), "job"), strings.Join(names, ", ")))
}

// runningMax is how many of the jobs that run a reply names.
const runningMax = 5

// named returns the id of a job and its status.
func named(record jobs.Record) string {
	return fmt.Sprintf("%s (%s)", record.ID, StatusText(record))
}

// Ahead returns the job that a queued job waits for, preferably a running job. It returns nil if
// there is no such job.
func (rp *Reporter) Ahead(record jobs.Record) (ahead *jobs.Record) {
	if rp.Jobs == nil {
		return nil
	}
	f := jobs.Filter{Before: record.ID, Status: []jobs.Status{jobs.Queued, jobs.Running, jobs.WaitingInput}}
	for _, other := range rp.Jobs.List(f) {
		if !takeTurns(record, other) {
			continue
		}
		if ahead = &other; other.Status != jobs.Queued {
			return ahead
		}
	}
	return ahead
}

// takeTurns reports whether two jobs must run one at a time: both belong to one Python or
// shell session, or install into one environment.
func takeTurns(a, b jobs.Record) bool {
	inSession := func(record jobs.Record) bool {
		return record.Session != "" && (record.Kind == jobs.Python || record.Holds)
	}
	inShell := func(record jobs.Record) bool { return record.Session != "" && record.Kind == jobs.Shell }
	together := inSession(a) && inSession(b) || inShell(a) && inShell(b)
	return together && a.Session == b.Session || a.Site != "" && a.Site == b.Site
}

// activity names a stopped process and says how long the job has been without output. If nothing is
// stopped, it adds what its processes do.
func (rp *Reporter) activity(r *Reply, record jobs.Record, probe jobs.Probe) {
	said := ""
	if record.Cancelling == "" { // a cancel stops processes itself
		said = stopped(probe)
	}
	last, since := record.Output.Last, "no output for "
	if last.IsZero() {
		last, since = record.Started, "no output yet, for "
	}
	if quiet := rp.time().Sub(last); quiet >= silence {
		held := said != ""
		said = strings.TrimPrefix(said+"; "+since+Duration(quiet), "; ")
		if probe != nil && !held {
			said += doing(probe)
		}
	}
	if said != "" {
		r.Line("Activity", said)
	}
}

// doing says how much CPU time the busiest process of a running job uses, and what it waits for. If
// it uses next to none, doing says what the leading process waits for.
func doing(probe jobs.Probe) string {
	p, percent, err := probe.Busiest()
	if err != nil {
		return ""
	}
	use := fmt.Sprintf(", %s uses %.0f %% CPU", p, percent)
	pid := p.PID
	if percent < 1 {
		pid = 0
	}
	waiter, words, since := probe.Waits(pid)
	switch {
	case words == "":
		return use
	case since >= time.Second:
		words += fmt.Sprintf(" (for %s)", Duration(since))
	}
	if pid == 0 {
		return fmt.Sprintf(", %s %s", waiter, words)
	}
	return use + " and " + words
}

// stopped names the first process that a signal has stopped, and counts the others. It returns the
// empty string if no process is stopped.
func stopped(p jobs.Probe) string {
	if p == nil {
		return ""
	}
	all, _ := p.Stopped() // on an error, all has the processes that could be seen
	if len(all) == 0 {
		return ""
	}
	s := "stopped"
	if all[0].Signal != "" {
		s += " (" + all[0].Signal + ")"
	}
	s += ", " + all[0].String()
	if n := len(all) - 1; n > 0 {
		s += fmt.Sprintf(" and %d more", n)
	}
	return s
}

// KindText returns the kind of a job and, if it has them, its session and its place.
func KindText(record jobs.Record) string {
	s := string(record.Kind)
	if record.Session != "" {
		s += " " + record.Session
	}
	if record.Place != "" {
		s += " at " + record.Place
	}
	return s
}

// hasElapsed reports whether it is known how long the job has run. When a job ended that was left to its place is not.
func hasElapsed(record jobs.Record) bool {
	return !record.Started.IsZero() && (!record.Status.Final() || !record.Ended.IsZero())
}

func (rp *Reporter) elapsed(record jobs.Record) string {
	end := record.Ended
	if end.IsZero() {
		end = rp.time()
	}
	return Duration(end.Sub(record.Started))
}

// past writes the line about a job of an earlier server.
func (r *Reply) past(j *jobs.Job, record jobs.Record) {
	switch {
	case !j.Past():
	case record.Kind == jobs.Python && record.Place == "":
		r.Line("Past", "an earlier server ran it; its session "+record.Session+" ended with that")
	default:
		r.Line("Past", "an earlier server ran it")
	}
}

// Summary adds a block of header lines about a job, without its output.
func (rp *Reporter) Summary(r *Reply, j *jobs.Job, record jobs.Record) {
	r.blank()
	live := j.Live()
	in := inputContext{line: cursorLine(j, record), hold: hold(live)}
	rp.describe(r, record, live, in)
	r.past(j, record)
	rp.progressLine(r, record, j.Log())
	r.cursor(j.Log().Stat().End)
	rp.writeNext(r, record, in)
}
