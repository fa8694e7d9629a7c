//go:build unix

// Package tokens reads the file that says which bearer token belongs to which tenant.
//
// A line of the file is
//
//	tenant sha256-of-token [workspace]
//
// Empty lines and lines that begin with # are comments. A tenant can have several tokens, one
// a line. A token is known as a whole: that [New] begins it with the name of its tenant is for proxies only.
//
// Rules
//   - The file holds hashes only, and no token is ever logged or part of an error.
//   - Only its owner may be able to read it. The checks are of the opened file, so that it can't be
//     exchanged between the check and the reading.
//   - Tenants become directories: their names follow the rule of session names, and no two of them
//     differ in case only.
//   - Workspaces of two tenants never overlap, not by links either. This includes tenants whose
//     tokens were removed while the server runs, because their jobs may run on.
//   - A file that breaks a rule changes nothing: what was read before stays in force.
//
// Begin with [Open] and [File.Find]. The package knows neither HTTP nor jobs.
package tokens
