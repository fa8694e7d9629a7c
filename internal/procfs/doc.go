//go:build unix

// Package procfs shows processes as the kernel sees them: the table of processes, their threads,
// children, open files and signal dispositions, their CPU clocks, and a signal to exactly one of
// them.
//
// Rules
//   - A number is not a process. A [Process] is a pid with its start time: [Process.Signal] and
//     [Process.Disposition] fail with [ErrGone] if the pid belongs to a later process by now.
//     Functions that take a bare pid say what that pid shows at the moment of the call.
//   - [ErrGone] alone means that something is gone: the process, its thread or its descriptor.
//     Every other error means that the caller could not look, and says nothing about the process:
//     count it as alive and look again. Permission is such an error too (errors.Is with
//     fs.ErrPermission), and so is [errors.ErrUnsupported], which says that this system never shows
//     it.
//   - Functions that list return what they could read together with the first error.
//   - A process that opens /proc needs a descriptor, and a full table of descriptors must not hide
//     processes. The package holds two in reserve: see reserve_linux.go. A caller that opens
//     something else for the same purpose does it within [WithReserve].
//   - A reading of one process is not atomic. Two readings of a [ThreadClock] or of [CPUTime] with
//     the same result, one before and one after, make all that was read between them one moment.
//
// The package starts and ends nothing, remembers nothing of any process, and knows no job.
//
// Begin with the example, then process.go, which has the types; procfs_linux.go and procfs_darwin.go
// read them.
package procfs
