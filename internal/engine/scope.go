package engine

import (
	"cmp"
	"time"
)

// DefaultGrace is how long an execute or send call waits for its job to end if neither the scope
// nor the call sets a time.
const DefaultGrace = 2 * time.Second

// defaultSession is the Python session of a scope that names none.
const defaultSession = "default"

// A Scope is where and how the jobs of one connection run, if its calls do not say.
type Scope struct {
	Workspace string        // an absolute path; relative directories start there
	Env       []string      // KEY=value, the environment that jobs start from
	Session   string        // the Python session of calls that name none; empty: defaultSession
	Grace     time.Duration // how long execute, send and cancel calls wait; 0: DefaultGrace
	Timeout   time.Duration // of jobs for which the call sets none; 0: none
}

// GraceTime returns the scope's Grace or the default.
func (s Scope) GraceTime() time.Duration { return cmp.Or(s.Grace, DefaultGrace) }

// SessionName returns the session for a call that gives name: name itself or, if it is empty, the
// scope's session or the default.
func (s Scope) SessionName(name string) string { return cmp.Or(name, s.Session, defaultSession) }
