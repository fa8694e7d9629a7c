package pystack

import (
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"asyncrepl/internal/kernel/procfs"
)

// The limits of what a look returns.
const (
	Frames   = 256 // the most frames; a deeper stack loses the outermost ones
	charsMax = 200 // the most characters of a file name or a function name
)

// lookTime bounds the time of a look. One takes about 0.1 ms, but memory that was swapped out, or
// that another program provides, can take any time.
const lookTime = 2 * time.Second

// Errors of one look. The next look can succeed.
var (
	ErrMoving   = errors.New("it moves too fast to be seen")
	errGreenlet = errors.New("its thread runs on a stack of another kind, as greenlets do")
	errSlow     = errors.New("its memory could not be read in time")
)

// An UnavailableError says why no look at a target has succeeded. Most probably none will.
type UnavailableError struct{ Err error }

func (e *UnavailableError) Error() string { return e.Err.Error() }

func (e *UnavailableError) Unwrap() error { return e.Err }

// errUnproven means that no stack that was read began with the program's frames.
var errUnproven = errors.New("its frames are not where this version of Python has them")

// A Place is a function in a file.
type Place struct{ File, Function string }

// A Frame is a call of a Python function.
type Frame struct {
	Place
	Line int  // 0: unknown
	Span Span // the expression at work, from 3.11 on
}

// A Stack is the state of the main thread.
type Stack struct {
	Frames []Frame // outermost first, without the frames of the program itself
	Outer  int     // the number of further frames, outside of Frames
	More   bool    // there are more frames than Outer
	Awaits bool    // the event loop has the thread; Frames are of the coroutine that awaits it
	Loop   bool    // the event loop has the thread, and no coroutine that waits for it can be read

	// Own has the frames of the program itself without Program.Bottom, outermost first. It is set
	// only if there are no other frames.
	Own []Place

	// Mark is a hash of the stack and its instructions: it changes even if the line stays the same.
	Mark uint64

	CPU      time.Duration // the processor time of the thread up to its last stop or interrupt
	Switches int           // how often the thread has left a processor; 0: unknown
	Running  bool          // the thread has a processor, or waits for one
	Stopped  bool          // a signal has stopped the thread
}

// A Program describes the program that runs the code that a look is for.
type Program struct {
	Bottom []Place // its outermost functions, outermost first: every stack begins with them
	Own    string  // the beginning of its modules' file names; their frames are left out

	// Loop is the function of the program that runs a coroutine in an event loop. Coroutine is the
	// number of the local variable that holds this coroutine.
	Loop      Place
	Coroutine int
}

// A Target is an interpreter in another process. Several goroutines can use it at once.
type Target struct {
	pid     int
	version string
	program Program
	mem     memory
	turn    chan struct{} // holds a token during a look

	// Guarded by turn.
	open    bool   // the search for the interpreter has ended
	err     error  // every look returns it; nil if looks are possible
	runtime uint64 // the address of _PyRuntime
	layout  layout
	bottom  []uint64 // the code objects of Program.Bottom; nil: not found yet
}

// NewTarget returns a target for the process pid, an interpreter of a version such as 3.12.1 that
// runs program. The first look searches for the interpreter in the memory of the process.
func NewTarget(pid int, version string, program Program) *Target {
	return &Target{pid: pid, version: version, program: program, mem: process(pid), turn: make(chan struct{}, 1)}
}

// Look returns the stack of the main thread.
func (t *Target) Look() (Stack, error) {
	type result struct {
		stack Stack
		err   error
	}
	limit := time.NewTimer(lookTime)
	defer limit.Stop()
	select {
	case t.turn <- struct{}{}:
	case <-limit.C:
		return Stack{}, errSlow
	}
	done := make(chan result, 1) // buffered: nothing reads a late result
	go func() {                  // no owner after lookTime; ends when the kernel has read the memory
		s, err := t.lookOnce()
		<-t.turn
		done <- result{s, err}
	}()
	select {
	case r := <-done:
		return r.stack, r.err
	case <-limit.C:
		return Stack{}, errSlow
	}
}

