//go:build unix

package queries

import "asyncrepl/internal/text/escape"

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
	mode escape.Mode // the query asks for its setting
	bel  bool        // it ended with BEL, and so does the answer
}

// scan calls found with each query that ends in b, the next piece of the output, and with the offset
// in b where it ends.
func (r *Responder) scan(b []byte, found func(q query, end int)) {
	r.reader.Read(b, func(sequence []byte, end int) {
		if q := parse(sequence); q.kind != none {
			found(q, end)
		}
	})
}

// colours are the queries for colours.
var colours = map[string]query{
	"\x1b]10;?\a": {kind: foreground, bel: true}, "\x1b]10;?\x1b\\": {kind: foreground},
	"\x1b]11;?\a": {kind: background, bel: true}, "\x1b]11;?\x1b\\": {kind: background},
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

// parse returns the query that an escape sequence is, if it is one.
func parse(sequence []byte) query {
	last := len(sequence) - 1
	switch final := sequence[last]; {
	case final == '\a' || final == '\\':
		return colours[string(sequence)]
	case sequence[1] != '[':
		return query{}
	case final == 'n' || final == 'c':
		prefix, value, ok := parameter(sequence[2:last])
		if !ok {
			return query{}
		}
		return query{kind: reports[report{prefix, value, final}]}
	case final == 'p' && sequence[last-1] == '$':
		prefix, value, ok := parameter(sequence[2 : last-1])
		if !ok || prefix == '>' || sequence[last-2] < '0' || sequence[last-2] > '9' {
			return query{}
		}
		return query{kind: modeSetting, mode: escape.Mode{Private: prefix == '?', Number: value}}
	}
	return query{}
}

// maxDigits bounds the parameter of a query.
const maxDigits = 5

// parameter parses the only parameter of a control sequence, with the prefix before it, if any. An
// omitted one is 0.
func parameter(text []byte) (prefix byte, value int, ok bool) {
	if len(text) > 0 && (text[0] == '?' || text[0] == '>') {
		prefix, text = text[0], text[1:]
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, 0, false
		}
		value = value*10 + int(c-'0')
	}
	return prefix, value, len(text) <= maxDigits
}
