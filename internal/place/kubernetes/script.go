package kubernetes

import "asyncrepl/internal/place/allocation"

// script returns the script of the pod's first command.
//
// The kernel passes no SIGTERM to the first process of a container unless the process asks for it. Without
// the trap, a pod that waits would be deleted after 30 s.
func script(e allocation.Engine) string { return e.Script("trap 'exit 143' TERM\n") }
