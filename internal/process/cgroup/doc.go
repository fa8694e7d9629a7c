//go:build unix

// Package cgroup limits the memory of a process and everything that it starts, with control groups
// of version 2, and reads the kernel's count of the processes that it killed because memory was
// short.
//
// A [Group] is made below the group that this program is in, the base. The kernel enables a limit
// in a group only if no process is beside the groups within (the no internal process constraint in
// https://www.kernel.org/doc/html/latest/admin-guide/cgroup-v2.html). With the first Group,
// therefore, this program and its descendants move to a group of their own, a child of the base:
//
//	base                  all that this program may use, as before
//	base/async-repl-7     this program, pid 7, and what it starts without a limit
//	base/async-repl-7-1   a Group
//
// Processes that this program has not started are never moved, and nothing moves out of the base,
// which can itself have limits. If others are in the base, or it can't be written to, then [New]
// makes no Group, and [Available] says why. [Clean] undoes all of it.
//
// The package knows no job and ends no process. Begin with New.
package cgroup
