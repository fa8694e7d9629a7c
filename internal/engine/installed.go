//go:build unix

package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"asyncrepl/pkgmgr"
)

// installed returns a note for each package of an install that a session has imported in an earlier
// version. It asks every session with that environment of Python, which clients with different
// variables can share. New packages need no note: an import finds them.
func (e *Engine) installed(ctx context.Context, packages *pkgmgr.Manager, changes pkgmgr.Changes) (notes []string) {
	replaced := map[string]string{} // by module: the package that has it, with the new version
	for _, p := range changes.Installed {
		if p.Before != "" {
			for _, module := range p.Modules() {
				replaced[module] = p.Name + " " + p.Version
			}
		}
	}
	modules := slices.Sorted(maps.Keys(replaced))
	e.mu.Lock()
	sessions := maps.Clone(e.sessions)
	e.mu.Unlock()
	if len(modules) == 0 {
		sessions = nil
	}
	for name, s := range sessions {
		if !s.packages.Shares(packages) {
			continue
		}
		imported, err := s.Imported(ctx, modules)
		if err != nil {
			e.config.Log.Debug("asking a session for its modules", "session", name, "err", err)
		}
		noted := map[string]bool{}
		for _, module := range imported {
			if pkg := replaced[module]; !noted[pkg] {
				noted[pkg] = true
				notes = append(notes, fmt.Sprintf("session %s has imported %s before; restart its Python to use %s there", name, module, pkg))
			}
		}
	}
	slices.Sort(notes)
	if changes.Gone != "" {
		gone := fmt.Sprintf("the environment %s is gone, this is %s: restart the Python of sessions that still run in the old one", changes.Gone, changes.Dir)
		notes = slices.Insert(notes, 0, gone)
	}
	return notes
}
