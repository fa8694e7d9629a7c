//go:build unix

// Package queries answers what programs ask their terminal: where the cursor is, what the terminal
// can do, which modes are set and which colours it has.
//
// Rules
//   - A program gets an answer only while its terminal is silent: without echo, and not in line
//     mode. A file that cat shows must not type into the next program, and an answer must not
//     become part of a password.
//   - No answer holds text of the output, such as a title: a program that can write to the terminal
//     could type with it.
//   - An answer is typed only if no input is unread, and at most 100 are in a second.
//   - The place of the cursor is drawn from the output up to the query. If it can't be drawn, the
//     query stays unanswered.
//
// A [Responder] belongs to the run of a job, which gives it all output of its terminal in its
// pump's goroutine and closes it. It answers in a separate goroutine, which lives only while a
// query is unanswered. The output of a program that asks nothing costs a search for ESC.
//
// The package starts no process and knows neither jobs nor protocols. Begin with Responder; scan.go
// finds queries, answers.go words the answers.
package queries
