package pyrepl

import "context"

// Refresh makes modules that have just been installed importable in the session. An interpreter
// reads .pth files when it starts; those at paths are new or have changed, and the worker reads
// them before the next job.
func (s *Session) Refresh(paths []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.w == nil {
		return
	}
	s.fresh = true
	s.paths = append(s.paths, paths...)
}

// takeRefresh returns what Refresh was called for since takeRefresh was called last.
func (s *Session) takeRefresh() (fresh bool, paths []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh, paths = s.fresh, s.paths
	s.fresh, s.paths = false, nil
	return fresh, paths
}

// Imported returns the modules, of those named, that the session has imported. It does not wait for
// a busy session, and returns none of it.
func (s *Session) Imported(ctx context.Context, modules []string) ([]string, error) {
	ev, err := s.ask(ctx, func(n int) command { return importedCommand{n, modules} }, func() {})
	known, _ := ev.(importedEvent)
	return known.Modules, err
}
