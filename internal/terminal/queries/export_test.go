//go:build unix

package queries

import "time"

// SetPatience sets how long a query waits for a silent terminal.
func (r *Responder) SetPatience(d time.Duration) {
	r.mu.Lock() // the terminal orders nothing for the race detector
	defer r.mu.Unlock()
	r.patience = d
}

// SetTooLate sets the age at which a query is not answered any more.
func (r *Responder) SetTooLate(d time.Duration) {
	r.mu.Lock() // as in SetPatience
	defer r.mu.Unlock()
	r.tooLate = d
}

// Idle reports whether no query waits for an answer.
func (r *Responder) Idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended == nil
}

// PerSecond bounds the answers in a second.
const PerSecond = perSecond

// A Query is a query that Scan has found, and where it ends.
type Query struct {
	query
	End int
}

// Scan scans output in pieces.
func Scan(pieces ...[]byte) (found []Query) {
	var r Responder
	before := 0
	for _, b := range pieces {
		r.scan(b, func(q query, end int) { found = append(found, Query{q, before + end}) })
		before += len(b)
	}
	return found
}
