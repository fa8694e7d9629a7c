package pyrepl

import "context"

// Refresh makes modules that were installed just now importable in the session.
// Interpreters read .pth files when they start: those at paths are new or
// changed, and read before the next job.
func (s *Session) Refresh(paths []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.w == nil {
		return
	}
	s.fresh = true
	s.paths = append(s.paths, paths...)
}

// refreshed reports what Refresh was called for since it was last asked.
func (s *Session) refreshed() (fresh bool, paths []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh, paths = s.fresh, s.paths
	s.fresh, s.paths = false, nil
	return fresh, paths
}

// Imported returns those of the modules that the session has imported. A busy
// session is not waited for: nothing is known of it then.
func (s *Session) Imported(ctx context.Context, modules []string) ([]string, error) {
	ev, err := s.ask(ctx, func(n int) command { return importedCommand{n, modules} }, func() {})
	known, _ := ev.(importedEvent)
	return known.Modules, err
}

// ask sends a numbered command to the worker of an idle session and returns the answer. It is nil
// if the session has no worker, or is busy: then busy is called, with mu held.
func (s *Session) ask(ctx context.Context, cmd func(n int) command, busy func()) (event, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	if s.turn != nil {
		defer s.mu.Unlock()
		busy()
		return nil, nil
	}
	t := &ticket{ready: make(chan struct{})}
	s.turn = t
	w := s.w
	s.mu.Unlock()
	defer s.release(t, "")
	if w == nil {
		return nil, nil
	}
	w.asked++
	if err := w.ch.send(cmd(w.asked)); err != nil {
		return nil, err
	}
	return w.await(ctx, w.asked)
}
