// Package arguments reads and checks the arguments of tool calls, and describes them to clients.
//
// A [Signature] names the parameters of one tool. [Signature.Schema] describes them to clients, and
// [Signature.Decode] reads the arguments of a call into [Args]. An unknown, duplicate or missing
// argument and one of the wrong type are mistakes, each with a text that says how to correct it. No
// such text quotes a value, which can be a secret.
//
// Clients differ in how they leave a parameter out and in how they write a value, so Decode is
// tolerant of the ways that have one meaning only:
//
//   - An optional parameter is not set if its value is null, a blank ("", [], {}), or what
//     the table of parameters names besides: 0 if 0 means nothing else. A required
//     parameter keeps its blanks and its errors. So do the elements of a list and the values of env.
//   - A text is taken for the value that it stands for if the parameter has another type, and for
//     the only element of a list of strings. A parameter that is a string stays as it is.
//   - A tool without parameters ignores all arguments. Any other refuses an unknown one even if it
//     is null.
//
// Begin with parameters.go, the table of all parameters. read.go reads values of each type.
//
// The package knows the words of jobs, because some arguments are such words. It does not know what
// a tool does with its arguments.
package arguments
