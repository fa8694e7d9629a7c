// Package proxy is the way out of a sandbox that reaches a list of hosts: an HTTP proxy that runs
// outside, and that jobs talk to directly.
//
// It serves a listener of the sandbox's network namespace. CONNECT becomes a tunnel. A request for
// http://HOST is passed on over a connection of its own, so each request of a client's connection
// is checked, and what was checked is what is connected to.
//
// A name that the list allows is resolved once. Of its addresses only public ones are connected to,
// and those that the list names literally: the owner of a listed name must not lead a job to
// the machine and the network around it.
//
// Everything that arrives is hostile input, and the listener is, too. A job can't make the proxy
// hold more than a bounded number of connections, each with a bounded header. Tunnels that carry
// nothing cost no processor time and no buffer. Begin with Start.
package proxy
