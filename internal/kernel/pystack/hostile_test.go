package pystack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
	"unsafe"

	"asyncrepl/internal/test/must"
)

var testProgram = Program{
	Bottom:    []Place{{"<string>", "<module>"}, {"<own/main.py>", "serve"}},
	Own:       "<own/",
	Loop:      Place{"<own/main.py>", "run"},
	Coroutine: 1,
}

var testPlaces = []Place{
	{"<string>", "<module>"}, {"<own/main.py>", "serve"}, {"<own/main.py>", "call"},
	{"/w/a.py", "f"}, {"/w/ü.py", "größer"}, {"/w/€.py", "ε"}, {"/w/😀.py", "𝕏"}, {"<own/main.py>", "run"},
	{"/lib/asyncio/base_events.py", "run_forever"},
}

// layoutsForTests are those of layout.go, and some as the interpreter says them.
func layoutsForTests(t testing.TB) (all []layout) {
	for _, minor := range []int{9, 10, 11, 12} {
		all = append(all, layouts[minor])
	}
	for _, minor := range []int{13, 14, 15} {
		for _, threaded := range []bool{false, true} {
			l := must.Get(readLayout(newView(offsets(minor, threaded)), base, minor))(t)
			all = append(all, l)
		}
	}
	return all
}

// offsets returns memory that begins with _Py_DebugOffsets of an interpreter.
func offsets(minor int, threaded bool) *fake {
	m := &fake{}
	runtime := m.alloc(pageSize)
	copy(m.bytes, cookie)
	set := func(word, to int) { m.put(runtime, word*8, uint64(to)) }
	at := wordsOf[minor]
	set(1, 3<<24|minor<<16|0x01f0)
	if threaded {
		set(2, 1)
	}
	set(at.interpreters, 632)
	set(at.interpID, 24)
	set(at.nextInterp, 16)
	set(at.threads, 344)
	set(at.nextThread, 8)
	set(at.threadFrame, 72)
	set(at.native, 160)
	set(at.previous, 8)
	set(at.at, 56)
	set(at.locals, 80)
	set(at.owner, 74)
	set(at.filename, 112)
	set(at.name, 120)
	set(at.lines, 136)
	set(at.firstLine, 68)
	set(at.instrs, 200)
	set(at.typeAt, 8)
	set(at.sizeAt, 16)
	set(at.bytesAt, 32)
	set(at.stateAt, 32)
	set(at.lengthAt, 16)
	set(at.ascii, 40)
	if at.stack != 0 {
		set(at.stack, 64)
		set(at.genFrame, 72)
		set(at.genState, 67)
	} else {
		set(at.headSize, 16)
	}
	return m
}

// Every version's frames are found, and strings of each kind are read.
func TestVersions(t *testing.T) {
	for _, l := range layoutsForTests(t) {
		_, target := interpreter(l, testProgram, testPlaces)
		s, err := target.Look()
		var got []string
		for _, f := range s.Frames {
			got = append(got, fmt.Sprintf("%s:%d %s", f.File, f.Line, f.Function))
		}
		const want = "/w/a.py:40 f, /w/ü.py:50 größer, /w/€.py:60 ε, /w/😀.py:70 𝕏"
		if strings.Join(got, ", ") != want || err != nil || s.Outer != 0 || s.More {
			t.Errorf("3.%d: %v, %v, %d, %v; want %s", l.minor, got, err, s.Outer, s.More, want)
		}
	}
}

// A layout that an interpreter gives is only taken if it can be one.
func TestOffsets(t *testing.T) {
	m := offsets(13, false)
	for name, c := range map[string]struct {
		minor  int
		change func(m *fake)
		want   string
	}{
		"no cookie":       {13, func(m *fake) { m.bytes[0]++ }, "the interpreter does not say where its frames are"},
		"another version": {13, func(m *fake) { m.bytes[8+2]++ }, "the interpreter says that it is another version"},
		"a newer version": {16, func(*fake) {}, "the frames of Python 3.16 are not known"},
		"a wild offset":   {13, func(m *fake) { m.put(base, 8*wordsOf[13].name, 1<<40) }, "the interpreter says that its frames are where they can't be"},
	} {
		changed := &fake{bytes: append([]byte(nil), m.bytes...)}
		c.change(changed)
		if _, err := readLayout(newView(changed), base, c.minor); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v; want %s", name, err, c.want)
		}
	}
}

