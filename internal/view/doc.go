// Package view turns the raw bytes of a job's output into what is read.
//
// Views are computed when output is read, from the bytes of a window of the log, never while a program writes.
// A window may begin or end anywhere, so no function here trusts its first or its last bytes to be whole.
//
// Rules:
//   - What comes out is valid UTF-8 and holds no control character but newline and tab.
//   - Plain text comes out as it went in; a view of a view is the view.
//   - Progress that was drawn over itself (carriage return, backspace, cursor movement, erase) is shown in its last state.
//     Nothing else is folded: clearing the screen starts a new piece of text, it takes none away.
//   - Cost is linear in the bytes looked at, and memory is bounded by them.
//   - What is left out is counted in bytes of the log, so that a reader can ask for exactly that.
//
// Budgets are in characters, whatever is left out in bytes. Nothing here returns an error: all bytes read as something.
// Begin with the examples, then Text (text.go, on the screen of screen.go) and Clip.
//
// The package holds no state between calls. It knows nothing of jobs, of the log's storage, of processes or of the protocol.
package view
