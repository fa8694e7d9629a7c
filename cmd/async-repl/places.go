//go:build unix

package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/server"
	"asyncrepl/internal/place"
	"asyncrepl/internal/place/config"
	"asyncrepl/internal/place/far"
	"asyncrepl/internal/place/keyfile"
)

// readPlaces reads the file of places, if there is one.
func (s *settings) readPlaces() (err error) {
	if s.places == "" {
		return nil
	}
	if s.sandbox.On {
		return errors.New("-places (REPL_PLACES) can't be used with -sandbox (REPL_SANDBOX), because jobs at a place would not be confined: leave one of them out")
	}
	workspace := s.Workspace
	if s.access.tokens != "" { // the tenants' own are below it
		workspace = ""
	}
	if s.placeList, err = config.Read(s.places, workspace, os.Environ()); err != nil {
		return err
	}
	if err := place.Check(s.placeList); err != nil {
		return fmt.Errorf("reading the places in %q: %w", s.places, err)
	}
	s.Away = s.openPlaces
	return nil
}

// openPlaces returns the places of an engine. It takes over what an earlier server of the workspace has left
// there.
func (s *settings) openPlaces(e *engine.Engine, log *slog.Logger) (engine.Away, error) {
	c := place.Config{Places: s.placeList, Jobs: e.Jobs(), Version: s.Version, Env: os.Environ(), Log: log, Limits: far.Settings{
		MaxJobs: s.MaxJobs, MaxSessions: s.MaxSessions, MemoryMB: s.MemoryMB, MaxOutput: s.MaxOutput, MaxState: s.MaxState,
		SessionTTL: s.SessionTTL, Timeout: s.timeout, NoHistory: s.NoHistory,
	}}
	if s.StateDir != "" {
		file, err := keyfile.TakeOver(filepath.Join(s.StateDir, "places"), e.Workspace(), s.places)
		if err != nil {
			log.Warn("no later server will find what this one has at places", "error", err)
		}
		c.File = file
	}
	if c.File == nil {
		c.Key = rand.Text()
	}
	ps, err := place.New(c)
	if err != nil {
		return nil, fmt.Errorf("opening the places in %q: %w", s.places, err)
	}
	if c.File != nil && len(c.File.Engines()) > 0 && !s.NoHistory {
		ps.Adopt(e.Placed())
	}
	return ps, nil
}

// placesOf returns the places of an engine for its tools, or nil if there are none. Without an engine it returns
// what the list of tools needs.
func (s *settings) placesOf(e *engine.Engine) server.Places {
	switch {
	case s.places == "":
		return nil
	case e == nil:
		return place.Named(s.placeList)
	}
	return e.Away().(*place.Places)
}