// The state of a str begins with a byte of its own in a free-threaded build, but not in 3.13.
func TestThreadedStrings(t *testing.T) {
	for minor, want := range map[int]int{13: 2, 14: 8, 15: 8} {
		if l, err := readLayout(newView(offsets(minor, true)), base, minor); err != nil || l.kindBit != want {
			t.Errorf("3.%d: the kind begins at bit %d, %v; want %d", minor, l.kindBit, err, want)
		}
	}
}

// A chain that does not end in the program's frames is no stack of it, and one whose frames have
// been left moves.
func TestTorn(t *testing.T) {
	for _, l := range layoutsForTests(t) {
		_, target := interpreter(l, testProgram, testPlaces[2:])
		if _, err := target.Look(); !errors.Is(err, errUnproven) {
			t.Errorf("3.%d: %v; want %v", l.minor, err, errUnproven)
		}
		if _, err := target.Look(); !errors.As(err, new(*UnavailableError)) {
			t.Errorf("3.%d: again: %v; want the same", l.minor, err)
		}
		_, target = interpreter(l, testProgram, testPlaces)
		target.bottom = []uint64{1, 2}
		if _, err := target.Look(); !errors.Is(err, errGreenlet) {
			t.Errorf("3.%d: %v; want %v", l.minor, err, errGreenlet)
		}
		m, target := interpreter(l, testProgram, testPlaces)
		n := uint64(0)
		m.changes = func(m *fake) { // the second frame is at another instruction each time
			frame, _ := target.innermost(newView(&fake{bytes: m.bytes}))
			second := wordAt(m.bytes, int(frame-base)+l.previous)
			n += 2
			m.put(second, l.at, n)
		}
		if _, err := target.Look(); !errors.Is(err, ErrMoving) {
			t.Errorf("3.%d: %v; want %v", l.minor, err, ErrMoving)
		}
	}
}

// An instruction that is none of the code has no line.
func TestInstructions(t *testing.T) {
	for _, l := range layoutsForTests(t) {
		if l.instructions == 0 {
			continue
		}
		before := 0
		if l.minor <= 12 { // it has not begun
			before = 40
		}
		for at, want := range map[int]int{-256: 0, -4: 0, -2: before, 0: 40, 14: 40, 16: 41, 18: 41, 20: 0, 16 + 256: 0} {
			m, target := interpreter(l, testProgram, testPlaces[:4])
			begun(m, target, at)
			if s, err := target.Look(); err != nil || len(s.Frames) != 1 || s.Frames[0].Line != want {
				t.Errorf("3.%d, %d bytes into the code: %+v, %v; want line %d", l.minor, at, s.Frames, err, want)
			}
		}
	}
}

// begun puts the innermost frame so many bytes into its code.
func begun(m *fake, t *Target, bytes int) {
	frame, _ := t.innermost(newView(&fake{bytes: m.bytes}))
	code := wordAt(m.bytes, int(frame-base)+t.layout.frameCode)
	m.put(frame, t.layout.at, code+uint64(t.layout.instructions+bytes))
}

// If one reading has the address of the innermost instruction torn, a look reads again.
func TestTornInstruction(t *testing.T) {
	for _, l := range layoutsForTests(t) {
		if l.instructions == 0 {
			continue
		}
		for torn := 1; ; torn++ {
			m, target := interpreter(l, testProgram, testPlaces[:4])
			reads := 0
			m.changes = func(m *fake) {
				at := 16
				if reads++; reads == torn {
					at += 256 // the second byte is from after it has moved on
				}
				begun(m, target, at)
			}
			if s, err := target.Look(); err != nil || len(s.Frames) != 1 || s.Frames[0].Line != 41 {
				t.Errorf("3.%d, torn in read %d: %+v, %v; want line 41", l.minor, torn, s.Frames, err)
			}
			if reads < torn {
				break
			}
		}
	}
}

// A loop that keeps step with the readings shows a frame that has been left each time, until a look
// pauses.
func TestReadingsInStep(t *testing.T) {
	for _, l := range layoutsForTests(t) {
		if l.state == 0 && l.depth == 0 { // its frames do not say whether they are at work
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			m, target := interpreter(l, testProgram, testPlaces[:5])
			left, _ := target.innermost(newView(m))
			works := wordAt(m.bytes, int(left-base)+l.previous)
			switch {
			case l.minor == 9:
				m.putByte(left, l.state, 0)
			case l.minor == 10:
				m.putByte(left, l.state, 1)
			default:
				m.put32(left, l.depth, 0)
				m.put32(works, l.depth, -1)
			}
			start := time.Now()
			m.changes = func(m *fake) {
				if time.Since(start) > 0 {
					target.enter(m, works)
				}
			}
			if s, err := target.Look(); err != nil || len(s.Frames) != 1 || s.Frames[0].Function != "f" {
				t.Errorf("3.%d: %+v, %v; want f", l.minor, s.Frames, err)
			}
		})
	}
}

