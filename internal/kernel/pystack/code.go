package pystack

import (
	"encoding/binary"
	"strings"
	"unicode/utf8"
)

// A code is the part of a code object (PyCodeObject) that a look needs.
type code struct {
	place Place
	first int    // co_firstlineno
	lines []byte // the table of lines: co_lnotab in 3.9, co_linetable later
	start uint64 // the address of the first instruction; 0 before 3.11: frames have a number
	size  int    // the size of the instructions in bytes; 0 if start is 0
	minor int    // the minor version of Python
}

// frame returns the frame whose next instruction is at, see [link]. The line is unknown if the
// instruction does not belong to this code.
func (c *code) frame(at uint64) Frame {
	f := Frame{Place: c.place}
	n := int(int32(at)) // before 3.11
	switch {
	case c.start != 0:
		n = int(int64(at - c.start))
		if n == -2 && c.minor <= 12 { // the code has not begun
			n = 0
		}
		if n < 0 || n >= c.size {
			return f
		}
	case c.minor == 10:
		n *= 2
	}
	f.Line = lineIn(c.minor, c.lines, c.first, max(0, n))
	if c.minor >= 11 {
		_, f.Span = location(c.lines, c.first, max(0, n))
	}
	return f
}

// code reads the code object at an address, unless known has it already, and adds it to known.
func (t *Target) code(v *view, addr uint64, known map[uint64]*code) (*code, error) {
	if c := known[addr]; c != nil {
		return c, nil
	}
	l := &t.layout
	b := v.bytes(addr, max(l.lines, l.name, l.filename)+8)
	if b == nil {
		return nil, v.failed()
	}
	c := &code{first: int32At(b, l.firstLine), minor: l.minor}
	if l.instructions != 0 {
		n := wordAt(b, l.sizeAt) // each instruction has two bytes
		if n > bytesMax {
			return nil, errTorn
		}
		c.start, c.size = addr+uint64(l.instructions), int(n)*2
	}
	var ok [3]bool
	c.place.File, ok[0] = t.text(v, wordAt(b, l.filename), true)
	c.place.Function, ok[1] = t.text(v, wordAt(b, l.name), false)
	c.lines, ok[2] = t.data(v, wordAt(b, l.lines))
	if ok != [3]bool{true, true, true} {
		return nil, v.failed()
	}
	known[addr] = c
	return c, nil
}

// data returns the content of a bytes object.
func (t *Target) data(v *view, addr uint64) ([]byte, bool) {
	n, ok := v.word(addr + uint64(t.layout.sizeAt))
	if !ok || n > bytesMax {
		return nil, false
	}
	if n == 0 {
		return nil, true
	}
	b := v.bytes(addr+uint64(t.layout.bytesAt), int(n))
	return b, b != nil
}

// The bits of a str's state from layout.kindBit on. The lowest three are its kind: the size of a
// character in bytes.
const (
	kindMask = 7
	compact  = 1 << 3
	ascii    = 1 << 4
)

// text returns the content of a str, cut to charsMax characters. If tail is set, the last
// characters are kept, and else the first.
func (t *Target) text(v *view, addr uint64, tail bool) (string, bool) {
	l := &t.layout
	b := v.bytes(addr, l.stateAt+4)
	if b == nil {
		return "", false
	}
	n := wordAt(b, l.lengthAt)
	state := binary.LittleEndian.Uint32(b[l.stateAt:]) >> l.kindBit
	kind := int(state & kindMask)
	if state&compact == 0 || kind != 1 && kind != 2 && kind != 4 || n > bytesMax {
		return "", false
	}
	if n == 0 {
		return "", true
	}
	from, cut := addr+uint64(l.compact), n > charsMax
	if state&ascii != 0 {
		from = addr + uint64(l.ascii)
	}
	if cut {
		if tail {
			from += (n - charsMax) * uint64(kind)
		}
		n = charsMax
	}
	chars := v.bytes(from, int(n)*kind)
	if chars == nil {
		return "", false
	}
	s := decode(chars, kind)
	switch {
	case cut && tail:
		s = "…" + s
	case cut:
		s += "…"
	}
	return s, true
}

// decode decodes characters of size bytes each: 1, 2 or 4.
func decode(b []byte, size int) string {
	var s strings.Builder
	s.Grow(len(b) / size)
	for ; len(b) >= size; b = b[size:] {
		switch size {
		case 1:
			s.WriteRune(rune(b[0]))
		case 2:
			s.WriteRune(rune(binary.LittleEndian.Uint16(b)))
		case 4:
			r := binary.LittleEndian.Uint32(b)
			if r > utf8.MaxRune {
				r = utf8.RuneError
			}
			s.WriteRune(rune(r))
		}
	}
	return s.String()
}
