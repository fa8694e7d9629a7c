package pyrepl

import "context"

// Imported returns those of the modules that the session has imported. It does not wait for a busy
// session, but returns none.
func (s *Session) Imported(ctx context.Context, modules []string) ([]string, error) {
	ev, err := s.ask(ctx, func(n int) command { return importedCommand{n, modules} }, func() {})
	known, _ := ev.(importedEvent)
	return known.Modules, err
}