// A loop of calls has made another call between the two copies of each reading: every single reading
// shows the same frames, and none of them is true.
func TestCopiesOfOneReadingDiffer(t *testing.T) {
	for _, l := range layoutsForTests(t) {
		m, target := interpreter(l, testProgram, testPlaces[:5])
		inner, _ := target.innermost(newView(m))
		caller := wordAt(m.bytes, int(inner-base)+l.previous)
		target.mem = &calling{m, func() { m.bytes[int(caller-base)+l.at] ^= 2 }}
		if s, err := target.Look(); !errors.Is(err, ErrMoving) {
			t.Errorf("3.%d: %+v, %v; want that it moves", l.minor, s.Frames, err)
		}
	}
}

// A calling memory changes before it is read a second time in one call of read, and changes back.
type calling struct {
	*fake
	change func()
}

func (m *calling) read(spans []span) error {
	again := 1 + slices.IndexFunc(spans[1:], func(s span) bool { return s.addr == spans[0].addr })
	if again == 0 {
		return m.fake.read(spans)
	}
	defer m.change()
	err := m.fake.read(spans[:again])
	m.change()
	return errors.Join(err, m.fake.read(spans[again:]))
}

// enter makes a frame the innermost one.
func (t *Target) enter(m *fake, frame uint64) {
	l := &t.layout
	word := func(addr uint64, at int) uint64 { return wordAt(m.bytes, int(addr-base)+at) }
	thread := word(word(t.runtime, l.interpreters), l.threads)
	if l.hasCFrame {
		m.put(word(thread, l.threadFrame), l.inCFrame, frame)
	} else {
		m.put(thread, l.threadFrame, frame)
	}
}

// A watched memory shows the spans that are read.
type watched struct {
	memory
	see func(s span)
}

func (w watched) read(spans []span) error {
	for _, s := range spans {
		w.see(s)
	}
	return w.memory.read(spans)
}

// Memory is read in lines of the cache, to where it is aligned in the same way; see page.
func TestAlignedReads(t *testing.T) {
	for _, l := range layoutsForTests(t) {
		m, target := interpreter(l, testProgram, testPlaces)
		var wrong []string
		target.mem = watched{m, func(s span) {
			from, n, to := s.addr, len(s.into), uintptr(unsafe.Pointer(&s.into[0]))
			if from%cacheLine != 0 || n%cacheLine != 0 || to%cacheLine != 0 {
				wrong = append(wrong, fmt.Sprintf("%d bytes from %#x to %#x", n, from, to))
			}
		}}
		if _, err := target.Look(); err != nil || wrong != nil {
			t.Errorf("3.%d: %v, %s", l.minor, err, wrong)
		}
	}
}

// Whatever is in memory, a look ends, and what it returns is bounded.
func FuzzHostileMemory(f *testing.F) {
	all := layoutsForTests(f)
	f.Add(uint8(0), []byte{})
	f.Add(uint8(3), []byte("\x10\x00\x20\x00\x11\x01\x30\x00"))
	f.Add(uint8(5), []byte("\x00\x01\xff\xff\x40\x01\x00\x00"))
	f.Fuzz(func(t *testing.T, which uint8, patches []byte) {
		l := all[int(which)%len(all)]
		m, target := interpreter(l, testProgram, testPlaces)
		words := len(m.bytes) / 8
		for ; len(patches) >= 4; patches = patches[4:] { // each puts a word somewhere: small, a wild one, or an address
			at := int(binary.LittleEndian.Uint16(patches)) % words
			value := uint64(binary.LittleEndian.Uint16(patches[2:]))
			switch value % 4 {
			case 1:
				value = base + value*8%uint64(len(m.bytes))
			case 2:
				value <<= 48
			case 3:
				value = -value
			}
			m.put(base, at*8, value)
		}
		s, _ := target.Look()
		if len(s.Frames) > 2*Frames {
			t.Errorf("%d frames", len(s.Frames))
		}
		for _, f := range s.Frames {
			if n := utf8.RuneCountInString(f.File + f.Function); n > 2*charsMax+2 {
				t.Errorf("%d characters", n)
			}
		}
		if m.total > 64<<20 {
			t.Errorf("%d bytes were read", m.total)
		}
	})
}
