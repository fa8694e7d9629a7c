package jobs

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"asyncrepl/internal/output"
)

// A Config configures a [Registry]. A zero field takes the default named. Bug is
// called in the middle of a move: it must not ask the job about itself.
type Config struct {
	Store      Store            // records are kept in memory
	Logs       output.Store     // output.NewStore(output.Config{})
	MaxRunning int              // 1,000 jobs that have not ended
	Keep       int              // 1,000 jobs of each tenant that have
	MaxAge     time.Duration    // 7 days after the end
	Bug        func(msg string) // told of defects of this program; nil: panic
	Log        *slog.Logger     // told what the store could not do; nil: nobody
}

// A Registry starts jobs and remembers them.
type Registry struct {
	keep keeper
	logs output.Store
	max  int
	wg   sync.WaitGroup // one for each job that has not ended; added to under mu

	mu        sync.Mutex
	closed    bool
	running   int
	jobs      map[string]*Job
	order     []*Job // as they were started
	retention retention
}

// NewRegistry returns an empty registry.
func NewRegistry(c Config) *Registry {
	if c.Store == nil {
		c.Store = inMemory{}
	}
	if c.Logs == nil {
		c.Logs = output.NewStore(output.Config{})
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Registry{
		keep: keeper{store: c.Store, bug: c.Bug, log: c.Log},
		logs: c.Logs,
		max:  cmp.Or(c.MaxRunning, 1000),
		jobs: make(map[string]*Job),
		retention: retention{
			keep:   cmp.Or(c.Keep, 1000),
			maxAge: cmp.Or(c.MaxAge, 7*24*time.Hour),
		},
	}
}

// Start starts a job. It outlives the call that started it: only [Job.Stop], its
// timeout and [Registry.Close] ask it to end. The error is [ErrShutdown] or a
// *[TooManyError].
func (r *Registry) Start(spec Spec, run Runner) (*Job, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, ErrShutdown
	}
	if r.running >= r.max {
		return nil, &TooManyError{Limit: r.max, Oldest: r.oldest(spec.Tenant)}
	}
	now := time.Now()
	id := newID(now)
	ctx, cancel := context.WithCancelCause(context.Background())
	j := &Job{
		log:    r.logs.NewLog(id),
		cancel: cancel,
		done:   make(chan struct{}),
		keep:   &r.keep,
		input:  make(chan struct{}, 1), // one token
		info:   Info{ID: id, Spec: spec, Status: Queued, Created: now},
	}
	r.jobs[id] = j
	r.order = append(r.order, j)
	r.running++
	r.wg.Add(1)
	if q, ok := run.(Queuer); ok {
		q.Queue(&Port{j})
	}
	go r.run(ctx, j, run) // owned by the registry, ends with the job; Close waits for it
	return j, nil
}

// newID returns an id that nobody can guess: all of its 80 bits behind the time
// are random, also for jobs of one millisecond.
func newID(now time.Time) string {
	return ulid.MustNew(ulid.Timestamp(now), rand.Reader).String()
}

// run is the life of a job. There is room for another one before anybody hears of
// its end.
func (r *Registry) run(ctx context.Context, j *Job, run Runner) {
	defer r.wg.Done()
	j.save()
	j.end(run.Run(ctx, &Port{j}))
	r.mu.Lock()
	r.running--
	r.retention.ended(j)
	r.mu.Unlock()
	j.release()
	r.prune()
}

// oldest returns the oldest running job of the tenant. The caller holds r.mu.
func (r *Registry) oldest(tenant string) Info {
	for _, j := range r.order {
		if info := j.Info(); info.Tenant == tenant && !info.Status.Final() {
			return info
		}
	}
	return Info{}
}

// Get returns a job of the tenant. The error is a *[NotFoundError].
func (r *Registry) Get(tenant, id string) (*Job, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if j, ok := r.jobs[id]; ok && j.info.Tenant == tenant {
		return j, nil
	}
	return nil, &NotFoundError{ID: id, Nearest: r.nearest(tenant, id), Forgotten: r.retention.knew(tenant, id)}
}

// A Filter chooses jobs of a list. A zero field chooses all.
type Filter struct {
	Status  []Status
	Session string
	Before  string // only jobs started before the one of this id
	Limit   int
}

// List returns the jobs of the tenant, newest first. Where Before is a job that
// was forgotten, the time in its id counts.
func (r *Registry) List(tenant string, f Filter) []Info {
	var list []Info
	for _, j := range slices.Backward(r.before(tenant, f.Before)) {
		if j.info.Tenant != tenant || f.Session != "" && j.info.Session != f.Session {
			continue
		}
		info := j.Info()
		if len(f.Status) > 0 && !slices.Contains(f.Status, info.Status) {
			continue
		}
		list = append(list, info)
		if len(list) == f.Limit {
			break
		}
	}
	return list
}

// before returns the jobs started before that of the id, in order.
func (r *Registry) before(tenant, id string) []*Job {
	r.mu.Lock()
	defer r.mu.Unlock()
	order := slices.Clone(r.order)
	if id == "" {
		return order
	}
	if j, ok := r.jobs[id]; ok && j.info.Tenant == tenant {
		return order[:slices.Index(order, j)]
	}
	u, err := ulid.ParseStrict(id)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(order, func(j *Job) bool { return ulid.Timestamp(j.info.Created) >= u.Time() })
}

// Usage returns what the output of the jobs takes on disk.
func (r *Registry) Usage() output.Usage { return r.logs.Usage() }

// Close refuses new jobs, asks every job to end and waits until all have. What
// they left stays readable. A later Close with a higher rung raises the stops of
// the one that waits.
func (r *Registry) Close(st Stop) {
	r.mu.Lock()
	r.closed = true
	r.retention.close()
	for _, j := range r.order {
		j.Stop(st)
	}
	r.mu.Unlock()
	r.wg.Wait()
}

// A TooManyError says that no job can be started before another has ended.
type TooManyError struct {
	Limit  int
	Oldest Info // the oldest one of the tenant who asked; without an ID if it has none
}

func (e *TooManyError) Error() string {
	return fmt.Sprintf("%d jobs are running, the most allowed", e.Limit)
}
