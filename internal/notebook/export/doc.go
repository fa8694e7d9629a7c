// Package export turns what a session ran into a notebook.
//
// The code and the outcomes come from the session's history, the outputs and displays from the jobs
// while the registry knows them. Of a job that is forgotten the cell says that its output is gone.
//
// Begin with [Source.Save]. code.go writes a job as code, outputs.go reads its output.
package export