// A stack counts if several readings in a row agree. Many readings of a tight loop of calls are
// torn, so a look reads often. A reading takes a few microseconds.
const (
	enough      = 4                // readings that must agree
	enoughApart = 6                // the same before 3.11, when each frame is a separate object
	stuck       = 20               // the same if one of the frames seems not to run
	most        = 20 * enoughApart // readings of one look
	foreignMax  = 5                // stacks that begin with other frames than the program's
	unknownMax  = 5                // stacks whose innermost line is unknown
)

// pause follows each reading that agrees with enough others but has a frame that seems not to run.
// Without it, readings can keep step with a loop, and all are torn in the same way: in 90 of 60,000
// looks at a loop of exceptions 20 such readings agreed. With pauses no more than 11 agreed,
// because the kernel lengthens each pause by a different time.
const pause = time.Microsecond

// errForeign means that a stack is complete and begins with other frames than the program's.
var errForeign = errors.New("foreign")

// lookOnce does the work of Look. The caller holds turn.
func (t *Target) lookOnce() (s Stack, err error) {
	if !t.open && t.err == nil {
		if err := t.find(); errors.Is(err, procfs.ErrGone) {
			return Stack{}, err
		} else if err != nil {
			t.err = &UnavailableError{err}
		}
		t.open = true
	}
	if t.err != nil {
		return Stack{}, t.err
	}
	if s, err = t.look(); err == nil {
		s.CPU, s.Switches, s.Running, s.Stopped = activity(t.pid)
	}
	return s, err
}

// find finds the interpreter and its layout.
func (t *Target) find() (err error) {
	var major, minor int
	if _, err := fmt.Sscanf(t.version, "%d.%d.", &major, &minor); err != nil || major != 3 {
		return fmt.Errorf("the frames of Python %s are not known", t.version)
	}
	if t.runtime, err = runtimeOf(t.pid); err != nil {
		return err
	}
	t.layout, err = readLayout(newView(t.mem), t.runtime, minor)
	return err
}

// look reads the frames until several readings in a row agree.
func (t *Target) look() (Stack, error) {
	need := enough
	if t.layout.owner == 0 {
		need = enoughApart
	}
	var v *view
	var c chain
	agreed, foreign, unknown := 0, 0, 0
	for range most {
		d, err := t.next(&v)
		if err != nil && !errors.Is(err, errTorn) {
			return Stack{}, err
		}
		if err != nil || agreed == 0 || !c.equal(d) {
			agreed = 0
		}
		if err != nil {
			continue
		}
		c = d
		if agreed++; agreed < need {
			continue
		}
		if agreed < stuck && !t.atWork(c) {
			time.Sleep(pause)
			continue
		}
		v.limit = pagesMax
		s, err := t.resolve(v, c)
		n := len(s.Frames)
		switch {
		case errors.Is(err, errForeign):
			if foreign++; foreign == foreignMax {
				return Stack{}, t.foreignError()
			}
		case errors.Is(err, errTorn):
		// The address of the innermost instruction, which only one reading gives, can be torn.
		case n > 0 && s.Frames[n-1].Line == 0 && unknown < unknownMax:
			unknown++
		default:
			return s, err
		}
		v, agreed = nil, 0
	}
	return Stack{}, ErrMoving
}

// next reads the frames again in the view *v. If *v is nil or some of its pages can't be read any
// more, next replaces it by a new view.
//
// The frames of a view are read twice, and both readings must agree: a loop of calls does not come
// back to the same calls between them. One reading can be torn, and readings that keep step with the
// loop are all torn alike: of 120,000 looks at 3.9 and 3.10, 115 showed a function below a line that
// calls another one.
func (t *Target) next(v **view) (chain, error) {
	twice := *v != nil && (*v).again()
	if !twice {
		*v = newView(t.mem)
	}
	c, err := t.chain(*v)
	if err == nil && twice {
		(*v).swap()
		d, err := t.chain(*v)
		(*v).swap()
		if err != nil || !c.equal(d) {
			return chain{}, errTorn
		}
	}
	if err != nil {
		*v = nil
	}
	return c, err
}

