package pystack

import "slices"

const (
	deep   = 4096 // the most frames of a chain
	others = 64   // the most interpreters and the most threads that are searched for the main one

	// Frames with the owner fromC or a higher one belong to C code of the interpreter. There is no
	// owner above ownerMax.
	fromC, ownerMax = 3, 4

	// tags are the bits of a pointer that new versions use for something else.
	tags = 7
)

// A link is a frame as it is in memory.
type link struct {
	frame, code uint64 // the addresses of the frame and of its code object
	at          uint64 // the address of its instruction, or before 3.11 its number
	state       int    // the field that atWork checks; its meaning depends on the version
	calls       bool   // the frame has called the next inner frame without C code in between
}

// A chain is the Python frames of a thread, innermost first.
type chain struct {
	links []link
	cut   bool // the thread has more frames
}

// equal reports whether two readings show the same stack. Only the innermost frame can have reached
// another instruction in between: the others are at a call.
func (c chain) equal(d chain) bool {
	return c.cut == d.cut && len(c.links) == len(d.links) && len(c.links) > 0 &&
		c.links[0].frame == d.links[0].frame && c.links[0].code == d.links[0].code &&
		slices.Equal(c.links[1:], d.links[1:])
}

// circular reports whether a frame occurs twice, which is impossible in a real stack.
func (c chain) circular() bool {
	seen := make(map[uint64]bool, len(c.links))
	for _, k := range c.links {
		if seen[k.frame] {
			return true
		}
		seen[k.frame] = true
	}
	return false
}

// chain reads the frames of the main thread.
func (t *Target) chain(v *view) (chain, error) {
	frame, ok := t.innermost(v)
	if !ok {
		return chain{}, v.failed()
	}
	l := &t.layout
	c := chain{links: make([]link, 0, 32), cut: true}
	direct := false // the next outer frame has called the last one directly
	for range deep {
		if frame == 0 {
			c.cut = false
			return c, nil
		}
		b := v.bytes(frame, l.frameSize)
		if b == nil && v.full() {
			break
		}
		if b == nil || l.owner != 0 && b[l.owner] > ownerMax {
			return chain{}, v.failed()
		}
		if l.owner == 0 || b[l.owner] < fromC {
			k := t.link(frame, b)
			k.calls = direct
			c.links = append(c.links, k)
			direct = l.owner != 0 && (l.entry == 0 || b[l.entry] == 0)
		} else {
			direct = false
		}
		frame = wordAt(b, l.previous)
	}
	if c.circular() {
		return chain{}, errTorn
	}
	return c, nil
}

// atWork reports whether all frames of a chain are marked as running, as their version marks them.
// A frame that has returned stays in memory until the next call overwrites it.
func (t *Target) atWork(c chain) bool {
	for i, k := range c.links {
		switch {
		case t.layout.minor == 9:
			if k.state != 1 {
				return false
			}
		case t.layout.minor == 10:
			if k.state != executing && k.state != unwinding {
				return false
			}
		case t.layout.depth == 0:
		// The depth of the stack of values is -1 in a frame that runs or has called C code.
		case i == 0 && k.state != -1 || k.calls && k.state < 0:
			return false
		}
	}
	return true
}

// The states of a frame that runs, in 3.10.
const executing, unwinding = 0, 2

// link returns the link of the frame at an address, whose bytes are b.
func (t *Target) link(frame uint64, b []byte) link {
	k := link{frame: frame, code: wordAt(b, t.layout.frameCode) &^ tags}
	if t.layout.instructions == 0 {
		k.at = uint64(int32At(b, t.layout.at))
	} else {
		k.at = wordAt(b, t.layout.at)
	}
	switch {
	case t.layout.state != 0:
		k.state = int(int8(b[t.layout.state]))
	case t.layout.depth != 0:
		k.state = int32At(b, t.layout.depth)
	}
	return k
}

// innermost returns the address of the innermost frame of the main thread, or 0 if it has none.
func (t *Target) innermost(v *view) (frame uint64, ok bool) {
	l := &t.layout
	interp, ok := v.word(t.runtime + uint64(l.interpreters))
	if !ok {
		return 0, false
	}
	for range others { // the main interpreter is the oldest one, with the id 0
		id, ok := v.word(interp + uint64(l.interpID))
		if !ok {
			return 0, false
		}
		if id == 0 {
			break
		}
		if interp, ok = v.word(interp + uint64(l.nextInterp)); !ok {
			return 0, false
		}
	}
	main := uint64(t.pid)
	if l.mainThread != 0 {
		if main, ok = v.word(t.runtime + uint64(l.mainThread)); !ok {
			return 0, false
		}
	}
	thread, ok := v.word(interp + uint64(l.threads))
	for range others {
		id, found := v.word(thread + uint64(l.threadID))
		if !ok || !found {
			return 0, false
		}
		if id == main {
			break
		}
		thread, ok = v.word(thread + uint64(l.nextThread))
	}
	if frame, ok = v.word(thread + uint64(l.threadFrame)); ok && l.hasCFrame {
		frame, ok = v.word(frame + uint64(l.inCFrame))
	}
	return frame, ok
}
