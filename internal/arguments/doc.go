// Package arguments reads and checks the arguments of tool calls, and describes them to clients.
//
// A [Signature] names the parameters of one tool. [Signature.Schema] describes them to clients, and
// [Signature.Decode] reads the arguments of a call into [Args]. It neither guesses nor ignores
// anything: an unknown, duplicate or missing argument and one of the wrong type are mistakes, each
// with a text that says how to correct it. No such text quotes a value, which can be a secret.
//
// Begin with parameters.go, the table of all parameters. read.go reads JSON values.
//
// The package knows the words of jobs, because some arguments are such words. It does not know what
// a tool does with its arguments.
package arguments
