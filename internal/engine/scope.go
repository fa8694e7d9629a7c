package engine

import (
	"cmp"
	"time"
)

// DefaultGrace is how long an execute or send call waits for the end of its job if neither the
// scope nor the call says.
const DefaultGrace = 2 * time.Second

// DefaultSession is the Python session of a scope that names none.
const DefaultSession = "default"

// A Scope is what one connection can see, and where its jobs run.
type Scope struct {
	Tenant    string        // whose jobs and sessions; those of others are not found
	Workspace string        // an absolute path; relative directories start there
	Env       []string      // KEY=value, the environment that jobs start from
	Session   string        // the Python session meant if none is named; empty: DefaultSession
	Grace     time.Duration // how long execute, send and cancel calls wait; 0: DefaultGrace
	Timeout   time.Duration // of jobs whose call sets none; 0: none
}

// GraceTime returns the scope's Grace or the default.
func (s Scope) GraceTime() time.Duration { return cmp.Or(s.Grace, DefaultGrace) }

// SessionName returns the name of the session that a call means by name, which can be empty.
func (s Scope) SessionName(name string) string { return cmp.Or(name, s.Session, DefaultSession) }
