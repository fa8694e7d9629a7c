// Package httpserver serves MCP over streamable HTTP, in both eras of the protocol at one URL.
//
// The SDK's handlers read and write the messages. This package decides what may reach them and for
// how long: over how many connections (conns.go), from which pages (origin.go), with which token
// (doors.go), how many at once (callers.go), and in what size and time (limits.go, unread.go). It
// knows which era a request is of (eras.go), which sessions of the older era there are
// (sessions.go), what becomes of each request and its answer (exchange.go), what a client reads while
// it waits (keepalive.go), what is reported of a request (observe.go), and what those who run the
// server can ask (metrics.go). It also serves a page to browsers (page.go): who logs in, and what a
// cookie is good for. Others answer what the page asks.
//
// A connection, in the sense of package server, is the session in the older era and the caller in
// the newer one. HTTP has no goodbye: a request that is closed ends a wait, a session that ends ends
// its waits, and neither ends a job.
//
// Begin with serveMCP in server.go, the way of a request. This package knows no tool and no job:
// [Config.New] makes the servers that know them.
package httpserver
