package jobs

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"asyncrepl/internal/output"
)

// A Config configures a [Registry].
type Config struct {
	Store      Store         // keeps the records; nil: they are not kept outside the registry
	Logs       output.Store  // nil: output.NewStore(output.Config{})
	MaxRunning int           // the most jobs that run at once; others are queued; 0: 1,000
	Keep       int           // the most jobs that have ended; 0: 1,000
	MaxAge     time.Duration // ended jobs are forgotten after this time; 0: 7 days

	// Since is the start of the server; zero: now. An earlier server gave an older id, and
	// the error for it says so.
	Since time.Time

	// Bug is called with defects of this program; nil: they panic. It must not call methods of a
	// job, because the job's lock is held.
	Bug func(msg string)
	Log *slog.Logger // gets the failures of the store; nil: they are dropped
}

// A Registry starts jobs and remembers them.
type Registry struct {
	shared shared
	logs   output.Store
	wg     sync.WaitGroup // one for each job that has not ended; added to under mu

	mu        sync.Mutex
	closed    bool
	started   int64 // the number of jobs that were started
	unended   int
	jobs      map[string]*Job
	order     []*Job // the jobs in the order of their starts
	retention retention
	past      []*Job // the jobs of earlier registries that were asked for last, oldest first
	since     uint64 // no id that was issued here has an earlier time; in milliseconds, as in a ULID

	ended           map[Status]int64 // the number of jobs that have ended, by status
	forgottenOutput int64            // bytes that forgotten jobs have written
}

// NewRegistry returns an empty registry.
func NewRegistry(c Config) *Registry {
	if c.Store == nil {
		c.Store = noStore{}
	}
	if c.Logs == nil {
		c.Logs = output.NewStore(output.Config{})
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Since.IsZero() {
		c.Since = time.Now()
	}
	return &Registry{
		since:  ulid.Timestamp(c.Since),
		shared: shared{store: c.Store, bug: c.Bug, log: c.Log, slots: slots{max: cmp.Or(c.MaxRunning, 1000)}},
		logs:   c.Logs,
		jobs:   make(map[string]*Job),
		ended:  make(map[Status]int64),
		retention: retention{
			keep:   cmp.Or(c.Keep, 1000),
			maxAge: cmp.Or(c.MaxAge, 7*24*time.Hour),
		},
	}
}

// Start starts a job. The job outlives the call that started it: only [Job.Stop], its timeout and
// [Registry.Close] ask it to end. The error is [ErrShutdown] or a *[TooManyError].
func (r *Registry) Start(spec Spec, run Runner) (*Job, error) { return r.start("", spec, run) }

// StartAs is Start under an id that another registry has issued. No id is used twice: the error is a *[TakenError]
// if this registry has or had a job with that id. A job of an earlier registry with that id is no longer shown: it
// continues as this one.
func (r *Registry) StartAs(id string, spec Spec, run Runner) (*Job, error) {
	if u, err := ulid.ParseStrict(id); err != nil || u.String() != id {
		return nil, fmt.Errorf("%q is not the id of a job: give a ULID, in capital letters", id)
	}
	return r.start(id, spec, run)
}

// start is Start, under an id unless that is empty.
func (r *Registry) start(id string, spec Spec, run Runner) (*Job, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	j, err := r.enter(id, spec, run, cancel)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	j.begin()             // the lock is free: a disk can be slow
	go r.run(ctx, j, run) // owned by the registry, ends with the job; Close waits for it
	return j, nil
}

// enter makes a job and gives it its place among the others. An empty id makes it issue one. cancel cancels
// the job's context.
func (r *Registry) enter(id string, spec Spec, run Runner, cancel context.CancelCauseFunc) (*Job, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if j := r.jobs[id]; j != nil || id != "" && r.retention.knew(id) {
		return nil, &TakenError{ID: id, Job: j}
	}
	if err := r.room(); err != nil {
		return nil, err
	}
	now := time.Now()
	if id == "" {
		id = r.issue(now)
	}
	spec.keepCode()
	j := &Job{
		number:     r.started,
		log:        r.logs.NewLog(id),
		cancel:     cancel,
		done:       make(chan struct{}),
		shared:     &r.shared,
		delivering: make(chan struct{}, 1), // one token
		record:     Record{Version: RecordVersion, ID: id, Spec: spec, Status: Queued, Created: now},
	}
	r.started++
	r.jobs[id] = j
	r.order = append(r.order, j)
	r.unended++
	r.wg.Add(1)
	r.shared.list.announce(j)
	if q, ok := run.(Queuer); ok {
		q.Queue(&Port{j})
	}
	return j, nil
}

// Room returns why no job can be started now, or nil. The error is [ErrShutdown] or a
// *[TooManyError].
func (r *Registry) Room() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.room()
}

