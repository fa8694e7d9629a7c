// Package export turns what a session ran into a notebook.
//
// The code and the outcomes come from the session's history. The outputs and displays come from the
// jobs while the registry knows them; the cell of a forgotten job says that its output is gone.
//
// Begin with [Source.Save]. code.go writes a job as code, outputs.go reads its output.
package export
