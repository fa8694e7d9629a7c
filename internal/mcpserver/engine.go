package mcpserver

import (
	"context"
	"log/slog"
	"time"

	"asyncrepl/internal/report"
	"asyncrepl/jobs"
)

// DefaultGrace is how long an execute or send call waits for the end of its job
// where neither the engine nor the call says otherwise.
const DefaultGrace = 2 * time.Second

// DefaultSession is the Python session of a scope that names none.
const DefaultSession = "default"

// An Engine is what all connections of one server share. It is not changed once
// the first connection is served.
type Engine struct {
	Jobs    *jobs.Registry
	Runners Runners

	Grace    time.Duration // of execute, send and cancel calls; 0: DefaultGrace
	Timeout  time.Duration // of jobs whose call sets none; 0: none
	Progress time.Duration // how long a call waits before its client is told how things stand, if it wishes to be; 0: 1 s
	Version  string        // of this server, told to clients

	// Status tells how the engine stands, within milliseconds. Nil: only what
	// the jobs tell is told.
	Status func(ctx context.Context, sc Scope) ServerStatus

	Log *slog.Logger // nil: nothing is logged
}

func (e *Engine) grace() time.Duration {
	if e.Grace == 0 {
		return DefaultGrace
	}
	return e.Grace
}

func (e *Engine) log() *slog.Logger {
	if e.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return e.Log
}

// What an engine tells of itself is put into words by package report.
type (
	ServerStatus  = report.ServerStatus
	SessionStatus = report.SessionStatus
)

// A Scope is what one connection may see and where its jobs run.
type Scope struct {
	Tenant    string   // whose jobs and sessions; those of others are not found
	Workspace string   // an absolute path; relative directories start there
	Env       []string // KEY=value, the environment that jobs start from
	Session   string   // the Python session meant where none is named; empty: DefaultSession
}

func (s Scope) session() string {
	if s.Session == "" {
		return DefaultSession
	}
	return s.Session
}

// Runners makes the runners of jobs. Its methods are called by several
// goroutines at once and answer at once: what takes time belongs in the runner.
// Their errors are shown to clients and name the remedy.
type Runners interface {
	// Python returns a session, which is made if need be and starts nothing
	// before its first job.
	Python(sc Scope, session string) (PythonSession, error)
	// Shell returns a runner of one command line.
	Shell(sc Scope, req ShellRequest) (jobs.Runner, error)
	// Install returns a runner that installs packages for a session.
	Install(sc Scope, session, packages string) (jobs.Runner, error)
}

// A PythonSession is a named namespace that outlives its jobs.
type PythonSession interface {
	// Exec returns a runner of code.
	Exec(code string) jobs.Runner
	// Variables tells the names of the namespace; a busy session answers at
	// once with those last known.
	Variables(ctx context.Context) (Variables, error)
	// Restart ends the interpreter and all that its jobs left behind. It has taken
	// effect when it returns: what is started from then on runs in the next one.
	// That the last one has ended is waited for by wait, which tells whether there
	// was one and what could not be ended; its error says that ctx was done before.
	Restart(by jobs.By) (wait func(ctx context.Context) (had bool, survivors []jobs.Process, err error), err error)
}

// Variables is what is known of a namespace.
type Variables struct {
	Vars  []Variable
	Total int    // with those that are not in Vars
	AsOf  string // the job after which they were as told; empty: now
	Busy  string // the job that the session is at, if Vars are not of now
}

// A Variable is one name of a namespace.
type Variable struct {
	Name  string
	Type  string // empty: not known
	Value string // empty: only Type and Size are told
	Size  int64  // bytes; 0: not known
}

// A ShellRequest is one command line to run.
type ShellRequest struct {
	Command string            // for the shell's -c; it may have several lines
	Dir     string            // an existing directory
	Env     map[string]string // on top of the scope's
	TTY     bool              // on a terminal; else on pipes
}
