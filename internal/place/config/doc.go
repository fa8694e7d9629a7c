//go:build unix

// Package config reads the file that says which places there are: other machines, and what gets us in.
//
// Rules
//   - A user who can write the file decides which programs this server starts, so only this user and root can. The
//     same holds of the directory above it, of the file of a Pod, and of a program that the file names to be
//     brought to a place. The checks are of the opened file.
//   - None of them is in the workspace: what a job or a cloned repository brings must not decide what we run.
//   - A mistake in the file ends the start with one sentence, which says what to do. Nothing is guessed, and no
//     key is silently ignored.
//   - What is read is what runs: the paths of programs and files are absolute afterwards.
//
// Begin with [Read]. The package starts nothing, and knows neither schedulers nor links.
package config
