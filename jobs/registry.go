package jobs

import (
	"fmt"
	"log/slog"
	"time"
)

// A Config configures a [Registry]; zero fields take the defaults named.
type Config struct {
	Store      Store            // in memory
	MaxRunning int              // 1,000 jobs that have not ended
	Keep       int              // 1,000 ended jobs
	MaxAge     time.Duration    // 7 days after the end
	Bug        func(msg string) // told of a defect; nil: panic
	Log        *slog.Logger     // discards
}

// A TooManyError says that no job can be started before another ends.
type TooManyError struct {
	Limit  int
	Oldest Info // of the same tenant; no ID if it has none
}

func (e *TooManyError) Error() string {
	return fmt.Sprintf("%d jobs are running, the most allowed", e.Limit)
}

// A NotFoundError says that a tenant has no job of that id.
type NotFoundError struct {
	ID        string
	Nearest   []Info // the most similar ids first
	Forgotten bool   // there was one
}

func (e *NotFoundError) Error() string { return "no such job: " + e.ID }

// A Filter chooses jobs of a list; a zero field chooses all.
type Filter struct {
	Status  []Status
	Session string
	Before  string // only jobs older than this one
	Limit   int
}

// A Registry starts jobs and remembers them.
type Registry struct{}

// NewRegistry returns an empty registry.
func NewRegistry(c Config) *Registry { panic("skeleton") }

// Start starts a job.
func (r *Registry) Start(spec Spec, run Runner) (*Job, error) { panic("skeleton") }

// Get returns a job of the tenant.
func (r *Registry) Get(tenant, id string) (*Job, error) { panic("skeleton") }

// List returns the jobs of the tenant, newest first.
func (r *Registry) List(tenant string, f Filter) []Info { panic("skeleton") }

// Close refuses new jobs, stops every job and waits for their ends.
func (r *Registry) Close(st Stop) { panic("skeleton") }
