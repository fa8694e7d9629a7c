package guard_test

import (
	"fmt"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/process/guard"
)

// A server writes the mark to its guard once, and each process at its start and at its end.
func Example() {
	p := procfs.Process{PID: 4711, Start: 123456}
	fmt.Print(guard.Mark("ASYNC_REPL_JOB_OWNER", "V4RC2"))
	fmt.Print(guard.Add(p))
	fmt.Print(guard.Forget(p.PID))
	// Output:
	// mark ASYNC_REPL_JOB_OWNER=V4RC2
	// add 4711 123456
	// forget 4711
}