// room is Room for a caller that holds r.mu.
func (r *Registry) room() error {
	switch {
	case r.closed:
		return ErrShutdown
	case r.unended-r.shared.slots.unqueued() >= maxQueued:
		return &TooManyError{Limit: maxQueued, Running: r.running("")}
	}
	return nil
}

// maxQueued bounds the jobs that are queued: each takes memory, and a client that starts jobs in a
// loop must learn that nothing comes of it.
const maxQueued = 1000

// issue returns the id of a job that starts now. The caller holds r.mu.
func (r *Registry) issue(now time.Time) string {
	r.since = min(r.since, ulid.Timestamp(now)) // the clock can be set back
	return newID(now)
}

// newID returns an id that can't be guessed. All of the 80 bits that follow the time are random: a
// monotonic ULID counts on within a millisecond, and one id could reveal the next
// (https://github.com/ulid/spec#monotonicity).
func newID(now time.Time) string {
	return ulid.MustNew(ulid.Timestamp(now), rand.Reader).String()
}

// run is the life of a job. By the time its waiters are released there is room for another job.
func (r *Registry) run(ctx context.Context, j *Job, run Runner) {
	defer r.wg.Done()
	j.end(run.Run(ctx, &Port{j}))
	r.retire(j)
	j.release()
	r.prune()
}

// retire makes room for another job and counts how j has ended. It is not part of run, because the
// frame of run is on the stack of every running job, and a Record is large.
func (r *Registry) retire(j *Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unended--
	r.shared.slots.release(j)
	r.ended[j.Record().Status]++
	j.counted = true
	r.retention.add(j)
}

// Get returns a job, of an earlier registry, too. Its id can be in lower case, with blanks around
// it. The error is a *[NotFoundError].
func (r *Registry) Get(id string) (*Job, error) {
	if j := r.Lookup(canonical(id)); j != nil {
		return j, nil
	}
	if r.replaces(canonical(id)) {
		return nil, r.notFound(id)
	}
	if j := r.lookupPast(canonical(id)); j != nil {
		return j, nil
	}
	if len(canonical(id)) == ulid.EncodedSize {
		for p := range r.shared.store.Past(canonical(id)) {
			return r.addPast(p), nil
		}
	}
	return nil, r.notFound(id)
}

// pastKept is how many jobs of earlier registries are remembered: a client that reads an output in
// parts does not have it looked for again with each.
const pastKept = 20

// lookupPast returns a remembered job of an earlier registry, or nil.
func (r *Registry) lookupPast(id string) *Job {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.IndexFunc(r.past, func(j *Job) bool { return j.ID() == id }); i >= 0 {
		return r.past[i]
	}
	return nil
}

