package slurm

import (
	"fmt"
	"strings"
	"time"

	"asyncrepl/internal/place/allocation"
)

// script returns the batch script. It ends as the engine, so that the allocation ends with the engine, or
// after Idle if no link has brought our program.
//
// An administrator can have Slurm start any job again: it would be an engine without variables, so the
// script ends. If the workspace or setup fails, the script waits all the same: the link that comes tries
// both, too, and can say what is wrong. SLURM_EXPORT_ENV would have each srun in a job lose its environment.
//
// The link is a step, and looks for the engine's socket in the temporary directory of a step. That of the script
// is another one if the user's profile sets TMPDIR, because Slurm reads the profile only for scripts.
func script(e allocation.Engine) string {
	var b strings.Builder
	b.WriteString(`#!/bin/sh
[ "${SLURM_RESTART_COUNT:-0}" -eq 0 ] || exit 1
unset SLURM_EXPORT_ENV
PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}
[ -n "${HOME-}" ] || eval "HOME=~$(id -un 2>/dev/null)"
export PATH HOME
if [ "${TMPDIR:-/tmp}" != /tmp ]; then
	TMPDIR=$(srun --overlap --export=NONE -N1 -n1 --relative=0 /usr/bin/printenv TMPDIR </dev/null 2>/dev/null) || TMPDIR=/tmp
	export TMPDIR
fi
`)
	fmt.Fprintf(&b, "ar_end=$(($(date +%%s) + %d))\n", max(1, int64(e.Idle/time.Second)))
	fmt.Fprintf(&b, "mkdir -p -- %[1]s && cd -- %[1]s && eval %[2]s </dev/null; ar_status=$?\n", allocation.Quote(e.Workspace), allocation.Quote(e.Setup))
	b.WriteString("set +aefu; unset IFS\n")
	fmt.Fprintf(&b, "ar_find() { %s\n}\n", e.Find)
	b.WriteString(`until [ "$ar_status" -eq 0 ] && ar_program=$(ar_find) && [ -x "$ar_program" ]; do
	[ "$(date +%s)" -lt "$ar_end" ] || exit "$ar_status"
	sleep 0.1 2>/dev/null || sleep 1 || exit
done
`)
	b.WriteString(`exec "$ar_program"`)
	for _, arg := range e.Args {
		b.WriteString(" " + allocation.Quote(arg))
	}
	return b.String() + "\n"
}
