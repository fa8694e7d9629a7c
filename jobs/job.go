package jobs

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"asyncrepl/internal/output"
)

// Errors of a job and of the registry that a client can act on.
var (
	ErrEnded      = errors.New("job has ended")
	ErrNotReading = errors.New("job is not reading input")
	ErrShutdown   = errors.New("server is shutting down")
)

// A Spec says what a job is.
type Spec struct {
	Kind    Kind
	Tenant  string        // who may see it
	Session string        // empty: none
	Title   string        // one line for lists
	Timeout time.Duration // of the time in Running; 0: none
}

// An Info is a snapshot of a job.
type Info struct {
	ID string
	Spec
	Status     Status
	Question   *Question // set while WaitingInput
	Accepts    bool      // Running, and takes input if there is any
	Asked      int       // how often it has begun to wait for input
	Cancelling Rung      // set while a stop is under way
	Receipt    Receipt   // set once Status is final
	Result     string
	HasResult  bool
	PID        int   // the process in front, if the runner showed one
	Probe      Probe // measures its processes, if the runner gave one; nil once Status is final

	Created, Started, Ended time.Time
	Output                  output.Stat
}

// Asks reports whether the job waits for an answer. One that is being stopped does
// not: it ends without.
func (i *Info) Asks() bool { return i.Status == WaitingInput && i.Cancelling == "" }

// A Job is one execution, as its clients see it.
type Job struct {
	log    output.Log
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the status is final
	keep   *keeper
	input  chan struct{} // holds one token while input is being delivered

	saving sync.Mutex // held over a snapshot and its Save, so that records never go back

	mu         sync.Mutex
	info       Info
	changed    chan struct{} // closed and dropped at a change; made when somebody waits
	generation uint64        // counts moves and deliveries: what is older is late news
	broken     string        // the defect for which the job is going to fail
	stop       *Stop
	raised     chan struct{} // closed and dropped when stop changes; made when somebody waits
	accept     InputFunc
	leaves     func(context.Context, Stop) (ended, survivors []Process)
	limit      *time.Timer   // runs in Running, if there is a timeout
	since      time.Time     // when Running was last entered
	ran        time.Duration // time in Running before that
}

// A keeper is what a job needs of its registry.
type keeper struct {
	store Store
	bug   func(string)
	log   *slog.Logger
}

// ID returns the job's ULID.
func (j *Job) ID() string { return j.info.ID } // never changes, so needs no lock

// Done is closed when the job has ended.
func (j *Job) Done() <-chan struct{} { return j.done }

// Log returns the job's output.
func (j *Job) Log() output.Reader { return j.log }

// Info returns a snapshot of the job.
func (j *Job) Info() Info {
	j.mu.Lock()
	info := j.info
	j.mu.Unlock()
	info.Output = j.log.Stat()
	return info
}

// Read returns a snapshot of the job and its output from cursor on. The snapshot
// is taken first, so that a final status comes with the whole of the output.
func (j *Job) Read(cursor int64, limit int) (Info, output.Chunk) {
	info := j.Info()
	return info, j.log.Read(cursor, limit)
}

// Changed returns a channel that is closed at the next change of anything that
// Info tells but output. Take it before the Info it is to follow.
func (j *Job) Changed() <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.changed == nil {
		j.changed = make(chan struct{})
	}
	return j.changed
}

// Await blocks until the job has ended or waits for input, or ctx is done; it
// returns ctx's cause in the last case. A job that is being stopped is awaited to
// its end: one that goes back to its prompt at an interrupt needs no answer.
func (j *Job) Await(ctx context.Context) error {
	for {
		changed := j.Changed()
		j.mu.Lock()
		asks := j.info.Asks()
		j.mu.Unlock()
		if asks {
			return nil
		}
		select {
		case <-j.done:
			return nil
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Stop asks the job to end, and does not wait. A later stop that starts at a
// higher rung raises the one under way; any other adds nothing. Stopping an
// ended job does nothing.
func (j *Job) Stop(st Stop) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stopLocked(st)
}

// EndRemains ends what the ended job left running. It reports any as false if
// there is nothing of which the job knows.
func (j *Job) EndRemains(ctx context.Context, st Stop) (ended, survivors []Process, any bool) {
	j.mu.Lock()
	end := j.leaves
	if !j.info.Status.Final() {
		end = nil
	}
	j.mu.Unlock()
	if end == nil {
		return nil, nil, false
	}
	ended, survivors = end(ctx, st.withDefaults())
	return ended, survivors, true
}
