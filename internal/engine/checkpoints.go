//go:build unix

package engine

import (
	"asyncrepl/internal/report"
)

// checkpoints returns the state of the checkpoints, the oldest first.
func (e *Engine) checkpoints() (list []report.Checkpoint) {
	for _, c := range e.kept.List() {
		list = append(list, report.Checkpoint(c))
	}
	return list
}
