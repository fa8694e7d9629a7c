// Package relay passes requests that have been checked on to the process of one tenant, which serves
// HTTP on a Unix socket.
//
// Rules
//   - The process runs the jobs of its tenant and is in their hands. What it answers can mislead its
//     own tenant's clients and no others: only headers in a list are passed on, or none, its connection is
//     switched to another protocol only if the client asked for that, and what it counts is bounded.
//   - It learns the name of a token and never the token. The name is sent as the bearer token.
//   - A request is sent a second time only if no byte of it was sent before, or if it reads something
//     and no byte of an answer came. So a call is never made twice.
//   - Everything is passed on as it comes, through one buffer for each direction: a client or a
//     process that reads slowly makes the other one wait.
//
// Begin with [Tenant] and [Backend]. The package knows HTTP, and no protocol above it.
package relay
