package pystack

import (
	"encoding/binary"
	"strings"
	"unicode/utf8"
)

// A code is what a look needs of a code object.
type code struct {
	place Place
	first int
	lines []byte // the table of lines
	start uint64 // the address of the first instruction; 0: frames have numbers
	size  int    // of the instructions, in bytes, if start is known
	minor int
}

// frame returns the frame of the code at an instruction; see link. Its line is unknown if the
// instruction is none of the code.
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

// code returns the code object at an address. known are those that were read before.
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
		n := wordAt(b, l.sizeAt) // of two bytes each
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

// The bits of the state of a str, above its kind, which is the size of a character.
const (
	kindMask = 7
	compact  = 1 << 3
	ascii    = 1 << 4
)

// text returns a str. A longer one than charsMax is cut in front if tail is set, else behind.
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

// decode returns characters of a size of 1, 2 or 4 bytes.
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
