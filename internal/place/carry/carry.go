//go:build unix

package carry

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"asyncrepl/internal/place/far"
	"asyncrepl/internal/text/view"
)

// A Spec says how to get in and what to start.
type Spec struct {
	Argv []string // the carrier and its arguments, to which "/bin/sh" is appended
	Env  []string // the carrier's full environment; its PATH leads to the carrier

	Workspace string   // setup and our program start in this directory there; empty: the carrier decides
	Setup     string   // lines of a shell
	Program   string   // the path of our program for that system; empty: this program
	Version   string   // a program of this version on the PATH there will do; empty: no program will
	Command   []string // the arguments that our program gets there
}

// SSH returns the carrier that is ssh, with arguments that end with a destination. It uses a connection that
// is there to be shared and makes none, it takes no agent along, and it asks no question.
func SSH(args []string) []string {
	return append([]string{"ssh", "-T", "-a", "-x", "-o", "BatchMode=yes", "-o", "ClearAllForwardings=yes", "-o", "ControlMaster=no"}, args...)
}

const (
	limit       = 30 * time.Second // bounds Open without the carrying, and a pause in the carrying
	maxNoise    = 1 << 20          // bytes of lines without our mark
	maxLineSize = 16 << 10         // bytes that are read as one line; the greeting is shorter
	maxLoads    = 3                // there are as many directories to carry to
	maxField    = 256              // bytes of a text in the greeting
	maxPath     = 4096             // characters of the path of a file there
)

// Open starts the carrier and our program there, and returns the pipe between this process and that program
// with what it says of itself. It takes 30 s at most, or until ctx is done, plus the time for which the bytes
// of our program move. The error is an *Error, or ErrGone with the Greeting of the machine that says so.
func Open(ctx context.Context, s Spec) (*Pipe, far.Greeting, error) { return openWithin(ctx, s, limit) }

func openWithin(ctx context.Context, s Spec, limit time.Duration) (*Pipe, far.Greeting, error) {
	o, err := reach(ctx, s, limit)
	if err != nil {
		return nil, far.Greeting{}, err
	}
	g, err := o.enter()
	if err != nil {
		o.pipe.Close()
		return nil, g, err
	}
	o.pipe.rest, _ = o.in.Peek(o.in.Buffered())
	return o.pipe, g, nil
}

// An opening is one call of Open, or of Clean.
type opening struct {
	ctx   context.Context
	spec  Spec
	limit time.Duration
	pipe  *Pipe
	in    *bufio.Reader
	begun time.Time

	prog program
	file *os.File // has prog

	step  Step
	setup bool // setup runs
	noise Words
	total int // bytes of noise
	loads int // counts how often the script has asked for the program
	swept Swept
}

// reach starts the carrier.
func reach(ctx context.Context, s Spec, limit time.Duration) (*opening, error) {
	p, err := start(s)
	if err != nil {
		return nil, &Error{Reach, view.Line(err.Error(), maxLine), "see whether that program can be run: " + byHand(s.Argv), errors.Is(err, fs.ErrNotExist)}
	}
	return &opening{ctx: ctx, spec: s, limit: limit, pipe: p, begun: time.Now(), in: bufio.NewReaderSize(p.out, maxLineSize)}, nil
}

// enter starts our program there, and returns when it has greeted. It reads our program here while the carrier connects.
func (o *opening) enter() (far.Greeting, error) {
	var err error
	if o.file, o.prog, err = open(o.spec.Program); err != nil {
		return far.Greeting{}, &Error{Carry, view.Line(err.Error(), maxLine), `name a file that can be read in "binary"`, true}
	}
	defer o.file.Close()
	line, failed := o.converse(scriptOf(o.spec, o.prog, rand.Text()))
	if failed != nil {
		return far.Greeting{}, failed
	}
	o.pipe.SetDeadline(time.Time{})
	return o.greeting(line)
}

// converse is obey within the time of the opening.
func (o *opening) converse(script string) (greeting []byte, failed *Error) {
	stop := context.AfterFunc(o.ctx, o.extend)
	o.extend()
	greeting, failed = o.obey(script)
	if !stop() && failed == nil {
		failed = o.lost(os.ErrDeadlineExceeded)
	}
	return greeting, failed
}

