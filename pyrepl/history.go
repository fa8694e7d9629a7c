package pyrepl

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"asyncrepl/jobs"
	"asyncrepl/pyrepl/worker"
)

// historyMax bounds the memory of a session's history. An entry takes entrySize besides its code,
// and a file fileSize besides its path. All are in bytes.
const (
	historyMax = 16 << 20
	entrySize  = 1 << 10
	fileSize   = 128
)

// A History lists what a session ran, in order.
type History struct {
	Entries []Entry
	Dropped int // earlier jobs whose entries were dropped to bound the memory
}

// An Entry is a job that ran in a session or changed its variables, or a loss of all variables.
type Entry struct {
	Lost string // not empty: all variables were lost here, and how; nothing below is set

	Job        string
	Work       Work
	Awaits     bool // the code has await at top level
	Uncompiled bool // Python has not accepted the code
	Unread     bool // the file could not be read, and no code has run
	Markdown   bool // the result is text in Markdown
	Receipt    jobs.Receipt
	Began      time.Time
	Ended      time.Time // zero: the job still runs, and Receipt is empty

	file  string            // the file name of the code; empty: the job runs a file
	files map[string]string // hashes of the files that the job ran, by their paths
	state state             // the variables after the job; zero: it still runs
}

// Work is what a job does.
type Work = worker.Work

// Code returns the code that was run. A file gets the line that runs it in IPython
// (https://ipython.readthedocs.io/en/stable/interactive/magics.html). A request has no code: Code
// returns "".
func (e *Entry) Code() string {
	if e.Work.Path != "" {
		return "%run -i " + File{Path: e.Work.Path, Args: e.Work.Args}.String()
	}
	return e.Work.Code
}

// A state identifies the variables by a hash of all that has run since they were empty.
type state [sha256.Size]byte

// after returns the state after e if it is st before.
func (e *Entry) after(st state) state {
	h := sha256.New()
	h.Write(st[:])
	json.NewEncoder(h).Encode([]any{e.Work, e.files}) // writing to a hash never fails
	return state(h.Sum(nil))
}

// History returns what the session ran. A loss that no job has seen yet is the last entry.
func (s *Session) History() History {
	loss := s.Lost()
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.history
	h.entries = slices.Clone(h.entries)
	if loss != nil {
		h.lose(loss.How, loss.Names)
	}
	return History{Entries: h.entries, Dropped: h.dropped}
}

// code returns the newest job whose code has a file name, and the code, if the history still has it.
func (s *Session) code(file string) (job, text string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range slices.Backward(s.history.entries) {
		if e.file == file {
			return e.Job, e.Work.Code, true
		}
	}
	return "", "", false
}

// A history is a History that grows.
type history struct {
	entries []Entry
	size    int // the size of entries in bytes
	dropped int
	state   state // the variables after the last entry
}

// begin adds a job that begins to run. A job that begins again, because its worker died before it
// began, is added once.
func (h *history) begin(job string, work Work) {
	if h.running() == nil {
		e := Entry{Job: job, Work: work, Began: time.Now()}
		if work.Path == "" {
			e.file = work.File()
		}
		h.add(e, len(h.entries))
	}
}

// learn records what the worker has found out about the code of the running job.
func (h *history) learn(done worker.DoneEvent) {
	if e := h.running(); e != nil {
		h.size -= e.size()
		e.Awaits, e.Uncompiled, e.Markdown, e.files = done.Form == "awaits", done.Form == "uncompiled", done.Markdown, done.Hashes
		e.Unread = e.Work.Path != "" && len(e.files) == 1 && slices.Contains(slices.Collect(maps.Values(e.files)), "")
		h.size += e.size()
	}
}

// end records how the running job, if there is one, has ended.
func (h *history) end(receipt jobs.Receipt) {
	if e := h.running(); e != nil {
		e.Receipt, e.Ended = receipt, time.Now()
		h.state = e.after(h.state)
		e.state = h.state
	}
}

// lose records that all variables were lost, before the running job if there is one. how says how
// Python ended, and names were the variables.
func (h *history) lose(how string, names []string) {
	n := len(h.entries)
	h.state = state{}
	if h.running() != nil {
		n--
	}
	if n > 0 && h.entries[n-1].Lost == "" || n == 0 && h.dropped > 0 {
		h.add(Entry{Lost: "Python " + how + "; " + lostText(names)}, n)
	}
}

// running returns the entry of the job that runs, or nil.
func (h *history) running() *Entry {
	if n := len(h.entries); n > 0 && h.entries[n-1].Lost == "" && h.entries[n-1].Ended.IsZero() {
		return &h.entries[n-1]
	}
	return nil
}

// add puts an entry before the one at index i, and drops the oldest entries if there are too many.
func (h *history) add(e Entry, i int) {
	h.entries = slices.Insert(h.entries, i, e)
	h.size += e.size()
	drop := 0
	for ; h.size > historyMax; drop++ {
		h.size -= h.entries[drop].size()
		if h.entries[drop].Job != "" {
			h.dropped++
		}
	}
	// The rest is not moved, because a full history drops an entry with each job.
	clear(h.entries[:drop])
	h.entries = h.entries[drop:]
}

func (e *Entry) size() int {
	n := entrySize + len(e.Work.Code) + len(e.Lost)
	for path := range e.files {
		n += len(path) + fileSize
	}
	if e.Work.Request != nil {
		n += len(e.Work.Request.Value)
	}
	return n
}
