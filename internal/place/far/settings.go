package far

import "time"

// Settings say how an engine at a place is made. Their JSON is an argument of a command there, where
// every user of the machine can read it: they hold no secret.
type Settings struct {
	Key       string `json:"key"` // names the engine among those of its user
	Workspace string `json:"workspace"`
	Python    string `json:"python,omitempty"` // the interpreter; empty: the engine finds one

	Linger time.Duration `json:"linger_ns"`         // how long the engine continues while no server is connected
	Idle   time.Duration `json:"idle_ns,omitempty"` // when an unused engine gives its allocation back; 0: it is in none

	MaxJobs     int           `json:"max_jobs,omitempty"`
	MaxSessions int           `json:"max_sessions,omitempty"`
	MemoryMB    int           `json:"memory_mb,omitempty"`
	MaxOutput   int64         `json:"max_output,omitempty"` // bytes of the output of one job
	MaxState    int64         `json:"max_state,omitempty"`  // bytes of all output
	SessionTTL  time.Duration `json:"session_ttl_ns,omitempty"`
	Timeout     time.Duration `json:"timeout_ns,omitempty"` // for jobs whose call sets no timeout
	NoHistory   bool          `json:"no_history,omitempty"`
}
