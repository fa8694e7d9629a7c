package screen

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/ansi/parser"
	"github.com/charmbracelet/x/vt"
)

// maxCells bounds the size of a screen, so that a terminal of 10,000 rows and columns does not fill
// the memory: the library keeps each screen twice, in 112 bytes a cell.
const maxCells = 1 << 17

// A Screen is a terminal of some rows and columns. It is not safe for concurrent use.
//
// The library has an alternate screen, too, but keeps up to 10,000 lines that scroll off it
// (DefaultScrollbackSize in https://pkg.go.dev/github.com/charmbracelet/x/vt), in 112 bytes a
// character. So each of the two screens has an emulator here, and no emulator ever switches.
type Screen struct {
	rows, cols int
	emulators  [2]*vt.Emulator // the main screen, and the alternate one, made when needed
	alternate  bool            // the program draws on the alternate screen
	hidden     bool            // the program has hidden the cursor
	noWrap     bool            // the program has turned off that lines wrap
	wraps      bool            // a wide character has filled its line: the next one begins a line
	after      func()          // does what the emulator can't do while it reads a sequence
	err        error           // why the screen can't be drawn any more
}

// New returns an empty screen.
func New(rows, cols int) *Screen {
	s := &Screen{rows: rows, cols: cols}
	if s.err = checkSize(rows, cols); s.err == nil {
		s.emulators[0] = s.newEmulator()
	}
	return s
}

func checkSize(rows, cols int) error {
	if rows < 1 || cols < 1 || rows > maxCells/cols {
		return fmt.Errorf("a screen of %d rows and %d columns can't be drawn", rows, cols)
	}
	return nil
}

// Write draws what a program has written. The pieces of its output can be cut anywhere. If one
// takes as long as [Draw] may, the screen can't be drawn any more.
func (s *Screen) Write(b []byte) { s.writeParts(b) }

// Resize changes the size of the screen, because the program's terminal has been resized.
func (s *Screen) Resize(rows, cols int) {
	defer s.recover()
	if err := checkSize(rows, cols); s.err == nil {
		s.err = err
	}
	if s.err != nil {
		return
	}
	s.rows, s.cols = rows, cols
	for _, e := range s.emulators {
		if e != nil {
			e.Resize(cols, rows)
		}
	}
}

// Alternate reports whether the program draws on the alternate screen.
func (s *Screen) Alternate() bool { return s.alternate }

// Cursor returns the place of the cursor. It reports false if the screen can't be drawn any more.
func (s *Screen) Cursor() (row, col int, ok bool) {
	if s.err != nil {
		return 0, 0, false
	}
	at := s.current().CursorPosition()
	return at.Y + 1, at.X + 1, true
}

// Rows returns the rows from the top to the last one that is not blank; none if the screen can't be
// drawn any more.
func (s *Screen) Rows() (rows []string) {
	if s.err != nil {
		return nil
	}
	defer s.recover()
	for y := range s.rows {
		rows = append(rows, s.row(y))
	}
	for len(rows) > 0 && rows[len(rows)-1] == "" {
		rows = rows[:len(rows)-1]
	}
	return rows
}

func (s *Screen) row(y int) string {
	var b strings.Builder
	for x := range s.cols {
		cell := s.current().CellAt(x, y)
		switch {
		case cell == nil || cell.Width == 0 && cell.Content == "": // the rest of a wide character
		case cell.Content == "":
			b.WriteByte(' ')
		default:
			b.WriteString(cell.Content)
		}
	}
	return strings.TrimRight(strings.Map(printable, b.String()), " ")
}

// printable returns r, or -1 for a control character. strings.Map turns bytes that are not UTF-8
// into utf8.RuneError.
func printable(r rune) rune {
	if unicode.IsControl(r) {
		return -1
	}
	return r
}

// current returns the emulator of the screen that the program draws on.
func (s *Screen) current() *vt.Emulator {
	if s.alternate {
		return s.emulators[1]
	}
	return s.emulators[0]
}

// recover is deferred around each use of the library that the output of a program can make panic.
func (s *Screen) recover() {
	if v := recover(); v != nil {
		s.err = fmt.Errorf("drawing a screen: %v", v)
	}
}

// writeParts draws parts of what a program has written, and gives the screen up if the time is over
// before the end.
func (s *Screen) writeParts(parts ...[]byte) {
	defer s.recover()
	w := startStopwatch(limit)
	defer w.stop()
	for _, part := range parts {
		s.writePart(part, w)
	}
}

func (s *Screen) writePart(b []byte, w *stopwatch) {
	for len(b) > 0 && s.err == nil {
		if w.over() {
			s.err = errSlow
			return
		}
		n := s.writePiece(b)
		for s.after != nil {
			f := s.after
			s.after = nil
			f()
		}
		b = b[n:]
	}
}

