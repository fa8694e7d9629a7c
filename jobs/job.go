package jobs

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/text/findings"
)

// A Job is one execution, as its clients see it.
type Job struct {
	number     int64 // the jobs of a registry are numbered in the order of their starts
	slot       slot  // guarded by shared.slots
	log        output.Log
	cancel     context.CancelCauseFunc
	done       chan struct{} // closed when the status is final
	shared     *shared
	delivering chan struct{} // holds one token while input is being delivered

	errors     findings.Collector // gets what is written to the log
	findErrors func()             // fills errors from the log of a past job; nil: errors has them
	past       bool               // see Past
	counted    bool               // the registry has counted its end; guarded by the registry's mu
	announced  atomic.Int64       // the number of its last change, see notice

	// saving is held over a change after the job ran, its snapshot and its save: no older record
	// replaces a newer one, and Record returns no end that a kill of the server would undo.
	saving sync.Mutex

	displaying sync.Mutex // held while a display and its line are added
	displays   []Display  // the displays that were not replaced
	numbered   int        // displays that were added, replaced ones included
	cleared    int64      // the cursor up to which the output was replaced
	clearing   bool       // output after clearAt replaces what stands before it
	clearAt    int64

	mu          sync.Mutex
	record      Record        // Output, Cleared and Terminal stay unset: they change elsewhere
	live        Live          // zero once the status is final
	terminal    TerminalSize  // sizes its own terminal; nil: it has none
	changed     chan struct{} // closed and dropped at a change; made when a caller waits
	broken      string        // the defect because of which the job will fail
	stop        *Stop
	raised      chan struct{} // closed and dropped when stop changes; made when a caller waits
	takeInput   InputFunc
	answers     []Answer
	answered    int // bytes of all answers that were given, kept or not; see answersMax
	cleanup     CleanupFunc
	limit       *time.Timer   // runs in Running, if there is a timeout
	listenSince time.Time     // the time of the last change of Listening
	since       time.Time     // the time of the last move to Running
	ran         time.Duration // time in Running before that
}

// shared is the part of a registry that its jobs use.
type shared struct {
	store Store
	bug   func(string)
	log   *slog.Logger
	slots slots
	list  notice // announces changes of any job and of their list
}

// ID returns the job's ULID.
func (j *Job) ID() string { return j.record.ID } // never changes, so it needs no lock

// Done returns a channel that is closed when the job has ended.
func (j *Job) Done() <-chan struct{} { return j.done }

// Log returns the job's output. If a [Store] keeps the job, the output is on disk before it is read.
func (j *Job) Log() output.Reader {
	if _, none := j.shared.store.(noStore); none || j.past {
		return j.log
	}
	return shownLog{j.log, j.done}
}

// write appends to the output and returns the cursor of the first byte.
func (j *Job) write(s output.Stream, b []byte) (at int64) {
	at = j.log.Write(s, b)
	j.errors.Write(s, b, at)
	return at
}

// Record returns a snapshot of the job. It is taken before the state of the output, so that a final
// status comes with all output. An end has been saved when it is returned: if the server is killed
// then, the next one returns the same.
func (j *Job) Record() Record {
	record := j.snapshot()
	if record.Status.Final() {
		j.saving.Lock() // waits for a save
		defer j.saving.Unlock()
	}
	return record
}

// snapshot is Record that does not wait until an end has been saved.
func (j *Job) snapshot() Record {
	j.mu.Lock()
	record, terminal := j.record, j.terminal
	j.mu.Unlock()
	if terminal != nil {
		rows, cols := terminal()
		record.Terminal = &Size{rows, cols}
	}
	record.Cleared = j.Cleared()
	record.Output = j.log.Stat()
	return record
}

// Live returns the ways to ask the running job about itself. It is zero once the job has ended.
func (j *Job) Live() Live {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.live
}

// Read returns a snapshot of the job and its output from cursor on. The snapshot is taken first, so
// that a final status comes with all output.
func (j *Job) Read(cursor int64, limit int) (Record, output.Chunk) {
	record := j.Record()
	return record, j.Log().Read(cursor, limit)
}

