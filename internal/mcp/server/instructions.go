package server

import "strings"

// instructions returns the text about this server that a client gives its model. It names only
// tools that the client is offered.
func (c *Config) instructions() string {
	text := allInstructions
	if !c.offers(sessions) {
		text = strings.Replace(text, aboutSessions, "", 1)
	}
	if c.Page == "" {
		text = strings.Replace(text, aboutPage, "", 1)
	}
	if c.NoImages {
		text = strings.Replace(text, asImages, asLines, 1)
	}
	return text
}

// aboutSessions is the part of the instructions that is about the toolset sessions.
const aboutSessions = "; create_session makes one with a Python, packages or directory of its own"

// aboutPage is the part of the instructions that is about the page.
const aboutPage = " Its Page lets a person watch and answer jobs, each at /jobs/ID."

// asImages says how a client sees figures, and asLines how it does without images.
const (
	asImages = "figures as images"
	asLines  = "figures as lines that name their resources"
)

// allInstructions are the instructions with all toolsets. Clients cut them at 2 KB, so the
// important parts come first.
const allInstructions = `Every execution is a job: Python in persistent sessions, shell commands on real terminals, package installs.

execute_python and execute_command_async answer when the job ends, when it asks for input, or after a short grace with "Status: running": the job continues by itself. Never sleep or run something twice to wait for it: use check_job_status with wait_seconds, or wait_for_jobs for several. Start a server or watcher as its own job and continue.

Each reply about a job has Job ID, Status and Cursor. Pass that cursor to check_job_status to see only newer output; the same call gives the same answer. "Omitted" names the cursor range of output that was left out. "Also" announces once that another job of yours has ended, waits for input, or still runs although its call was cancelled.

Status: queued, running, waiting_input, completed, failed (why), cancelled. waiting_input is certain: a program is reading now, and "Prompt" is its question. "Accepts input" names one that takes input but may also continue by itself. Answer Python (input(), getpass, pdb) with send_python_input, one line. Answer a shell job with send_command_input: it is a keyboard: end a line with \n, press others by keys (ctrl-c, up, enter in full-screen programs), use secret=true for passwords. A job that is only quiet stays running, and "Activity" says for how long.

Python variables live in a session until its Python ends; a receipt says "variables kept" or "variables lost". Jobs of one session run in order, different sessions and shell jobs side by side` + aboutSessions + `. The last expression is shown as RESULT, ` + asImages + `; top-level await works.

cancel_job interrupts first and keeps variables if it can; force=true kills. It ends the process tree. "Left running" names processes that outlived their job: cancel_job on that job ends them. server_status shows what works here.` + aboutPage
