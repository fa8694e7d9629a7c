package escape

import "bytes"

// Longest bounds the sequences that a [Reader] finds, in bytes. Sequences that set a mode or ask
// for something are far shorter. Without it, a string that never ends would fill the memory.
const Longest = 256

// A Reader finds the sequences of output that comes in pieces. What it finds does not depend on where
// the pieces are cut. The zero Reader is at the beginning of the output.
type Reader struct {
	held []byte // the end of the output so far, if a sequence has begun and not ended there
}

// Read calls found with the bytes of each sequence that ends in b, the next piece of the output, and
// with the offset in b where it ends. found must keep no reference to the bytes. Left out are
// sequences that are broken or longer than [Longest], those that only set colours, move the cursor or
// erase, and the end of a string (ST) on its own.
func (r *Reader) Read(b []byte, found func(sequence []byte, end int)) {
	i := 0
	if len(r.held) > 0 {
		i = r.resume(b, found)
	}
	for i < len(b) {
		k := bytes.IndexByte(b[i:], ESC)
		if k < 0 {
			return
		}
		i += k
		if n := drawing(b[i:]); n > 0 {
			i += n
			continue
		}
		q := Scan(b[i:])
		if q.Open {
			if len(b)-i > Longest { // all of it but a last ESC is without meaning
				i = len(b) - 1
			}
			r.held = append(r.held, b[i:]...)
			return
		}
		if i += q.Len; q.isFound() {
			found(b[i-q.Len:i], i)
		}
	}
}

// resume reads what is held, with as much of b as it needs, and returns how many bytes of b it has
// read.
func (r *Reader) resume(b []byte, found func(sequence []byte, end int)) (read int) {
	held := len(r.held)
	joined := append(r.held, b[:min(len(b), Longest+1)]...)
	r.held = r.held[:0]
	for i := 0; i < held; {
		k := bytes.IndexByte(joined[i:held], ESC)
		if k < 0 {
			return 0
		}
		i += k
		q := Scan(joined[i:])
		switch {
		case q.Open && len(joined)-i <= Longest: // b is short
			r.held = append(r.held, joined[i:]...)
			return len(b)
		case q.Open: // too long: no ESC is in it
			return max(0, len(joined)-held-1)
		}
		i += q.Len
		if read = max(0, i-held); q.isFound() && drawing(joined[i-q.Len:]) == 0 {
			found(joined[i-q.Len:i], read)
		}
	}
	return read
}

// isFound reports whether a Reader finds q.
func (q Sequence) isFound() bool { return !q.Broken && q.Len <= Longest && q.Final != '\\' }

// drawing returns the length of the control sequence that b begins with if it is one of those that
// coloured output is full of, and 0 otherwise. It is short, so that such output costs little.
func drawing(b []byte) int {
	if len(b) < 3 || b[1] != '[' {
		return 0
	}
	i := 2
	for i < len(b)-1 && (b[i]-'0' <= 9 || b[i] == ';') {
		i++
	}
	switch b[i] {
	case 'm', 'K', 'H', 'J', 'A', 'B', 'C', 'D', 'G', 'd', 'X':
		return i + 1
	}
	return 0
}
