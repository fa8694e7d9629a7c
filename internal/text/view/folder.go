package view

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

const (
	blockBytes = 256 << 10 // a Folder passes text on when it has so much
	maxLine    = 1 << 20   // a longer line is passed on in pieces: it could fill the memory
	maxOpen    = 1 << 20   // a longer escape sequence counts as broken; a picture can be as long
	minPlain   = 16 << 10  // fewer plain bytes are drawn
	farRedraw  = 64 << 10  // a row that is drawn again so far from where it began begins again
)

// A Place says that the bytes from an offset on are in the log from a cursor on.
type Place struct {
	Offset int
	Cursor int64
}

// placeOf returns the last place up to an offset.
func placeOf(places []Place, offset int) Place {
	i, found := slices.BinarySearchFunc(places, offset, func(p Place, at int) int { return cmp.Compare(p.Offset, at) })
	if !found {
		i--
	}
	return places[i]
}

// A Folder folds the output of one stream piece by piece, in memory that does not grow with it: its
// lines are the lines that [Text] returns for all pieces together. It passes a line on when nothing
// that comes later can change it any more. Most bytes of plain lines are passed on as they are and
// never drawn.
type Folder struct {
	pass   func(Block)
	screen screen
	data   []byte  // the bytes that are being written
	places []Place // the places of data
	buf    []byte  // holds held, then data
	held   []byte  // the end of data, which waits for more
	rows   []Place // the places of the rows in screen.out
	line   int     // the offset of the last line in screen.out
	begun  bool    // a part of the last line in screen.out was passed on
	asked  bool    // the text is for Pending or Finish, which pass it on
}

// NewFolder returns a Folder of output that begins at a cursor.
func NewFolder(cursor int64, pass func(Block)) *Folder {
	f := &Folder{pass: pass}
	f.screen.folder = f
	f.screen.reset(lines{max: -1})
	f.screen.rows[0].at = cursor
	return f
}

// A Block is the text of consecutive lines of one stream, each with a newline unless it is the last
// one and has not ended. A line of more than 1 MiB comes in several blocks.
type Block struct {
	Text  []byte // valid until the function that receives the block returns
	Begun bool   // the first line is the rest of one that the block before ended with
	Open  bool   // the last line continues in the next block

	places []Place
	raw    bool // Text is as it was written: it can have CRLF and bytes that are not UTF-8
}

// Cursor returns where the byte at an offset is in the log, or for text that was drawn, where its
// row begins.
func (b *Block) Cursor(offset int) int64 {
	p := placeOf(b.places, offset)
	if b.raw {
		return p.Cursor + int64(offset-p.Offset)
	}
	return p.Cursor
}

// Bounds returns where the line begins and ends that the byte at an offset is in, and where the next
// one begins.
func (b *Block) Bounds(offset int) (start, end, next int) {
	start = bytes.LastIndexByte(b.Text[:offset], '\n') + 1
	end, next = len(b.Text), len(b.Text)
	if n := bytes.IndexByte(b.Text[offset:], '\n'); n >= 0 {
		end, next = offset+n, offset+n+1
		if b.raw && end > start && b.Text[end-1] == '\r' {
			end--
		}
	}
	return start, end, next
}

// Write folds b, which follows the bytes before it. places says where b is in the log; the first
// one has offset 0. Write doesn't keep b.
func (f *Folder) Write(b []byte, places []Place) {
	f.join(b, places)
	f.fold(completeWithin(f.data, maxOpen), true)
	f.emit()
}

// Begin returns the cursor up to which everything was passed on.
func (f *Folder) Begin() int64 {
	s := &f.screen
	begin := s.row(s.base).at
	// A row that is redrawn can begin after the rows below it, see redraw.
	for y := s.base + 1; y < s.end; y++ {
		begin = min(begin, s.row(y).at)
	}
	for _, row := range f.rows {
		begin = min(begin, row.Cursor)
	}
	return begin
}

// redraw is called when a row begins again at an offset. If much was written since it began, as for
// a bar, it is read from there: a page of the output would not reach its last state.
func (f *Folder) redraw(r *row, offset int) {
	if at := f.cursor(offset); at-r.at > farRedraw {
		r.at = at
	}
}

// Pending passes the lines to pass that can still change, as they are now: rows that can be drawn
// over, and a last line that has not ended. It changes nothing.
func (f *Folder) Pending(pass func(Block)) {
	f.join(nil, nil)
	f.fold(completeWithin(f.data, maxOpen), false)
	f.emit()
	out := &f.screen.out
	text, rows, line, filling := len(out.text), len(f.rows), f.line, f.screen.filling
	f.passRest(pass)
	out.text, f.rows, f.line, f.screen.filling = out.text[:text], f.rows[:rows], line, filling
}

// Finish passes all remaining lines on, because the output has ended. Nothing can be written
// afterwards.
func (f *Folder) Finish() {
	f.join(nil, nil)
	f.fold(len(f.data), false)
	f.passRest(f.pass)
}

// passRest passes the text and all rows of the screen to pass.
func (f *Folder) passRest(pass func(Block)) {
	f.asked = true
	f.screen.finish()
	f.asked = false
	if text := f.screen.out.text; len(text) > 0 {
		pass(Block{Text: text, Begun: f.begun, places: f.rows})
	}
}

