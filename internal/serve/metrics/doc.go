// Package metrics counts what a server does, shows the counts as the text that Prometheus reads, and
// logs each request as a line of JSON.
//
// The client library of Prometheus is not used: linked in, it would add 1.2 ms to every start of a
// server that starts in 2 ms and usually shows no counts.
//
// What is counted and logged says who called which tool and how it went. It never holds code, input
// or output. Labels have few values: a name that a client sends becomes one only if a tool has it.
//
// Begin with [Request].
package metrics
