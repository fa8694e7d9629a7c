//go:build unix

// Package procfs shows processes as the kernel sees them: the table of processes, their threads,
// children, open files and signal dispositions, and their CPU clocks. It also sends a signal to
// exactly one of them.
//
// Rules
//   - A pid is not a process. A [Process] is a pid with its start time: [Process.Signal] and
//     [Process.Disposition] fail with [ErrGone] if the pid belongs to a later process by now.
//     Functions that take a bare pid return the facts about that pid at the moment of the call.
//   - Only [ErrGone] means that something is gone: the process, its thread or its descriptor. Every
//     other error means that the process could not be inspected: count it as alive and check again.
//     Such errors are a lack of permission (fs.ErrPermission), a /proc that another mount covers,
//     and [errors.ErrUnsupported], which means that this system never shows the fact.
//   - Functions that list return all that they could read together with the first error.
//   - Reading /proc takes a descriptor, and a full table of descriptors must not hide processes.
//     The package holds two in reserve: see reserve_linux.go. A caller that opens something else
//     for the same purpose does it within [WithReserve].
//   - A reading of one process is not atomic. Two readings of a [ThreadClock] or of [CPUTime] with
//     the same result, one before and one after, make all that was read between them one moment.
//
// The package starts no process, remembers none, and knows no job.
//
// Begin with the example, then process.go, which has the types; procfs_linux.go and
// procfs_darwin.go read them.
package procfs
