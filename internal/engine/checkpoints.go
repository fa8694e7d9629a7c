//go:build unix

package engine

import (
	"asyncrepl/internal/reply/overview"
)

// checkpoints returns the state of the checkpoints, the oldest first.
func (e *Engine) checkpoints() (list []overview.Checkpoint) {
	for _, c := range e.kept.List() {
		list = append(list, overview.Checkpoint(c))
	}
	return list
}
