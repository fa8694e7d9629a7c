// Package view turns the raw bytes of a job's output into text to read.
//
// Views are computed when output is read, from the bytes of a window of the log, never while a
// program writes. A window can begin or end anywhere, so its first or last character or escape
// sequence may be incomplete.
//
// Rules:
//   - The result is valid UTF-8 and has no control characters except newline and tab.
//   - The line drawing set of terminals is shown as the lines that it draws.
//   - Plain text remains as it is; a view of a view is the view.
//   - Progress that was drawn over itself (carriage return, backspace, cursor movement, erase) is
//     shown in its last state. Clearing the screen starts a new piece of text and removes none, except
//     blank rows before it.
//   - Of consecutive rows that only fill a full screen, blank or with a tilde, one is shown.
//     Nothing else is folded.
//   - Cost is linear in the bytes read, and so is memory.
//   - Omissions are counted in bytes of the log, so that a reader can ask for exactly those.
//
// Budgets are in characters, omissions in bytes. Nothing here returns an error: all bytes read as
// something.
//
// The package holds no state between calls. It knows nothing of jobs, of the log's storage, of
// processes or of protocols. Begin with the examples, then Text (text.go, on the screen of
// screen.go) and Clip.
package view
