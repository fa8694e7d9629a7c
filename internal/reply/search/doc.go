// Package search finds the lines of a job's output that match an expression, in memory that does
// not grow with the output, and describes them in a reply.
//
// A search reads the text view: the lines that a reply shows, without colours and with progress in
// its last state. So a match can span a change of colour, and "50%" is not found in a bar that has
// reached the end. Each match comes with the cursor at which its line begins or, far inside a long
// line, with a cursor shortly before the match. Lines have no numbers: in a log whose middle was
// dropped they can't be counted.
//
// The expression sees few lines. If a [Pattern] has a text that every match contains, that is looked
// for first, in many lines at once; else a filter finds the lines that can match, and the expression
// decides. Package lines leaves plain lines as they were written, so that this is also the first
// look at them.
//
// A search takes no lock while it looks: it reads the log as any reader does. It stops when its
// context is done.
//
// Begin with [Run], then pattern.go and filter.go. reply.go has the words.
package search
