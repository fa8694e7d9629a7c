// Package report describes jobs, in text for models and in JSON for programs, for every front end.
//
// A [Reporter] makes the [Reply] about a job, which is text with blocks after it, and the [Document]
// of a job. The names and the fixed words of header lines are stable: models and scripts read them.
//
//   - A reply takes the status of a job before its output, so that a final status comes with all of
//     the output.
//   - No reply is longer than its [Window] allows, except that some output is always shown. What it
//     omits is counted, with the cursors from which to read it. Pages read from one cursor to the
//     next show all of the output.
//   - No page ends inside a character or an escape sequence.
//   - Calling again gives the same reply. Only [Notices] remember anything: which events of jobs
//     and losses of variables one connection has announced.
//
// Lengths of text are in characters, cursors and sizes in bytes. A Reply belongs to the call that
// made it and a Notices to its connection; a Reporter can be shared. Nothing here fails: a job that
// can't be found or started is an error of package jobs, which [Reporter.Refusal] describes.
//
// Begin with the example, then job.go. excerpt.go chooses the output that a reply shows,
// and display.go the pictures. The package knows neither a protocol nor how jobs run.
package report
