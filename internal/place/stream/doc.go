// Package stream carries the life of a job from the engine that runs it to the one that mirrors it, as frames
// in the answer to one request.
//
// [Write] sends a life from a [Position] on: output with its cursors, displays, gaps of dropped output, and
// records, until the job has ended and left no process. [NewReader] reads it. The rules between the two:
//
//   - Output comes in order and without a hole. What the engine there has dropped is a [Skip].
//   - A display comes before its line, and has the number and the line that it has there.
//   - A record comes after the output that was there when it was taken, so that a question comes after its
//     prompt, and the end after all output. A record comes early, too, if much output is still on the way when the
//     job has ended, before a skip, and before a display that has replaced others. [Frame].Behind is not 0 then.
//   - The last frame says that the life is complete. Without it the link was lost, and the same request with
//     the position that was reached continues.
//
// The reader is the border of trust. Another program can take an engine at a place over, so the reader believes
// nothing: every length is bounded before memory is allocated, every number is checked,
// and text that can become a line of a reply is escaped. An [*Error] says what the other engine did wrong.
//
// On the wire a frame is one byte for its type, four bytes for the length of its body (big endian), and the
// body. Begin with [Write].
package stream
