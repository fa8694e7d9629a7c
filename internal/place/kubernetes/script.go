package kubernetes

import (
	"fmt"
	"strings"
	"time"

	"asyncrepl/internal/place/allocation"
)

// script returns the script of the pod's first command. It ends as the engine, so that the pod ends with the
// engine, or after Idle if no link has brought our program. If the workspace or setup fails, the script waits
// all the same: the link that comes tries both, too, and can say what is wrong.
//
// The kernel passes no SIGTERM to the first process of a container unless the process asks for it. Without
// the trap, a pod that waits would be deleted after 30 s.
func script(e allocation.Engine) string {
	var b strings.Builder
	b.WriteString(`trap 'exit 143' TERM
PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}
[ -n "${HOME-}" ] || eval "HOME=~$(id -un 2>/dev/null)"
case $HOME in /*) ;; *) HOME=/ ;; esac
export PATH HOME
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
