//go:build linux

package proxy

import "time"

// MostConnections is how many connections of clients a proxy has at a time.
const MostConnections = mostConnections

// Clients returns how many connections of clients are counted.
func (p *Proxy) Clients() int { return int(p.clients.Load()) }

// SetHeaderLimit changes the time that a client has for its request.
func (c *Config) SetHeaderLimit(d time.Duration) { c.header = d }

// SetHalfLimit changes how long a tunnel stays after one direction has ended.
func (c *Config) SetHalfLimit(d time.Duration) { c.half = d }
