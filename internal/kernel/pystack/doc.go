// Package pystack reads the Python stack of another process from outside: no signal is sent,
// nothing is stopped, and the program does not take part. A look costs it nothing but memory
// bandwidth.
//
// Rules
//   - The interpreter says where its structures are: from 3.13 on in _Py_DebugOffsets, before that
//     in the tables of layout.go. An unknown version is never read.
//   - Memory changes while it is read. A stack counts if its outermost frames are those that the
//     process is known to have, and if it is the same when it is read again. The first proves the
//     layout too.
//   - What is read is hostile: the program may have written it. Numbers of frames, characters and
//     bytes are bounded, each address is only ever read, and a wild one is an error.
//   - A look ends within two seconds, whatever the memory behind it does.
//
// Looks need Linux and the right to read the memory of a child, see [Available].
//
// Begin with [NewTarget] and [Target.Look], then chain.go. The package knows processes and no job.
package pystack
