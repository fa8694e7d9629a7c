// Package place runs jobs in engines on other machines. Each such engine is at a place, which a
// person has described in a file (package config). The job here is a mirror: its runner starts the
// job there under the same id, follows its life and records it here. So everything that shows jobs
// shows them as any others.
//
// A carrier such as ssh joins this process to an engine there (package carry), and one HTTP/2
// connection goes over it: the link. If it is lost, it is opened again, and each mirror continues
// at the byte where it was. A lost link ends no job.
//
//   - [Places] are all places of a server.
//   - A host is one engine there and the link to it. ssh and exec have one for each place.
//   - A mirror is the runner of a job.
//
// What comes from an engine there is the input of a stranger: the packages stream and far check it,
// and the jobs refuse what no job can do.
//
// Begin with [Places], then host.go and attempts.go for the link, mirror.go and watch.go for a job, and rooms.go for
// where a session lives.
package place