// addPast remembers a job of an earlier registry, and returns it.
func (r *Registry) addPast(p Past) *Job {
	if j := r.lookupPast(p.Record.ID); j != nil {
		return j
	}
	j := r.shared.pastJob(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.past = append(r.past, j)
	if len(r.past) > pastKept {
		r.past = slices.Delete(r.past, 0, 1)
	}
	return j
}

// Lookup returns the job of this registry with that id, or nil if it is forgotten.
func (r *Registry) Lookup(id string) *Job {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.jobs[id]
}

// replaces reports whether this registry has or had a job with that id. Then a job of an earlier registry with
// that id has gone on as this one, see [Registry.StartAs].
func (r *Registry) replaces(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.jobs[id] != nil || r.retention.knew(id)
}

// notFound returns the error for an id that no job has.
func (r *Registry) notFound(id string) error {
	var past []Record
	for p := range r.shared.store.Past("") {
		if !r.replaces(p.Record.ID) {
			past = append(past, p.Record)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return &NotFoundError{ID: id, Nearest: r.nearest(id, past), Forgotten: r.retention.knew(canonical(id)), Earlier: r.predates(canonical(id))}
}

// predates reports whether an earlier server can have given an id, or a shortened one: the id can
// be older than this server, which has given no such id. The caller holds r.mu.
func (r *Registry) predates(prefix string) bool {
	missing := ulid.EncodedSize - len(prefix)
	if missing < 0 || len(prefix) < leastPrefix {
		return false
	}
	oldest, err := ulid.ParseStrict(prefix + strings.Repeat("0", missing))
	if err != nil || oldest.Time() >= r.since || r.gave(prefix) {
		return false
	}
	return missing == 0 || r.since-oldest.Time() < uint64(oldestPrefix.Milliseconds())
}

// oldestPrefix bounds how much older than the server a shortened id can be. Without it, eight
// digits that are a date or a number would count as an id of long ago.
const oldestPrefix = 365 * 24 * time.Hour

// gave reports whether the id of a job begins with prefix, even if the job has been forgotten. The
// caller holds r.mu.
func (r *Registry) gave(prefix string) bool {
	begins := func(id string) bool { return strings.HasPrefix(id, prefix) }
	return slices.ContainsFunc(r.order, func(j *Job) bool { return begins(j.ID()) }) ||
		slices.ContainsFunc(r.retention.trail, func(id ulid.ULID) bool { return begins(id.String()) })
}

// canonical returns an id as the registry writes it.
func canonical(id string) string { return strings.ToUpper(strings.TrimSpace(id)) }

// leastPrefix is the length of the shortest prefix that can stand for an id.
const leastPrefix = 8

// Find returns the job with that id, or else the one whose id has that prefix. The error is a
// *[NotFoundError] or, if several ids have the prefix, an *[AmbiguousError].
func (r *Registry) Find(id string) (*Job, error) {
	prefix := canonical(id)
	if len(prefix) < leastPrefix || len(prefix) >= ulid.EncodedSize {
		return r.Get(id)
	}
	var all []*Job
	for _, j := range slices.Backward(r.own()) {
		if strings.HasPrefix(j.ID(), prefix) {
			all = append(all, j)
		}
	}
	for p := range r.shared.store.Past(prefix) {
		if !r.replaces(p.Record.ID) {
			all = append(all, r.addPast(p))
		}
	}
	switch len(all) {
	case 0:
		return nil, r.notFound(id)
	case 1:
		return all[0], nil
	}
	ambiguous := &AmbiguousError{Prefix: prefix}
	for _, j := range all {
		ambiguous.Jobs = append(ambiguous.Jobs, j.Record())
	}
	return nil, ambiguous
}

// A Filter selects jobs of a list. A zero field selects all.
type Filter struct {
	Status  []Status
	Session string
	Before  string // only jobs started before the one with this id
	Limit   int
}

// List returns the jobs, newest first, and after them those of earlier registries. If the job that
// Before names has been forgotten, the time in its id counts.
func (r *Registry) List(f Filter) (list []Record) {
	for record := range r.All(f) {
		if list = append(list, record); len(list) == f.Limit {
			break
		}
	}
	return list
}

// All is List without its limit: it reads no more of earlier jobs than the iteration asks for.
func (r *Registry) All(f Filter) iter.Seq[Record] {
	return func(yield func(Record) bool) {
		follows := r.follows(canonical(f.Before))
		for _, j := range slices.Backward(r.own()) {
			if record := j.Record(); follows(record) && f.matches(record) && !yield(record) {
				return
			}
		}
		if len(f.Status) > 0 && !slices.ContainsFunc(f.Status, Status.Final) {
			return // past jobs have ended
		}
		for p := range r.shared.store.Past("") {
			if !r.replaces(p.Record.ID) && follows(p.Record) && f.matches(p.Record) && !yield(p.Record) {
				return
			}
		}
	}
}

// own returns the jobs of this registry in the order of their starts.
func (r *Registry) own() []*Job {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.order)
}

// matches reports whether a record is of the session and of a status that f selects.
func (f Filter) matches(record Record) bool {
	return (f.Session == "" || record.Session == f.Session) && (len(f.Status) == 0 || slices.Contains(f.Status, record.Status))
}

// follows returns a function that reports whether a job is listed after the one with that id. It
// must be given all jobs in the order of the list.
func (r *Registry) follows(id string) func(Record) bool {
	known := r.Lookup(id) != nil
	if id != "" && !known {
		for range r.shared.store.Past(id) {
			known = true
		}
	}
	u, err := ulid.ParseStrict(id)
	reached := id == ""
	return func(record Record) bool {
		if known || reached {
			was := reached
			reached = reached || record.ID == id
			return was
		}
		return err == nil && ulid.Timestamp(record.Created) < u.Time()
	}
}

// Usage returns the space that the output of the jobs takes on disk.
func (r *Registry) Usage() output.Usage { return r.logs.Usage() }

// Close refuses new jobs, asks every job to end and waits until all have ended. Their records and
// output stay readable. A later Close with a higher rung raises the stops of the first.
func (r *Registry) Close(st Stop) {
	r.StopAll(st)
	r.wg.Wait()
}

// StopAll is the first half of Close: it lets no job start any more and asks all to stop.
func (r *Registry) StopAll(st Stop) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.retention.close()
	for _, j := range r.order {
		j.Stop(st)
	}
}

// A Count is the number of jobs.
type Count struct {
	By      map[Status]int
	Running int // jobs that run here
	There   int // jobs at places that have not ended
	Max     int // the most that may run at once
	Lossy   int // jobs that lost output because a disk failed
}

// Count counts the jobs of this registry that are kept.
func (r *Registry) Count() Count {
	c := Count{By: make(map[Status]int)}
	c.Running, c.Max = r.shared.slots.running(), r.shared.slots.max
	for _, j := range r.own() {
		record := j.Record()
		c.By[record.Status]++
		if record.Place != "" && !record.Status.Final() {
			c.There++
		}
		if record.Output.Loss.Disk > 0 {
			c.Lossy++
		}
	}
	return c
}