// extend gives the carrier the full time from now on, or none if ctx is done.
func (o *opening) extend() {
	end := time.Now().Add(o.limit)
	if o.ctx.Err() == nil {
		o.pipe.SetDeadline(end)
	}
	if o.ctx.Err() != nil { // also if that happened just before the deadline was set
		o.pipe.SetDeadline(time.Unix(1, 0))
	}
}

// obey sends the script and does what it asks for, until our program greets, or what was brought is removed. It
// returns the JSON of the greeting.
func (o *opening) obey(script string) (greeting []byte, failed *Error) {
	if _, err := io.WriteString(o.pipe, script); errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, o.lost(err)
	} // any other error: the carrier has ended, and its output says why
	for {
		line, err := o.line()
		if err != nil {
			return nil, o.lost(err)
		}
		if text, ok := bytes.CutPrefix(line, []byte(far.Mark)); ok && o.step == Start {
			return text, nil
		}
		text, ok := bytes.CutPrefix(line, []byte(mark))
		if !ok {
			if o.note(line); o.total > maxNoise {
				return nil, o.failure("it prints without end: "+o.said(), "let nothing there print so much before async-repl answers: "+o.byHand(), false)
			}
			continue
		}
		o.setup = false
		switch word, why, _ := strings.Cut(string(text), " "); word {
		case wordHere:
			o.step = Workspace
		case wordSetup:
			o.step, o.setup = Start, true
		case wordCarry:
			o.step = Carry
		case wordNeed:
			if o.loads++; o.loads > maxLoads {
				return nil, o.strange("it asks for the program again and again")
			}
			if failed := o.carry(); failed != nil {
				return nil, failed
			}
		case wordStart:
			o.step = Start
		case wordSwept:
			return nil, nil
		case wordGone, wordUsed, wordStuck:
			if o.swept.note(word, why) {
				return nil, o.strange("it names files without end")
			}
		case wordFail:
			return nil, o.refused(why)
		}
	}
}

// line returns the next line without its end, or a part of one that is too long. It is valid until the next
// call.
func (o *opening) line() ([]byte, error) {
	line, err := o.in.ReadSlice('\n')
	if err == bufio.ErrBufferFull || err == io.EOF && len(line) > 0 {
		err = nil
	}
	return bytes.TrimRight(line, "\r\n"), err
}

// note keeps a line without our mark for an error.
func (o *opening) note(line []byte) {
	o.noise.Write(line)
	o.noise.Write([]byte("\n"))
	o.total += len(line) + 1
}

// carry sends the program. Each piece has the full time, and is so small that a slow line can carry it.
func (o *opening) carry() *Error {
	b := make([]byte, 64<<10)
	for at := int64(0); at < o.prog.size; {
		n, err := o.file.ReadAt(b[:min(int64(len(b)), o.prog.size-at)], at)
		if n == 0 {
			return o.failure(view.Line(err.Error(), maxLine), "leave the file as it is while it is read", false)
		}
		if _, err := o.pipe.Write(b[:n]); err != nil {
			return o.lost(err)
		}
		at += int64(n)
		o.extend()
	}
	return nil
}

// greeting reads the greeting, which comes from another machine.
func (o *opening) greeting(text []byte) (far.Greeting, error) {
	var g far.Answer
	if err := json.Unmarshal(text, &g); err != nil {
		return far.Greeting{}, o.strange("its greeting can't be read: " + view.Line(err.Error(), maxLine))
	}
	for _, s := range []string{g.Version, g.Machine, g.Boot, g.Start} {
		if view.Line(s, maxField) != s || strings.TrimSpace(s) != s {
			return far.Greeting{}, o.strange("its greeting can't be true: " + view.Line(s, maxLine))
		}
	}
	switch {
	case g.Gone:
		return g.Greeting, ErrGone
	case g.Protocol != far.Protocol:
		return g.Greeting, o.failure(fmt.Sprintf("the engine there, of version %s, speaks protocol %d, and this one protocol %d", g.Version, g.Protocol, far.Protocol),
			"end that engine with the version that started it, or use that version", true)
	case g.Start == "" || strings.ContainsFunc(g.Start, needsQuotes):
		return far.Greeting{}, o.strange(fmt.Sprintf("its greeting names no start of an engine: %q", g.Start))
	}
	return g.Greeting, nil
}
