//go:build unix

package engine

import (
	"fmt"
	"strings"
	"time"

	"asyncrepl/internal/history"
	"asyncrepl/internal/process"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// killedLimit bounds how long the processes of a server that was killed are waited for: a reply
// waits.
const killedLimit = time.Second

// TakeKilled says what earlier servers in the workspace took along when they were killed, a line
// for each, if no call has returned it before. The first call ends the processes that they have
// left, if their guards were killed, too.
func (e *Engine) TakeKilled() (lines []string) {
	e.settling.Do(func() {
		if e.records == nil || e.config.OnlyReads {
			return
		}
		for _, k := range e.records.Settle() {
			lines = append(lines, killedText(k))
		}
	})
	return lines
}

// killMarked ends the processes with the mark of a run.
func killMarked(mark string) (ended []history.EndedProcess, err error) {
	found, err := process.KillMarked(mark, killedLimit)
	for _, p := range found {
		ended = append(ended, history.EndedProcess{Job: p.Job, Process: jobs.Process{PID: p.PID, Program: p.Program}})
	}
	return ended, err
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
