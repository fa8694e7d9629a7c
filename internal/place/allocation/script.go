package allocation

import (
	"strconv"
	"time"

	"asyncrepl/internal/place/carry"
)

// An Engine says what an allocation runs, from its begin to its end.
type Engine struct {
	Workspace string // the engine's working directory, made if it is missing
	Setup     string // shell lines that run in Workspace, before everything else
	// Find is a shell command that prints the path of our program there, or nothing as long as no link has
	// brought it.
	Find string
	Args []string      // the program's arguments
	Idle time.Duration // how long the allocation waits for our program
}

// Script returns the script of an allocation, for /bin/sh. It ends as the engine, so that the allocation ends with the
// engine, or after Idle if no link has brought our program. If the workspace or setup fails, the script waits all the
// same: the link that comes tries both, too, and can say what is wrong. first are lines of the scheduler that run
// before, with PATH and HOME set.
func (e Engine) Script(first string) string {
	workspace := carry.Quote(e.Workspace)
	return "#!/bin/sh\n" + carry.Environment + first +
		"ar_end=$(($(date +%s) + " + strconv.FormatInt(max(1, int64(e.Idle/time.Second)), 10) + "))\n" +
		"mkdir -p -- " + workspace + " && cd -- " + workspace + " && eval " + carry.Quote(e.Setup) + " </dev/null; ar_status=$?\n" +
		"set +aefu; unset IFS\n" +
		"ar_find() { " + e.Find + "\n}\n" +
		`until [ "$ar_status" -eq 0 ] && ar_program=$(ar_find) && [ -x "$ar_program" ]; do
	[ "$(date +%s)" -lt "$ar_end" ] || exit "$ar_status"
	sleep 0.1 2>/dev/null || sleep 1 || exit
done
exec "$ar_program" ` + carry.Quote(e.Args...) + "\n"
}
