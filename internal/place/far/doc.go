// Package far is the protocol between this server and an engine of ours at a place: the requests that the engine
// there serves on its Unix socket, over HTTP/2 without TLS, and the client's side of them.
//
// [Handler] serves the requests. One request is one job: PUT starts it, unless it exists, under an id that the
// client has chosen, and answers with its life, see package stream. GET follows a job and starts nothing. Each
// request names the start of the engine that it is meant for, and another engine refuses it, so that no code runs
// twice. Input has an id for the same reason.
//
//	PUT  /link/jobs/ID?cursor=N&displays=M   start and follow
//	GET  /link/jobs/ID?cursor=N&displays=M   follow
//	POST /link/jobs/ID/input                 give input to a program
//	GET  /link/inputs/ID                     what became of that
//	POST /link/jobs/ID/stop, …/cleanup       end the job, what it has left
//	GET  /link/jobs/ID/live                  ask a running job about itself
//	GET  /link/late                          name the ended jobs that have late output
//	POST /link/call                          call a tool that starts no job
//	GET  /link/state, POST /link/end         the state of the engine, its end
//	POST /link/trim                          end what is not kept
//
// A [Client] sends them. It bounds every answer and escapes its text: an engine at a place is not trusted. An answer
// that refuses is a *[Refused]; any other error means that the link is lost, or that the engine lies.
//
// [NewServer] and [Connect] are the two ends of the connection.
package far
