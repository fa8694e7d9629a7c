//go:build unix

package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"asyncrepl/internal/reply/overview"
	"asyncrepl/shell"
)

// maxShells bounds the shell sessions of an engine. One more replaces the shell session that has
// been idle longest, which a client makes again with one command line.
const maxShells = 50

// shellSession returns the shell session of a name, and makes it, with dir for its first command,
// if there is none.
func (e *Engine) shellSession(name, dir string) (*shell.Session, error) {
	if !shell.CanCarry(e.config.Shell) {
		return nil, fmt.Errorf("shell_session needs bash, sh, dash or ash, and the shell here is %s (REPL_SHELL): leave it out", e.config.Shell)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.shells[name]; s != nil {
		return s, nil
	}
	if len(e.shells) >= maxShells {
		if !e.dropShell() {
			return nil, fmt.Errorf("%d shell sessions are busy, the most allowed: use one of them, or wait until a command of one has ended", maxShells)
		}
	}
	if e.shells == nil {
		e.shells = make(map[string]*shell.Session)
	}
	s := shell.NewSession(name, dir)
	e.shells[name] = s
	return s, nil
}

// dropShell drops the shell session that has been idle longest. It reports whether any was idle.
// The caller holds mu.
func (e *Engine) dropShell() bool {
	idlest, since := "", time.Time{}
	for name, s := range e.shells {
		if at, _ := s.Idle(); !at.IsZero() && (idlest == "" || at.Before(since)) {
			idlest, since = name, at
		}
	}
	delete(e.shells, idlest)
	return idlest != ""
}

// Shells returns the state of the shell sessions in the order of their names.
func (e *Engine) Shells() []overview.Shell {
	e.mu.Lock()
	all := maps.Clone(e.shells)
	e.mu.Unlock()
	var list []overview.Shell
	for name, s := range all {
		idle, dir := s.Idle()
		list = append(list, overview.Shell{Name: name, Dir: dir, Idle: idle})
	}
	slices.SortFunc(list, func(a, b overview.Shell) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
