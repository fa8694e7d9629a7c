// Package progress reads the progress bars of programs: how much of the work is done, how fast it
// goes and how long it still takes.
//
// [TailOf] takes the newest output of a log, and [Tail.Bar] returns the last line of it that is a
// bar. One table, in programs.go, has a row for each program. A line that no row knows is a bar only
// if it has a count that has risen since a line before it, see counts.go. A bar says only what its
// line says: nothing is estimated from several lines. A bar that is old and stands above newer lines
// is gone. Bars are looked for when output is read, never while a program writes. The package holds
// no state and knows no jobs.
package progress
