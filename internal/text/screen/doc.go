// Package screen draws what a person would see on a terminal: rows of characters and a cursor.
//
// A [Screen] is a terminal that is written to as a program writes; [After] makes one of long
// output. [Draw] shows the newest output of a job at once. All draw with
// github.com/charmbracelet/x/vt, and keep these rules for it:
//
//   - No output makes them panic, wait, or take memory beyond the size of the screen. A Screen that
//     the library has failed to draw shows nothing from then on.
//   - What the library would answer to the program is dropped.
//   - Rows are valid UTF-8 without control characters, and without blanks at their ends.
//
// Rows and columns are counted from 1. The package holds no state between calls and starts no
// goroutine, except that a [Follower] remembers what it has drawn. [OfLog] draws the screen of a log of
// output. The package knows no jobs: whether a log has a screen is its caller's business. Begin with
// Draw.
package screen