// join makes data of the bytes held and b.
func (f *Folder) join(b []byte, places []Place) {
	if len(f.held) == 0 {
		f.data, f.places = b, places
		return
	}
	kept := f.places // the places of f.held
	for _, p := range places {
		kept = append(kept, Place{p.Offset + len(f.held), p.Cursor})
	}
	f.buf = append(f.buf[:len(f.held)], b...)
	f.data, f.places = f.buf, kept
}

// PlacesFrom returns the places of the bytes from an offset on.
func PlacesFrom(places []Place, offset int) []Place {
	var kept []Place
	for _, p := range places {
		if p.Offset > offset {
			kept = append(kept, Place{p.Offset - offset, p.Cursor})
		}
	}
	first := placeOf(places, offset)
	return slices.Insert(kept, 0, Place{0, first.Cursor + int64(offset-first.Offset)})
}

// fold draws data up to end, or passes it on without. Plain bytes at the end wait for what follows
// if more can come. The bytes after end are held.
func (f *Folder) fold(end int, more bool) {
	if len(f.data) == 0 {
		return
	}
	i := 0
	for i < end {
		from, to := plainRegion(f.data, i, end)
		if i = f.screen.draw(f.data[:end], i, from); i >= to {
			continue
		}
		i = f.skip(i, to)
		if more && to == end && to-i <= maxLine {
			break
		}
		i = f.screen.draw(f.data[:end], i, to)
	}
	f.buf = append(f.buf[:0], f.data[i:]...) // data can be in it
	f.held = f.buf
	f.places = PlacesFrom(f.places, i)
	f.data = nil
}

// skip passes the plain lines of data[i:to] on that the bytes after to can't change, without
// drawing them, and returns where the others begin. Those are as many as the screen has rows.
func (f *Folder) skip(i, to int) int {
	s := &f.screen
	first, cut := s.settledLines(f.data, i, to)
	if first == cut {
		return i
	}
	i = s.draw(f.data[:first], i, first)
	if !s.onNewRow() {
		return i
	}
	s.settleAbove()
	f.emit()
	s.row(s.y).at = f.cursor(cut)
	f.pass(Block{Text: f.data[first:cut], places: PlacesFrom(f.places, first), raw: true})
	return cut
}

// cursor returns where the byte at an offset of data is in the log.
func (f *Folder) cursor(offset int) int64 {
	p := placeOf(f.places, offset)
	return p.Cursor + int64(offset-p.Offset)
}

// beginRow is called before a row that begins at a cursor is added to the text.
func (f *Folder) beginRow(at int64) {
	out := &f.screen.out
	if len(out.text) >= blockBytes && !f.asked {
		f.emit()
	}
	out.flush()
	f.rows = append(f.rows, Place{len(out.text), at})
}

// endLine is called when a line has been added to the text.
func (f *Folder) endLine() { f.line = len(f.screen.out.text) }

// emit passes the complete lines on, and a line that is too long in part.
func (f *Folder) emit() {
	out := &f.screen.out
	out.flush()
	end := f.line
	if len(out.text)-end > maxLine {
		end = len(out.text)
	}
	f.emitUpTo(end, end > f.line)
}

// emitUpTo passes the text up to an offset on. open says that its last line continues.
func (f *Folder) emitUpTo(end int, open bool) {
	if end == 0 {
		return
	}
	out := &f.screen.out
	f.pass(Block{Text: out.text[:end], Begun: f.begun, Open: open, places: f.rows})
	f.begun = open
	rest := len(out.text) - end
	if rest == 0 {
		f.rows = f.rows[:0]
	} else {
		f.rows = PlacesFrom(f.rows, end)
	}
	copy(out.text, out.text[end:])
	out.text, out.chars, f.line = out.text[:rest], 0, 0
}

// plainRegion returns the next minPlain bytes or more of b[i:end] that the view shows as they are.
// If there are none, it returns the end twice. It can begin inside an escape sequence.
func plainRegion(b []byte, i, end int) (from, to int) {
	for i < end {
		n := plainLen(b[i:end])
		if n >= minPlain {
			return i, i + n
		}
		i += n + 1
	}
	return end, end
}

// plainLen returns how many bytes at the start of b the view shows as they are, apart from the CR
// of CRLF and bytes that are not UTF-8.
func plainLen(b []byte) int {
	i := 0
	for i < len(b) {
		if len(b)-i >= 8 && printable(binary.LittleEndian.Uint64(b[i:])) {
			i += 8
			continue
		}
		for end := min(i+8, len(b)); i < end; i++ {
			if special[b[i]] && !harmless(b[i:]) {
				return i
			}
		}
	}
	return i
}

// printable reports whether all eight bytes of x are from 0x20 to 0x7e.
func printable(x uint64) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	return ((x-ones*0x20)|(x+ones)|x)&highs == 0
}

// special are the control characters except newline and tab, and 0xc2, which begins the control
// characters beyond ASCII.
var special = func() (s [256]bool) {
	for c := range 0x20 {
		s[c] = c != '\n' && c != '\t'
	}
	s[0x7f], s[0xc2] = true, true
	return s
}()

// harmless reports whether b begins with CRLF or another character than a control character.
func harmless(b []byte) bool {
	return len(b) > 1 && (b[0] == '\r' && b[1] == '\n' || b[0] == 0xc2 && b[1] >= 0xa0)
}
