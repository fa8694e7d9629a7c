package pystack

import (
	"encoding/binary"
	"unicode/utf8"
)

const base = 1 << 16 // where the memory of a fake begins

// A fake is the memory of an interpreter that does not exist.
type fake struct {
	bytes   []byte
	total   int // bytes so far
	changes func(m *fake)
}

func (m *fake) read(spans []span) error {
	if m.changes != nil {
		m.changes(m)
	}
	for _, s := range spans {
		if s.addr < base || s.addr-base > uint64(len(m.bytes)) || len(s.into) > len(m.bytes)-int(s.addr-base) {
			return errTorn
		}
		m.total += copy(s.into, m.bytes[s.addr-base:])
	}
	return nil
}

// alloc returns the address of n new bytes.
func (m *fake) alloc(n int) uint64 {
	at := len(m.bytes)
	m.bytes = append(m.bytes, make([]byte, (n+15)&^15)...)
	return base + uint64(at)
}

func (m *fake) put(addr uint64, at int, w uint64) {
	binary.LittleEndian.PutUint64(m.bytes[int(addr-base)+at:], w)
}

func (m *fake) put32(addr uint64, at int, n int) {
	binary.LittleEndian.PutUint32(m.bytes[int(addr-base)+at:], uint32(int32(n)))
}

func (m *fake) putByte(addr uint64, at int, b byte) { m.bytes[int(addr-base)+at] = b }

// text adds a str.
func (m *fake) text(l *layout, s string) uint64 {
	size, flags, head := 1, ascii, l.ascii
	for _, r := range s {
		switch {
		case r > 0xffff:
			size = 4
		case r > 0xff:
			size = max(size, 2)
		}
		if r >= utf8.RuneSelf {
			flags, head = 0, l.compact
		}
	}
	runes := []rune(s)
	addr := m.alloc(head + size*len(runes) + 8)
	m.put(addr, l.lengthAt, uint64(len(runes)))
	m.put32(addr, l.stateAt, (size|compact|flags)<<l.kindBit)
	for i, r := range runes {
		at := int(addr-base) + head + i*size
		switch size {
		case 1:
			m.bytes[at] = byte(r)
		case 2:
			binary.LittleEndian.PutUint16(m.bytes[at:], uint16(r))
		case 4:
			binary.LittleEndian.PutUint32(m.bytes[at:], uint32(r))
		}
	}
	return addr
}

// function adds a code object of ten instructions on its first line. From 3.11 on, the last two are
// on the next line.
func (m *fake) function(l *layout, p Place, line int) uint64 {
	addr := m.alloc(320)
	m.put(addr, l.sizeAt, 10)
	m.put(addr, l.filename, m.text(l, p.File))
	m.put(addr, l.name, m.text(l, p.Function))
	m.put32(addr, l.firstLine, line)
	table := []byte{20, 0}
	if l.minor >= 11 {
		table = []byte{1<<7 | oneLine<<3 | 7, 0, 0, 1<<7 | (oneLine+1)<<3 | 1, 0, 0}
	}
	lines := m.alloc(l.bytesAt + len(table))
	m.put(lines, l.sizeAt, uint64(len(table)))
	copy(m.bytes[int(lines-base)+l.bytesAt:], table)
	m.put(addr, l.lines, lines)
	return addr
}

// frame adds a frame that was called by the one at previous.
func (m *fake) frame(l *layout, code, previous uint64) uint64 {
	addr := m.alloc(l.locals + 64)
	m.put(addr, l.previous, previous)
	m.put(addr, l.frameCode, code)
	if l.instructions != 0 {
		m.put(addr, l.at, code+uint64(l.instructions)+2)
	} else {
		m.put32(addr, l.at, 1)
	}
	if l.minor == 9 {
		m.putByte(addr, l.state, 1)
	}
	if l.depth != 0 {
		m.put32(addr, l.depth, 0)
	}
	return addr
}

// interpreter returns a target in a fake whose main thread has the frames of places, outermost
// first.
func interpreter(l layout, program Program, places []Place) (*fake, *Target) {
	m := &fake{}
	runtime, interp, thread := m.alloc(1<<10), m.alloc(1<<10), m.alloc(1<<10)
	m.put(runtime, l.interpreters, interp)
	m.put(interp, l.threads, thread)
	main := uint64(1 << 30) // no process has this number
	if l.mainThread != 0 {
		m.put(runtime, l.mainThread, main)
	}
	m.put(thread, l.threadID, main)
	frame := uint64(0)
	for i, p := range places {
		frame = m.frame(&l, m.function(&l, p, 10*(i+1)), frame)
	}
	if l.depth != 0 {
		m.put32(frame, l.depth, -1)
	}
	if l.hasCFrame {
		c := m.alloc(64)
		m.put(c, l.inCFrame, frame)
		frame = c
	}
	m.put(thread, l.threadFrame, frame)
	m.alloc(pageSize) // whole pages are read
	return m, &Target{
		pid: int(main), version: "3." + string(rune('0'+l.minor)), program: program, mem: m,
		turn: make(chan struct{}, 1), open: true, runtime: runtime, layout: l,
	}
}
