//go:build unix

package engine

import (
	"asyncrepl/internal/report"
	"asyncrepl/pyrepl"
)

// checkpointsOf returns the checkpoints of a tenant's sessions. The caller holds mu.
func (e *Engine) checkpointsOf(tenant string) *pyrepl.Checkpoints {
	if e.kept[tenant] == nil {
		e.kept[tenant] = new(pyrepl.Checkpoints)
	}
	return e.kept[tenant]
}

// checkpoints returns the state of the checkpoints of the scope's tenant, the oldest first.
func (e *Engine) checkpoints(sc Scope) (list []report.Checkpoint) {
	e.mu.Lock()
	kept := e.checkpointsOf(sc.Tenant)
	e.mu.Unlock()
	for _, c := range kept.List() {
		list = append(list, report.Checkpoint(c))
	}
	return list
}
