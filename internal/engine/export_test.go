package engine

import (
	"time"

	"asyncrepl/internal/process"
)

// Owner returns what starts the processes of the engine.
func (e *Engine) Owner() *process.Owner { return e.owner }

// SetKeptRest changes how long a kept session can be idle.
func (e *Engine) SetKeptRest(d time.Duration) { e.keptRest = d }
