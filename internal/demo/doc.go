// Package demo plays a session with the server, as a client would: it starts the program, calls the
// tools step by step, prints the calls and their replies, and checks every reply.
//
// The session is a script, session.txt. README.md and pages of docs/ show parts of it, and parts of
// day.txt, which only a test plays. A line of a script that begins with # is the title of a step. The
// lines below it are:
//
//	needs COMMAND   the step is left out if the shell command fails
//	engine          the step is left out if no engine can outlive its client here
//	as TENANT, by the protocol of VERSION
//	                the next calls of the step go over HTTP, not over stdio
//	sandbox VALUE   the next calls go to a server with this REPL_SANDBOX, in a home directory with a key
//	                and a .bashrc; PORT there is a port that can be called. The step is left out if no
//	                sandbox can start
//	places          the next calls go to a server with a place named box, which is a directory. The process
//	                that carries the link is in the file link.pid of the workspace
//	client is killed, client quits
//	                the next calls come from another client over stdio: this happens to the one before
//	show PAGE PART  a part of a page shows the next call, such as show docs/terminals.md screen
//	> TOOL          a call, with an argument a line: JSON, or else text. Deeper lines belong to the
//	                argument above. PUT and GET send and fetch a file over HTTP
//	< REPLY         the expected reply; a call without one can have any
//
// In an expected reply, … is any text in a line, and a line with nothing else is any lines. Between
// the lines at the head of a reply, before the first empty line, others can stand, and white space
// at the end of a line does not count. A job ID stands for the one that the server gives to the job
// in this run: the first reply that shows it decides.
//
// Begin with [Program.Run], then read script.go and play.go.
package demo
