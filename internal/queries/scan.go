//go:build unix

package queries

import "bytes"

const esc = 0x1b

// A kind is what a query asks for.
type kind byte

const (
	none        kind = iota
	attributes       // DA1: CSI c
	version          // DA2: CSI > c
	status           // DSR: CSI 5 n
	position         // CPR: CSI 6 n
	extended         // DECXCPR: CSI ? 6 n
	modeSetting      // DECRQM: CSI Ps $ p, CSI ? Ps $ p
	foreground       // OSC 10 ; ?
	background       // OSC 11 ; ?
)

// A query is what a program asks.
type query struct {
	kind kind
	mode mode // that is asked for
	bel  bool // it ended with BEL, and so does the answer
}

const (
	maxDigits = 5
	longest   = len("\x1b[?00000$p") // of all queries
)

// A scanner finds queries in output that comes in pieces, wherever these are cut. For it, as for a
// terminal, the next ESC ends an escape sequence and begins another one.
type scanner struct {
	held [longest]byte // the end of the output so far, if it can begin a query
	n    int
}

// scan calls found with each query that ends in b, the next piece of the output, and with the
// offset in b where it ends.
func (s *scanner) scan(b []byte, found func(q query, end int)) {
	i := 0
	if s.n > 0 {
		i = s.resume(b, found)
	}
	for i < len(b) {
		k := bytes.IndexByte(b[i:], esc)
		if k < 0 {
			return
		}
		i += k
		if n := common(b[i:]); n > 0 {
			i += n
			continue
		}
		q, n := parse(b[i:])
		if n == 0 {
			s.n = copy(s.held[:], b[i:])
			return
		}
		if i += n; q.kind != none {
			found(q, i)
		}
	}
}

// common returns how many bytes of b to skip if b begins with a control sequence of the common
// kind, a number and a letter, that is no query. It is short, because coloured output has many of
// these.
func common(b []byte) int {
	if len(b) < 3 || b[1] != '[' {
		return 0
	}
	i := 2
	for i < len(b)-1 && b[i]-'0' <= 9 {
		i++
	}
	switch b[i] {
	case 'm', ';', 'K', 'H', 'J', 'A', 'B', 'C', 'D', 'G', 'd', 'X':
		return i
	}
	return 0
}

// resume scans what is held, with as much of b as a query can need, and returns how many bytes of b
// it has scanned.
func (s *scanner) resume(b []byte, found func(q query, end int)) (done int) {
	var room [2 * longest]byte
	held := s.n
	joined := append(append(room[:0], s.held[:held]...), b[:min(len(b), longest)]...)
	for i := 0; i < held; {
		if joined[i] != esc {
			i++
			continue
		}
		q, n := parse(joined[i:])
		if n == 0 { // b is short
			s.n = copy(s.held[:], joined[i:])
			return len(b)
		}
		i += n
		if done = max(0, i-held); q.kind != none {
			found(q, done)
		}
	}
	s.n = 0
	return done
}

// parse reads the escape sequence that b begins with. It returns the length of a query, or of the
// bytes up to the first one that no query has. The length is 0 if b ends within a possible query.
func parse(b []byte) (q query, n int) {
	if len(b) < 2 {
		return query{}, 0
	}
	switch b[1] {
	case '[':
		return parseCSI(b)
	case ']':
		return parseOSC(b)
	}
	return query{}, 1
}

// parseCSI is parse for a control sequence.
func parseCSI(b []byte) (q query, n int) {
	i, prefix := 2, byte(0)
	if i < len(b) && (b[i] == '?' || b[i] == '>') {
		prefix = b[i]
		i++
	}
	value, digits := parseNumber(b[i:])
	i += digits
	switch {
	case digits > maxDigits:
		return query{}, i
	case i == len(b):
		return query{}, 0
	case b[i] == 'n' || b[i] == 'c':
		return query{kind: reports[report{prefix, value, b[i]}]}, i + 1
	case b[i] != '$' || digits == 0 || prefix == '>':
		return query{}, i
	case i+1 == len(b):
		return query{}, 0
	case b[i+1] != 'p':
		return query{}, i + 1
	}
	return query{kind: modeSetting, mode: mode{prefix == '?', value}}, i + 2
}

// parseNumber returns the number that b begins with and how many digits it has. It stops at the
// first digit that is too many.
func parseNumber(b []byte) (value, digits int) {
	for digits < min(len(b), maxDigits+1) && b[digits] >= '0' && b[digits] <= '9' {
		value = value*10 + int(b[digits]-'0')
		digits++
	}
	return value, digits
}

// A report is a control sequence that ends in n or c.
type report struct {
	prefix byte
	value  int
	final  byte
}

// reports are the reports that are queries, with what they ask for.
var reports = map[report]kind{
	{0, 0, 'c'}: attributes, {'>', 0, 'c'}: version,
	{0, 5, 'n'}: status, {0, 6, 'n'}: position, {'?', 6, 'n'}: extended,
}

// parseOSC is parse for a command to the operating system.
func parseOSC(b []byte) (q query, n int) {
	const (
		ask = "\x1b]10;?"
		at  = len("\x1b]1") // the digit that names the colour
	)
	for i := 2; i < len(b) && i < len(ask); i++ {
		if b[i] != ask[i] && (i != at || b[i] != '1') {
			return query{}, i
		}
	}
	if len(b) <= len(ask) {
		return query{}, 0
	}
	q.kind = foreground
	if b[at] == '1' {
		q.kind = background
	}
	switch i := len(ask); {
	case b[i] == bel:
		q.bel = true
		return q, i + 1
	case b[i] != esc:
		return query{}, i
	case i+1 == len(b):
		return query{}, 0
	case b[i+1] == '\\':
		return q, i + 2
	default:
		return query{}, i
	}
}

const bel = 0x07
