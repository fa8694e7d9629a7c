// Package waits waits for jobs: until they end or ask for input, until a line of their output
// matches an expression, or until they have been silent for a time. It describes in a reply what
// has ended the wait.
//
// A wait searches the lines of the text view, both in earlier output and in new output. A line that
// a program can still draw over counts as it stands when a follower scans it: the follower doesn't
// see what is drawn and replaced between two scans. A match in a line that has not ended (a prompt,
// a progress bar) waits until nothing was printed for [settle], so that it has the full line if a
// program or a pipe has cut it in two.
//
// Nothing polls. A follower sleeps until the log wakes it, which costs the writer one check of
// whether a caller waits. After a scan it rests for [minRest] at least, so that it is not woken for
// each write of a flood. The call that waits does the matching, never the writer.
//
// Begin with [Wait], then watch.go, which follows one job, and follower.go, which checks its
// output. reply.go has the words.
package waits
