//go:build unix

// Package hub makes the engines of a user one, for a page that watches their jobs and answers them.
//
// A [Hub] finds the engines by their sockets, in the role of a page, and [Hub.API] answers the requests
// of package page about the jobs of all of them. It does not trust the engines, because one can be in
// the hands of its jobs:
//
//   - It takes from an engine only values of the types in wire.go, writes them again, and bounds their
//     size. Anything else is dropped with a word. No header is passed on: the type and the status of an
//     answer are chosen from a list.
//   - A job belongs to the engine that named it first, as long as that engine runs. What a person types
//     for the job goes to no other.
//   - An engine that sends fast or reads nothing slows down only itself.
//
// Who may ask is checked by the server that the handler is part of.
//
// Begin with hub.go (which engines and jobs there are), then server.go (what is asked of an engine), api.go
// (one request) and live.go (the stream of a tab, which sends what its page does not show yet).
package hub
