package jobs

import (
	"iter"
	"sync"

	"asyncrepl/internal/output"
	"asyncrepl/internal/text/findings"
)

// A Store keeps what outlives a registry of its jobs. Its methods can be called by several
// goroutines at once. For one job they are called one at a time, and in order: Begin before its
// runner, Resize when it gets its terminal and when a client has resized that, End before its waiters
// are released, Amend when its receipt or its displays have changed after that, and Forget last.
type Store interface {
	Begin(Record) error
	Resize(id string, size Size) error
	End(Saved) error
	Amend(Saved) error
	// Forget means that the registry no longer has the job.
	Forget(id string) error
	// Past returns the jobs of earlier registries whose ids begin with prefix, the newest first.
	// They have ended. Nothing is read before the iteration, and no more than the iteration asks
	// for.
	Past(prefix string) iter.Seq[Past]
}

// Saved is all that a [Store] keeps of a job that has ended, except for output in files.
type Saved struct {
	Record   Record
	Displays []Display
	Numbered int           // the number of displays, replaced ones included
	Short    []output.Span // all of the output if it is short and in no file; else nil
}

// Past is a job of an earlier registry. Its Log ignores what is written to it.
type Past struct {
	Saved
	Log output.Log
}

// noStore is the store of a registry whose jobs need not outlive it.
type noStore struct{}

func (noStore) Begin(Record) error         { return nil }
func (noStore) Resize(string, Size) error  { return nil }
func (noStore) End(Saved) error            { return nil }
func (noStore) Amend(Saved) error          { return nil }
func (noStore) Forget(string) error        { return nil }
func (noStore) Past(string) iter.Seq[Past] { return func(func(Past) bool) {} }

// begin passes the job to its store before it runs, and before a reply can name it.
func (j *Job) begin() {
	j.saving.Lock()
	defer j.saving.Unlock()
	if err := j.shared.store.Begin(j.snapshot()); err != nil {
		j.shared.log.Warn("saving job", "job", j.ID(), "err", err)
	}
}

// saveSize passes the size of the job's terminal to its store, unless it has none or has ended. If the
// server is killed, its output would else be shown without the terminal that it was drawn on.
func (j *Job) saveSize() {
	j.saving.Lock()
	defer j.saving.Unlock()
	record := j.snapshot()
	if record.Terminal == nil || record.Status.Final() {
		return
	}
	if err := j.shared.store.Resize(record.ID, *record.Terminal); err != nil {
		j.shared.log.Warn("saving the size of a terminal", "job", j.ID(), "err", err)
	}
}

// save passes the present state of the job to one of the methods of its store. The caller holds
// j.saving.
func (j *Job) save(to func(Saved) error) {
	saved := Saved{Displays: j.Displays(), Numbered: j.Numbered(), Record: j.snapshot()}
	if saved.Record.Status.Final() {
		saved.Short, _ = j.log.Short()
	}
	if err := to(saved); err != nil {
		j.shared.log.Warn("saving job", "job", j.ID(), "err", err)
	}
}

// ended is a closed channel.
var ended = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// pastJob returns a job of an earlier registry. It takes no input, and a stop does nothing to it.
func (s *shared) pastJob(p Past) *Job {
	j := &Job{
		shared: s, log: p.Log, done: ended, cancel: func(error) {}, record: p.Record, past: true,
		displays: p.Displays, numbered: p.Numbered, cleared: p.Record.Cleared,
	}
	if size := p.Record.Terminal; size != nil {
		j.terminal = func() (rows, cols int) { return size.Rows, size.Cols }
	}
	j.findErrors = sync.OnceFunc(j.searchLog)
	return j
}

// searchedMost bounds the output of a past job in which its errors are looked for again, in bytes.
const searchedMost = 16 << 20

// searchLog looks for the errors in the output of a past job, which were found while it was
// written.
func (j *Job) searchLog() {
	end := min(j.log.Stat().End, searchedMost)
	for cursor := int64(0); cursor < end; {
		chunk := j.log.Read(cursor, 64<<10)
		if chunk.Next <= cursor {
			return
		}
		cursor = chunk.From
		for _, span := range chunk.Spans {
			j.errors.Write(span.Stream, span.Data, cursor)
			cursor += int64(len(span.Data))
		}
		cursor = chunk.Next
	}
}

// Past reports whether the job is one of an earlier registry: its session is gone.
func (j *Job) Past() bool { return j.past }

// Errors has the first errors of the output, also of output that is gone. What follows an input or
// a [Port.Clear] is a new part of it.
func (j *Job) Errors() *findings.Collector {
	if j.findErrors != nil {
		j.findErrors()
	}
	return &j.errors
}

// A shownLog is the log of a job as clients read it. Output is on disk before a client is shown it:
// otherwise a client would find less after the server was killed than it has seen before.
type shownLog struct {
	output.Log
	done <-chan struct{} // closed when the store has the end of the job, with what is in no file
}

func (l shownLog) Read(cursor int64, limit int) output.Chunk {
	l.flush()
	return l.Log.Read(cursor, limit)
}

func (l shownLog) ReadInto(cursor int64, b []byte) output.Chunk {
	l.flush()
	return l.Log.ReadInto(cursor, b)
}

// flush writes to disk what is only in memory, unless the store has it with the end of the job.
func (l shownLog) flush() {
	select {
	case <-l.done:
		if st := l.Stat(); st.End > st.Final {
			l.Flush()
		}
	default:
		l.Flush()
	}
}
