package pyrepl

import (
	"context"

	"asyncrepl/pyrepl/worker"
)

// Imported returns the modules of the list that the session has imported. It does not wait for a
// busy session, but returns none.
func (s *Session) Imported(ctx context.Context, modules []string) ([]string, error) {
	var known []string
	err := s.ask(func(w *worker.Worker) (err error) { known, err = w.Imported(ctx, modules); return err }, func() {})
	return known, err
}
