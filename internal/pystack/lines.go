package pystack

// The formats of the table of lines of a code object. Each lists ranges of instructions in order.

// lineIn returns the line of the instruction at byte offset at, according to the table of a minor
// version. first is the line of the code object itself. An instruction without a line, such as the
// end of an except clause, is shown at the line of the range before.
func lineIn(minor int, table []byte, first, at int) int {
	switch {
	case minor >= 11:
		return locationLine(table, first, at)
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

// rangeLine reads co_linetable of 3.10: pairs of the length of a range and the increment of the
// line at its start. The increment -128 stands for none.
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

// The kinds of entries of co_linetable of 3.11 and newer that matter for the line. Kinds below
// oneLine have one more byte, of columns; from oneLine to noColumns two.
const (
	oneLine   = 10 // to 12: the increment of the line is the kind minus this
	noColumns = 13 // an increment follows
	long      = 14 // an increment and three numbers follow; 15 has no line
)

// locationLine reads co_linetable of 3.11 and newer: entries that begin with a byte whose highest
// bit is set, with a kind and a number of instructions.
func locationLine(table []byte, first, at int) int {
	line, end := first, 0
	for len(table) > 0 {
		kind := int(table[0]>>3) & 15
		end += (int(table[0]&7) + 1) * 2
		table = table[1:]
		switch {
		case kind == noColumns || kind == long:
			line += signed(table)
		case kind >= oneLine && kind < noColumns:
			line += kind - oneLine
		}
		if at < end {
			break
		}
		for len(table) > 0 && table[0]&0x80 == 0 {
			table = table[1:]
		}
	}
	return max(0, line)
}

// signed returns the number at the start of b: six bits a byte, lowest first, of which bit 6 says
// that another follows; the lowest bit of all is the sign.
func signed(b []byte) int {
	n, shift := 0, 0
	for _, c := range b {
		n |= int(c&63) << shift
		if shift += 6; c&64 == 0 || shift > 30 {
			break
		}
	}
	if n&1 != 0 {
		return -(n >> 1)
	}
	return n >> 1
}
