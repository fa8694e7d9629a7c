// Package report puts jobs into words and into JSON, for every front end.
//
// A [Reporter] makes a [Reply] about a job, which is text with blocks behind it, and the [Record]
// of a job, which programs read and which is its JSON wherever it is kept. The words of replies are
// stable: models and scripts read them.
//
//   - A reply takes the status of a job before it looks at the output, so that a final status
//     comes with all of it.
//   - No reply is longer than its [Window] allows. What is left out is counted, with the
//     cursors to read it by.
//   - A reply about an unfinished job never ends inside a character or an escape sequence.
//   - Nothing is kept: the same call gives the same answer.
//
// Lengths of text are in characters, cursors and sizes in bytes.
//
// Begin with job.go. The package knows neither a protocol nor how jobs run: it is handed jobs and
// what the parts of an engine say of themselves.
package report
