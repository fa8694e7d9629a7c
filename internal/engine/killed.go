//go:build unix

package engine

import (
	"fmt"
	"strings"
	"time"

	"asyncrepl/internal/history"
	"asyncrepl/internal/text/view"
)

// killedLimit bounds how long the processes of a server that was killed are waited for: a reply
// waits.
const killedLimit = time.Second

// Killed says what earlier servers in the workspace took along when they were killed, a line for each.
// The first call ends the processes that they have left, if their guards were killed, too. Until
// KilledSaid is called, later calls return the same, and so does the next server if this one is killed.
func (e *Engine) Killed() []string {
	e.settling.Lock()
	defer e.settling.Unlock()
	if e.settled || e.config.OnlyReads {
		return e.killed
	}
	e.killed = nil
	var runs []history.Killed
	runs, e.settled = e.records.Settle()
	for _, k := range runs {
		e.killed = append(e.killed, killedText(k))
	}
	return e.killed
}

// KilledSaid notes that a client was told what Killed has returned.
func (e *Engine) KilledSaid() {
	e.settling.Lock()
	defer e.settling.Unlock()
	e.killed = nil
	e.records.Said()
}

// How many jobs, sessions and variables a line names.
const (
	killedJobs      = 3
	killedSessions  = 2
	killedVariables = 5
)

// killedText says what a server took along: its jobs and the variables of its sessions.
func killedText(k history.Killed) string {
	text := "an earlier server was killed"
	for i, j := range k.Jobs {
		switch {
		case i == killedJobs:
			text += fmt.Sprintf(" and %d more", len(k.Jobs)-i)
		case i < killedJobs:
			text += map[bool]string{true: ", and with it ", false: ", "}[i == 0] + "job " + j.ID
		}
	}
	for i, v := range k.Variables {
		if i == killedSessions {
			text += fmt.Sprintf("; variables of %s more", view.CountOf(int64(len(k.Variables)-i), "session"))
			break
		}
		shown := v.Names[:min(killedVariables, len(v.Names))]
		text += fmt.Sprintf("; variables of session %s: %s", v.Session, strings.Join(shown, ", "))
		if more := len(v.Names) - len(shown) + v.More; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
	}
	if n := len(k.Ended); n > 0 {
		text += fmt.Sprintf("; %s that it had left, ended now", view.CountOf(int64(n), "process"))
	}
	return text
}
