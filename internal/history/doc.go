// Package history keeps the records of jobs on disk, so that what ran before the last start of a
// server can be read.
//
// A run is the life of one engine. It has a directory, <state>/runs/<workspace>/<run>:
//
//	run.json       what the run is; its pid is for people only
//	lock           an empty file that the engine has locked as long as it lives
//	journal.jsonl  a line of JSON for each start, end and amendment of a job, for each size of its
//	               terminal, and for events of the run
//	<job>/         the output of a job that has files of its own, see package output
//
// The rules that readers and writers rely on:
//
//   - A run that no process locks has ended, however it ended. There is no heartbeat, and a pid proves
//     nothing. run.json is made last and removed first: a directory without it is skipped.
//   - A line is appended by one write. What a crash leaves of a line spoils nothing else: a writer that
//     opens a journal begins with a newline, and a reader skips incomplete lines. Nothing is repaired.
//   - A job without an end in the journal of a past run has failed, because its server was killed. When
//     that was is unknown, and no time is made up.
//   - What was written for a job is never less than the truth: while the disk is full, a job that starts
//     is not recorded, and the end of one that was recorded goes into space that was allocated before.
//   - Lines are read from the end of a journal backwards, and only as far as they are asked for.
//     Nothing is read when a server starts.
//   - A process that changes the files of past runs holds a lock on the directory of their workspace.
//   - A confined engine has a state directory of its own, which its jobs can write. From outside it is only
//     read, for a person ([Config].Everywhere), and what is read is hostile: each file is opened through a
//     dir, and a line is data. Nothing is settled there, and no mark of it names a process to kill.
//
// A directory has mode 0700 and a file 0600. Neither environments nor what was typed is ever
// written: a record has none of it, except in the output, where a terminal has echoed it.
//
// The errors of a [Store] say what to do. They don't keep a job from running. While records pause,
// the first call returns the reason; [Store.Status] has it all the time.
//
// Begin with [Store]; journal.go is about lines, run.go about the run of this engine, past.go about
// those before it, dir.go about how their files are opened, keep.go about how much is kept and killed.go about runs whose engine was killed.
package history
