package mcpserver

import (
	"sync"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/report"
)

// losses announces the deaths of idle Python interpreters, each once to a connection, in the next
// reply. If that is dropped, a later one announces them again. The zero value is ready to use.
type losses struct {
	mu        sync.Mutex
	announced map[[2]string]bool // by session and last job
}

// announce adds the losses that are not announced yet to a reply. retract makes a later reply
// announce them again.
func (l *losses) announce(r *report.Reply, all []*engine.Loss) (retract func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var keys [][2]string
	for _, loss := range all {
		key := [2]string{loss.Session, loss.Job}
		if l.announced[key] {
			continue
		}
		if l.announced == nil {
			l.announced = make(map[[2]string]bool)
		}
		l.announced[key] = true
		keys = append(keys, key)
		r.Insert("Lost", loss.String())
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, key := range keys {
			delete(l.announced, key)
		}
	}
}