// Changed returns a channel that is closed at the next change of anything in the record except the
// output, and at late output. Take it before the record that it follows.
func (j *Job) Changed() <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.changed == nil {
		j.changed = make(chan struct{})
	}
	return j.changed
}

// Await blocks until the job has ended or waits for input, or ctx is done; in the last case it
// returns the cause of ctx. If the job is being stopped, Await returns only at the end: a program
// that prints its prompt again after an interrupt needs no answer.
func (j *Job) Await(ctx context.Context) error { return j.await(ctx, nil) }

// ReaderTime is how long nothing must change in a job after a program has begun to take input, to
// count as a question.
const ReaderTime = 2 * time.Second

// AwaitReader is Await that also returns once a program of the job has begun to take input, and
// then nothing has changed or been written for quiet: it probably asks. A program that takes input
// already does not end the wait.
func (j *Job) AwaitReader(ctx context.Context, quiet time.Duration) error {
	return j.await(ctx, j.newReader(quiet))
}

// AwaitServing is AwaitReader that also returns once processes of the job listen, and have opened
// no further address and written nothing for serving: a server has started.
func (j *Job) AwaitServing(ctx context.Context, quiet, serving time.Duration) error {
	reads := j.newReader(quiet)
	return j.await(ctx, func() (due time.Time) {
		due = reads()
		j.mu.Lock()
		since, listens := j.listenSince, len(j.record.Listening) > 0 && j.record.Cancelling == ""
		j.mu.Unlock()
		if serves := j.silent(since, serving); listens && (due.IsZero() || serves.Before(due)) {
			due = serves
		}
		return due
	})
}

// newReader returns a function for await: a program that begins to take input from now on, and then
// quiet, end the wait.
func (j *Job) newReader(quiet time.Duration) func() (due time.Time) {
	begin := time.Now()
	return func() (due time.Time) {
		j.mu.Lock()
		since, stopping := j.record.Accepts.Since, j.record.Cancelling != ""
		j.mu.Unlock()
		if stopping || !since.After(begin) {
			return due
		}
		return j.silent(since, quiet)
	}
}

// silent returns when the job will have written nothing for quiet, counted from since at the
// earliest.
func (j *Job) silent(since time.Time, quiet time.Duration) time.Time {
	if last := j.log.Stat().Last; last.After(since) {
		since = last
	}
	return since.Add(quiet)
}

// await is Await. If ends is not nil, it returns when the wait ends if nothing changes and nothing
// is written until then, or the zero time for never.
func (j *Job) await(ctx context.Context, ends func() (due time.Time)) error {
	for {
		changed := j.Changed()
		j.mu.Lock()
		asks := j.record.Asks()
		j.mu.Unlock()
		if asks {
			return nil
		}
		var quiet <-chan time.Time
		if ends != nil {
			if due := ends(); !due.IsZero() {
				left := time.Until(due)
				if left <= 0 {
					return nil
				}
				quiet = time.After(left)
			}
		}
		select {
		case <-j.done:
			return nil
		case <-changed:
		case <-quiet:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// AwaitStart blocks until the job is no longer queued, or ctx is done.
func (j *Job) AwaitStart(ctx context.Context) {
	for {
		changed := j.Changed()
		if j.Record().Status != Queued {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Stop asks the job to end, and does not wait. A later stop that starts at a higher rung raises the
// present one; any other adds nothing. Stopping an ended job does nothing.
func (j *Job) Stop(st Stop) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stopLocked(st)
}

// Cleanup ends the processes that the ended job left running. It reports false if none is known, or
// if the job has not ended. If ctx is done first, the cleanup continues without its caller.
func (j *Job) Cleanup(ctx context.Context, st Stop) (r Remains, ok bool) {
	j.mu.Lock()
	cleanup := j.cleanup
	if !j.record.Status.Final() {
		cleanup = nil
	}
	j.mu.Unlock()
	if cleanup == nil {
		return Remains{}, false
	}
	return cleanup(ctx, st.withDefaults()), true
}
