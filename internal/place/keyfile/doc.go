//go:build unix

// Package keyfile keeps the file in which a server notes its engines and allocations at places.
//
// Each server has a random key. It names the key in every command that it runs at a place, and what it has
// there bears the key as name or label. The file KEY.json says what that is, so that a later server of the
// workspace finds it if this one is killed.
//
// Rules
//   - A file belongs to one server: the process that holds the lock of KEY.lock. Another takes it over only
//     with that lock. A file that was made where locks don't work is never taken over.
//   - KEY.lock is open once in a process, see [living].
//   - A key is no secret. The file holds neither arguments nor environments, and has the mode 0600.
//   - KEY.json is replaced by a rename, so a full disk or a kill leaves the file before the change.
//   - Jobs can have written the file, because they run as our user. What it says is bounded, and an
//     allocation that a scheduler's command would take for an option is refused.
//
// Begin with [TakeOver]. The package starts nothing and asks no scheduler.
package keyfile
