package pystack

// The formats of the table of lines of a code object. Each lists ranges of instructions in order.

// lineIn returns the line of the instruction at byte offset at, according to the table of a minor
// version. first is the line of the code object itself. An instruction without a line, such as the
// end of an except clause, is shown at the line of the range before.
func lineIn(minor int, table []byte, first, at int) int {
	switch {
	case minor >= 11:
		line, _ := location(table, first, at)
		return line
	case minor == 10:
		return rangeLine(table, first, at)
	}
	return incrementLine(table, first, at)
}

// incrementLine reads co_lnotab of 3.9: pairs of increments of the instruction and the line.
func incrementLine(table []byte, first, at int) int {
	line, end := first, 0
	for ; len(table) >= 2; table = table[2:] {
		if end += int(table[0]); end > at {
			break
		}
		line += int(int8(table[1]))
	}
	return max(0, line)
}

// rangeLine reads co_linetable of 3.10 (https://peps.python.org/pep-0626/): pairs of the length of
// a range and the increment of the line at its start. The increment -128 stands for none.
func rangeLine(table []byte, first, at int) int {
	const none = -128
	line, end := first, 0
	for ; len(table) >= 2; table = table[2:] {
		if delta := int(int8(table[1])); delta != none {
			line += delta
		}
		if end += int(table[0]); at < end {
			break
		}
	}
	return max(0, line)
}

// A Span is a range of source text: lines from 1, columns from 0, in bytes of UTF-8. The zero Span
// is unknown.
type Span struct{ Line, Column, EndLine, EndColumn int }

// The kinds of entries of co_linetable of 3.11 and newer. Kinds below oneLine have one more byte, of
// columns; from oneLine to noColumns two.
const (
	oneLine   = 10 // the kinds 10 to 12: the increment of the line is the kind minus oneLine
	noColumns = 13 // an increment follows
	long      = 14 // an increment and three numbers follow; 15 has no line
)

// location reads co_linetable of 3.11 and newer: entries that begin with a byte whose highest bit is
// set, with a kind and a number of instructions. See
// https://github.com/python/cpython/blob/3.11/Objects/locations.md.
func location(table []byte, first, at int) (line int, span Span) {
	line, end := first, 0
	for len(table) > 0 {
		kind, length := int(table[0]>>3)&15, 1
		end += (int(table[0]&7) + 1) * 2
		for length < len(table) && table[length]&0x80 == 0 {
			length++
		}
		entry := table[1:length]
		table = table[length:]
		span = Span{}
		switch {
		case kind < oneLine && len(entry) == 1:
			span.Column = kind<<3 | int(entry[0]>>4)
			span.EndColumn = span.Column + int(entry[0]&15)
		case kind >= oneLine && kind < noColumns && len(entry) == 2:
			line += kind - oneLine
			span.Column, span.EndColumn = int(entry[0]), int(entry[1])
		case kind == noColumns || kind == long:
			var delta, lines int
			delta, entry = signed(entry)
			line += delta
			lines, entry = unsigned(entry)
			span.EndLine = lines
			span.Column, entry = unsigned(entry)
			span.EndColumn, _ = unsigned(entry)
			span.Column-- // 0 stands for none
			span.EndColumn--
		}
		if at < end {
			break
		}
	}
	if span.EndColumn <= 0 || span.Column < 0 {
		return max(0, line), Span{}
	}
	span.Line, span.EndLine = line, line+span.EndLine
	return max(0, line), span
}

// unsigned returns the number at the start of b and what follows it: six bits a byte, lowest first,
// of which bit 6 says that another follows.
func unsigned(b []byte) (n int, rest []byte) {
	for i, c := range b {
		n |= int(c&63) << (6 * i)
		if c&64 == 0 || i >= 5 {
			return n, b[i+1:]
		}
	}
	return n, nil
}

// signed is unsigned for a number whose lowest bit is the sign.
func signed(b []byte) (n int, rest []byte) {
	n, rest = unsigned(b)
	if n&1 != 0 {
		return -(n >> 1), rest
	}
	return n >> 1, rest
}
