//go:build unix

package sockets

import (
	"context"
	"fmt"
	"os"
)

// A Door is where an engine gets the connections of others. A [Listener] is one.
type Door interface {
	Accept() (*Conn, error) // returns the next connection
	Touch()                 // notes that the client has left now
	Found() bool            // reports whether others find the engine
	Close() error           // makes Accept fail; it can be called several times
}

// Surroundings are how an engine and the other engines of its user find each other.
type Surroundings struct {
	// Places are the paths that the directory of its socket can have, see [Places]. Search are those
	// that the directories of other engines' sockets can have.
	Places, Search []string
	Identity       func() (string, error) // computes the identity of the engine, see [Identity]
}

// PID returns the process that others know the engine by.
func (Surroundings) PID() int { return os.Getpid() }

// Self returns the name of the engine.
func (s Surroundings) Self() (Name, error) {
	identity, err := s.Identity()
	if err != nil {
		err = fmt.Errorf("finding the identity of the engine: %w", err)
	}
	return Name{identity, os.Getpid()}, err
}

// Listen listens in the first of the places that can be used.
func (s Surroundings) Listen() (Door, error) {
	self, err := s.Self()
	if err != nil {
		return nil, err
	}
	dir, err := OpenFirst(s.Places)
	if err != nil {
		return nil, err
	}
	l, err := dir.Listen(self.Identity)
	if err != nil {
		dir.Close()
		return nil, err
	}
	return l, nil
}

// Others asks the other engines of the workspace for their state, and calls f with the answer of each.
func (s Surroundings) Others(ctx context.Context, f func(Name, Welcome)) {
	self, err := s.Self()
	if err != nil {
		return // the engine has no name either
	}
	dirs, _ := OpenAll(s.Search) // an error: no engine of ours is there
	for _, dir := range dirs {
		defer dir.Close()
		names, _ := dir.Names() // an error: there are none
		for _, name := range names {
			if name.PID == self.PID || name.Identity[:workspaceLen] != self.Identity[:workspaceLen] {
				continue
			}
			if c, w, err := dir.Dial(ctx, name, Hello{Role: Person}); err == nil {
				c.Close()
				f(name, w)
			}
		}
	}
}
