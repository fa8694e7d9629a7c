// Package door is how a connection from another machine reaches the engine of a key at a place: the
// program that a carrier starts there finds the engine, or starts it, and joins the carrier with it.
//
// The engine of a key has three files in the directory of the sockets, which is always the one in the
// temporary directory: $XDG_RUNTIME_DIR vanishes when the last login of a user ends.
//
//	place-KEY       the socket at which the engine listens
//	place-KEY.lock  an empty file that is locked as long as the engine lives
//	place-KEY.log   the engine's warnings, and the reason of a crash
//
// The rules that both sides rely on:
//
//   - Only the lock says whether an engine lives. A socket of an engine that was killed stays until the
//     next one starts, and so does its log.
//   - A process that starts an engine takes the lock first and hands it on by a descriptor, so there is
//     no moment in which two processes can start an engine of one key.
//   - A lock that is taken counts only if its file still has its name: an engine that ends removes the
//     file, the last thing that it does.
//   - The engine speaks first. Each connection begins with its greeting, one line, so the other side
//     knows which engine it has reached, whatever became of the files meanwhile.
//   - Each side checks that the user of the other one is its own.
//
// Begin with [Find] for the side of the carrier, and with [Door.Listen] for that of the engine.
package door
