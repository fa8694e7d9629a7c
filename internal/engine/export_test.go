package engine

import "time"

// SetKeptRest changes how long a kept session can be idle.
func (e *Engine) SetKeptRest(d time.Duration) { e.keptRest = d }