// foreignError returns the error for a look whose stacks begin with other frames than the
// program's. If the thread is not blocked, it may have lost its processor in the moment in which it
// switches from one generator to another, and all readings show that moment.
func (t *Target) foreignError() error {
	if t.bottom == nil {
		return &UnavailableError{errUnproven}
	}
	if _, _, runs, _ := activity(t.pid); runs {
		return ErrMoving
	}
	return errGreenlet
}

var seed = maphash.MakeSeed()

// resolve returns the stack that a chain describes.
func (t *Target) resolve(v *view, c chain) (s Stack, err error) {
	codes := make(map[uint64]*code)
	links := c.links
	if s.More = c.cut; !c.cut {
		if err := t.prove(v, links, codes); err != nil {
			return Stack{}, err
		}
		links = links[:len(links)-len(t.program.Bottom)]
	}
	all := links
	if links, err = t.trim(v, links, codes); err != nil {
		return Stack{}, err
	}
	if len(links) == 0 {
		s.Own = places(all[:min(len(all), Frames)], codes)
	}
	s.Outer = max(0, len(links)-Frames)
	links = links[:min(len(links), Frames)]
	var hash maphash.Hash
	hash.SetSeed(seed)
	loop := -1 // the index of Program.Loop, as long as only frames of the event loop follow it
	for i, k := range slices.Backward(links) {
		code, err := t.code(v, k.code, codes)
		if err != nil {
			return Stack{}, err
		}
		maphash.WriteComparable(&hash, k)
		switch {
		case code.place == t.program.Loop:
			loop = i
		case t.own(code):
		case loop >= 0 && ofLoop(code.place.File):
		default:
			loop = -1
			s.Frames = append(s.Frames, code.frame(k.at))
		}
	}
	if loop >= 0 {
		waiting := t.awaited(v, links[loop], codes)
		for _, w := range waiting {
			maphash.WriteComparable(&hash, w.link)
			if !t.own(w.code) {
				s.Frames, s.Awaits = append(s.Frames, w.code.frame(w.at)), true
			}
		}
	}
	s.Loop = loop >= 0 && !s.Awaits
	s.Mark = hash.Sum64()
	return s, nil
}

// places returns the functions of links, outermost first. codes has the code of each.
func places(links []link, codes map[uint64]*code) (list []Place) {
	for _, k := range slices.Backward(links) {
		list = append(list, codes[k.code].place)
	}
	return list
}

// trim returns links without the outermost frames that belong to the program itself.
func (t *Target) trim(v *view, links []link, codes map[uint64]*code) ([]link, error) {
	for len(links) > 0 {
		last := len(links) - 1
		code, err := t.code(v, links[last].code, codes)
		if err != nil {
			return nil, err
		}
		if !t.own(code) || code.place == t.program.Loop {
			break
		}
		links = links[:last]
	}
	return links, nil
}

// own reports whether code belongs to the program itself.
func (t *Target) own(c *code) bool { return strings.HasPrefix(c.place.File, t.program.Own) }

// ofLoop reports whether a file belongs to the event loop.
func ofLoop(file string) bool {
	return strings.HasSuffix(file, "/selectors.py") || strings.Contains(file, "/asyncio/")
}

// prove checks that a stack begins with the program's frames, and returns errForeign if not. The
// first such stack proves the layout, too.
func (t *Target) prove(v *view, links []link, codes map[uint64]*code) error {
	n := len(t.program.Bottom)
	if len(links) < n {
		return errForeign
	}
	found := make([]uint64, n)
	for i, k := range links[len(links)-n:] {
		found[n-1-i] = k.code
	}
	if t.bottom != nil {
		if !slices.Equal(found, t.bottom) {
			return errForeign
		}
		return nil
	}
	for i, addr := range found {
		code, err := t.code(v, addr, codes)
		if err != nil || code.place != t.program.Bottom[i] {
			return errForeign
		}
	}
	t.bottom = found
	return nil
}
