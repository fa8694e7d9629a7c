package pystack

import "encoding/binary"

// A coroutine that waits has its frame in itself. On top of that frame's stack of values is what it
// awaits: another coroutine, or in the end a future.

// A wait is a frame that waits.
type wait struct {
	link
	code *code
}

// awaited returns the frames of the coroutine that the loop runs, outermost first, if it waits; run
// is the frame of Program.Loop. It returns nil if the coroutine is at work, or can't be read.
func (t *Target) awaited(v *view, run link, codes map[uint64]*code) (ws []wait) {
	l := &t.layout
	object, ok := v.word(run.frame + uint64(l.locals+8*t.program.Coroutine))
	object &^= tags
	kind, typed := v.word(object + uint64(l.typeAt))
	for same := ok && typed; same && len(ws) < Frames; {
		k, next, ok := t.suspended(v, object)
		if !ok {
			return nil
		}
		code, err := t.code(v, k.code, codes)
		if err != nil {
			return nil
		}
		ws = append(ws, wait{k, code})
		is, ok := v.word(next + uint64(l.typeAt))
		object, same = next, ok && is == kind
	}
	return ws
}

// suspended returns the frame of a coroutine that waits, and what it awaits.
func (t *Target) suspended(v *view, coroutine uint64) (k link, awaits uint64, ok bool) {
	l := &t.layout
	frame := coroutine + uint64(l.genFrame)
	if l.owner == 0 {
		if frame, ok = v.word(frame); !ok {
			return link{}, 0, false
		}
	}
	b := v.bytes(frame, l.frameSize)
	if b == nil {
		return link{}, 0, false
	}
	var state []byte
	if l.minor == 10 {
		state = b[l.state:]
	} else if state = v.bytes(coroutine+uint64(l.genState), 1); state == nil {
		return link{}, 0, false
	}
	top, waits := t.top(b, frame, int8(state[0]))
	if !waits {
		return link{}, 0, false
	}
	awaits, ok = v.word(top - uint64(l.under))
	return t.link(frame, b), awaits &^ tags, ok
}

// top returns the address behind the top of the stack of values of the frame with the bytes b, and
// whether a coroutine in a state waits there.
func (t *Target) top(b []byte, frame uint64, state int8) (addr uint64, waits bool) {
	l := &t.layout
	depth := 0
	if l.depth != 0 {
		depth = int(int32(binary.LittleEndian.Uint32(b[l.depth:])))
	}
	switch {
	// The address is 0 while the frame is at work; the state says only whether it is.
	case l.minor == 9:
		addr = wordAt(b, l.stack)
		return addr, state == 0 && addr != 0
	case l.minor == 10: // stack is the address of the first value, depth the number of values
		addr = wordAt(b, l.stack) + uint64(8*depth)
	case l.depth != 0: // depth counts the values and the variables
		addr = frame + uint64(l.locals+8*depth)
	default:
		addr = wordAt(b, l.stack)
		depth = 1
	}
	return addr, state == l.waiting && depth > 0
}
