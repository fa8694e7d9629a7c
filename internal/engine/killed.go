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

// KilledSaid notes that a reply has said what Killed has returned.
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
	parts := []string{"an earlier server was killed"}
	if len(k.Jobs) > 0 {
		var ids []string
		for _, j := range k.Jobs {
			ids = append(ids, "job "+j.ID)
		}
		parts[0] += ", and with it " + first(killedJobs, ids, 0)
	}
	for _, v := range k.Variables[:min(killedSessions, len(k.Variables))] {
		parts = append(parts, fmt.Sprintf("variables of session %s: %s", v.Session, first(killedVariables, v.Names, v.More)))
	}
	if more := len(k.Variables) - killedSessions; more > 0 {
		parts = append(parts, "variables of "+view.CountOf(int64(more), "session")+" more")
	}
	if n := len(k.Ended); n > 0 {
		parts = append(parts, view.CountOf(int64(n), "process")+" that it had left, ended now")
	}
	return strings.Join(parts, "; ")
}

// first lists the first n names, and counts the others and more.
func first(n int, names []string, more int) string {
	n = min(n, len(names))
	text := strings.Join(names[:n], ", ")
	if more += len(names) - n; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