// maxPiece bounds a piece of output on a screen of the usual size, because the time limit is
// checked between pieces only. Each byte of a piece can scroll the screen, which takes 50 µs.
const (
	maxPiece  = 64
	usualSize = 40 * 120
)

// pieceEnd returns the length of the first piece of b: up to the next escape sequence or wide
// character, or the end of a sequence that after is for.
func (s *Screen) pieceEnd(b []byte) int {
	most := min(len(b), maxPiece*usualSize/max(usualSize, s.rows*s.cols))
	for i := 1; i < most; i++ {
		switch c, before := b[i], b[i-1]; {
		case c == esc, c >= firstWide && wide(b[i:most]) > 0:
			return i
		case strings.IndexByte(afterSequences, c) >= 0 && (before == esc || before == '[' || before >= '0' && before <= '9'):
			return i + 1
		}
	}
	for most > utf8.UTFMax && most < len(b) && !utf8.RuneStart(b[most]) { // not inside a character
		most--
	}
	return max(most, 1)
}

const esc = 0x1b

// afterSequences are the last bytes of the sequences whose handlers set Screen.after.
const afterSequences = "hlcsuE"

// newEmulator returns an emulator of the library that is safe with any output, and that can do what
// the library lacks.
func (s *Screen) newEmulator() *vt.Emulator {
	e := vt.NewEmulator(s.cols, s.rows)
	e.SetScrollbackSize(1)
	if answers, ok := e.InputPipe().(io.Closer); ok {
		answers.Close() // no answer waits for a reader
	}
	for _, final := range []byte("@ABCDEFGHIJKLMPSTXZ`abdefr") {
		e.RegisterCsiHandler(int(final), func(p ansi.Params) bool { return s.limit(final, p) })
	}
	e.RegisterCsiHandler(ansi.Command('?', 0, 'h'), func(p ansi.Params) bool { return s.switches(p, true) })
	e.RegisterCsiHandler(ansi.Command('?', 0, 'l'), func(p ansi.Params) bool { return s.switches(p, false) })
	e.RegisterCsiHandler('s', func(ansi.Params) bool { return s.write("\x1b7") })
	e.RegisterCsiHandler('u', func(ansi.Params) bool { return s.write("\x1b8") })
	e.RegisterEscHandler('E', func() bool { return s.write("\r\n") })
	e.RegisterEscHandler('c', s.reset)
	return e
}

// write makes a sequence mean text.
func (s *Screen) write(text string) bool {
	s.after = func() { _, _ = s.current().WriteString(text) }
	return true
}

// limit bounds the parameters of a control sequence, so that none counts beyond the screen. It
// reports whether the sequence is done with, which leaves out one that the library misreads.
func (s *Screen) limit(final byte, p ansi.Params) bool {
	most := max(s.rows, s.cols)
	switch final {
	case 'b': // repeats a character
		most = s.rows * s.cols
	case 'r':
		most = s.rows
	case 'J':
		if n, _, _ := p.Param(0, 0); n == 3 { // erases what has scrolled off, and nothing else
			return true
		}
	}
	for i := range p {
		if p[i].Param(0) > most {
			p[i] = ansi.Param(most)
		}
	}
	return false
}

// missing is a parameter that the library ignores.
const missing = ansi.Param(parser.MissingParam)

// switches takes the switch between the screens out of a sequence that sets modes, and notes
// whether it hides the cursor, on either screen.
func (s *Screen) switches(p ansi.Params, on bool) bool {
	for i := range p {
		switch n := p[i].Param(0); n {
		case 47, 1047, 1049:
			s.after = func() { s.useAlternate(on, n == 1049) }
			p[i] = missing
		case 7:
			s.noWrap = !on
		case 25:
			s.hidden = !on
		case 69: // margins at the sides: no program was seen to use them
			p[i] = missing
		}
	}
	return false
}

// useAlternate switches to the alternate screen, which is blank then, or back. restore reports
// whether the way back also moves the cursor to the place where it was last saved. It moves the
// cursor even if the main screen is already shown.
func (s *Screen) useAlternate(on, restore bool) {
	at := s.current().CursorPosition()
	switch {
	case on == s.alternate:
		if !on && restore {
			_, _ = s.current().WriteString("\x1b8")
		}
		return
	case !on:
		s.alternate = false
		return
	}
	s.alternate = true
	if s.emulators[1] == nil {
		s.emulators[1] = s.newEmulator()
	}
	// A new screen, except for the place of the cursor.
	_, _ = fmt.Fprintf(s.current(), "\x1b[r\x1b[?6l\x1b[?7h\x1b(B\x1b)B\x0f\x1b[m\x1b[2J\x1b[%d;%dH", at.Y+1, at.X+1)
}

// reset does what the library leaves out when a program resets its terminal.
func (s *Screen) reset() bool {
	s.hidden, s.noWrap = false, false
	if s.alternate {
		s.after = func() {
			s.alternate = false
			_, _ = s.current().WriteString("\x1bc")
		}
	}
	return s.alternate
}
