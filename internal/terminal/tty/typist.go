//go:build unix

package tty

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// A Pace says how keys follow one another.
type Pace struct {
	Read     time.Duration // how long a key waits until a program has read the one before it
	ReadEsc  time.Duration // the same if that is Esc
	Esc      time.Duration // how long after a program has read Esc the next key follows
	Sequence time.Duration // the same of a key that would make an escape sequence of Esc
}

// UsualPace is for real programs. Without a vimrc, vim 9.0 takes what comes within a second after Esc
// for an escape sequence. Readline waits half a second, node and most others less.
var UsualPace = Pace{Read: time.Second, ReadEsc: 150 * time.Millisecond, Esc: 150 * time.Millisecond, Sequence: 1100 * time.Millisecond}

// A Typist types keys one at a time: a key follows when a program has read the one before it. To a
// program, keys that it reads at once can be another key (Esc, O and A are the arrow up) or pasted
// text (node 20, if a tab is among them).
//
// What can't be typed at once is typed after the call. Whatever is sent meanwhile follows it in order.
type Typist struct {
	keyboard *Keyboard
	pace     Pace

	last stroke // used by the goroutine that types: the caller of Type if the queue is empty

	// Guarded by mu.
	mu     sync.Mutex
	queue  []*Typing // the first is being typed
	lost   []*Typing // those that were not typed in full, until Lost
	closed error     // why nothing is typed any more; nil: it is not closed
	cancel context.CancelCauseFunc
	ended  chan struct{} // closed when the goroutine that types the queue ends; nil: none runs
}

// A stroke is what was typed last.
type stroke struct {
	at   time.Time // the time of its Send
	read time.Time // the time at which a program had read it, as far as is known
	esc  bool      // it ended with Esc, and a program that reads keys gets it
}

// NewTypist returns the typist of a keyboard, which no other code may type on.
func NewTypist(k *Keyboard, p Pace) *Typist { return &Typist{keyboard: k, pace: p} }

// Strokes are what one call types, in the order of the fields.
type Strokes struct {
	Text   string   // the Text of an Input
	Paste  string   // the bytes that a terminal sends for pasted text
	Keys   []string // the bytes that each key sends
	EOF    bool
	Secret bool
	Raw    bool   // the Input's
	By     string // the Input's: the one who types
}

// esc is what the Esc key sends.
const esc = "\x1b"

// parts returns what is typed at once: the text, the paste and each key.
func (s Strokes) parts() []Input {
	var parts []Input
	if s.Text != "" {
		parts = append(parts, Input{Text: s.Text, Secret: s.Secret, Raw: s.Raw, By: s.By})
	}
	if s.Paste != "" {
		parts = append(parts, Input{Keys: s.Paste, Secret: s.Secret, Raw: s.Raw, By: s.By})
	}
	for _, key := range s.Keys {
		parts = append(parts, Input{Keys: key, Secret: s.Secret, Raw: s.Raw, By: s.By})
	}
	if parts == nil {
		parts = []Input{{Secret: s.Secret, Raw: s.Raw, By: s.By}}
	}
	parts[len(parts)-1].EOF = s.EOF
	return parts
}

// join returns parts as one.
func join(parts []Input) Input {
	all := parts[len(parts)-1]
	all.Text, all.Keys = "", ""
	for _, part := range parts {
		all.Text += part.Text
		all.Keys += part.Keys
	}
	return all
}

// A Typing is what one call types, while it is typed one key at a time.
type Typing struct {
	strokes Strokes
	keys    int
	behind  bool // it was queued behind another one
	done    chan struct{}

	// Guarded by the Typist's mu.
	typist *Typist
	begun  bool
	typed  int // keys
	err    error
	told   bool // Progress has returned err
}

// Done returns a channel that is closed when all is typed, or no more will be.
func (x *Typing) Done() <-chan struct{} { return x.done }

// Behind reports whether nothing is typed yet, because an earlier Typing is not complete.
func (x *Typing) Behind() bool {
	x.typist.mu.Lock()
	defer x.typist.mu.Unlock()
	return x.behind && !x.begun
}

// Progress returns how many of the keys are typed, and why the others will not be.
func (x *Typing) Progress() (typed, keys int, err error) {
	x.typist.mu.Lock()
	defer x.typist.mu.Unlock()
	x.told = x.err != nil
	return x.typed, x.keys, x.err
}

// Check returns the error that Type would return now, without typing anything.
func (t *Typist) Check(s Strokes) error {
	if t.busy() {
		return nil // the mode of the terminal when its turn comes decides
	}
	return t.keyboard.Check(join(s.parts()))
}

// busy reports whether keys are not yet typed.
func (t *Typist) busy() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.queue) > 0
}

// Type types s, as [Keyboard.Type] does. It returns a Typing if s is typed one key at a time, or
// follows earlier keys. Calls of Type are made one at a time.
func (t *Typist) Type(ctx context.Context, s Strokes) (*Typing, error) {
	parts := s.parts()
	if !t.busy() {
		if len(parts) == 1 && !t.holds() {
			return nil, t.typePart(ctx, parts[0])
		}
		if err := t.keyboard.Check(join(parts)); err != nil {
			return nil, err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed != nil {
		return nil, t.closed
	}
	x := &Typing{strokes: s, keys: len(s.Keys), behind: len(t.queue) > 0, done: make(chan struct{}), typist: t}
	t.queue = append(t.queue, x)
	if t.ended == nil {
		var ctx context.Context
		ctx, t.cancel = context.WithCancelCause(context.Background())
		t.ended = make(chan struct{})
		t.keyboard.pty.SetTyping(true)
		go t.run(ctx, t.ended) // owned by the typist; ends when the queue is empty, after Drop and Close at once
	}
	return x, nil
}

// Drop drops what is not yet typed. reason says why.
func (t *Typist) Drop(reason error) { t.stop(reason, nil) }

// Close is Drop, and nothing can be typed any more.
func (t *Typist) Close(reason error) { t.stop(reason, reason) }

func (t *Typist) stop(reason, closed error) {
	t.mu.Lock()
	if closed != nil {
		t.closed = closed
	}
	cancel, ended := t.cancel, t.ended
	t.mu.Unlock()
	if ended != nil {
		cancel(reason)
		<-ended
	}
}

// Lost describes what was not typed after the call that sent it, unless Progress has said so. It
// describes each once.
func (t *Typist) Lost() (texts []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, x := range t.lost {
		switch {
		case x.told:
		case x.keys == 0:
			texts = append(texts, fmt.Sprintf("what was sent behind keys was not typed: %v", x.err))
		default:
			texts = append(texts, fmt.Sprintf("%d of %d keys were not typed: %v", x.keys-x.typed, x.keys, x.err))
		}
	}
	t.lost = nil
	return texts
}

// run types the queue until it is empty.
func (t *Typist) run(ctx context.Context, ended chan<- struct{}) {
	defer close(ended)
	for x := t.next(); x != nil; x = t.next() {
		err := t.typeOut(ctx, x)
		if ctx.Err() != nil && err != nil {
			err = context.Cause(ctx)
		}
		t.finish(x, err)
	}
}

// next returns the first of the queue. If the queue is empty, the goroutine that types must end.
func (t *Typist) next() *Typing {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 {
		t.keyboard.pty.SetTyping(false)
		t.cancel(nil)
		t.ended = nil
		return nil
	}
	t.queue[0].begun = true
	return t.queue[0]
}

// finish removes x, the first of the queue. err says why it was not typed in full.
func (t *Typist) finish(x *Typing, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue = t.queue[1:]
	if x.err = err; err != nil {
		t.lost = append(t.lost, x)
	}
	x.strokes = Strokes{} // it can be a secret
	close(x.done)
}

// typeOut types x. If a program does not read a key, all that follows it is typed at once.
func (t *Typist) typeOut(ctx context.Context, x *Typing) error {
	parts := x.strokes.parts()
	if x.behind {
		if err := t.keyboard.Check(join(parts)); err != nil {
			return err
		}
	}
	for n := 0; n < len(parts); n++ {
		part := parts[n]
		if n > 0 && !t.awaitRead(ctx) {
			part, n = join(parts[n:]), len(parts)-1
		}
		if err := t.hold(ctx, part.Text+part.Keys); err != nil {
			return err
		}
		if err := t.typePart(ctx, part); err != nil {
			return err
		}
		t.mu.Lock()
		x.typed = max(0, n+1-(len(parts)-x.keys))
		t.mu.Unlock()
	}
	return nil
}

// typePart types part at once.
func (t *Typist) typePart(ctx context.Context, part Input) error {
	t.last = stroke{}
	if err := t.keyboard.Type(ctx, part); err != nil {
		return err
	}
	t.last.at = time.Now()
	if strings.HasSuffix(part.Text+part.Keys, esc) {
		mode, err := t.keyboard.pty.Mode()
		t.last.esc = err == nil && !mode.Canon
	}
	return nil
}

// holds reports whether something would be held back now, because Esc was typed shortly before.
func (t *Typist) holds() bool {
	return t.last.esc && time.Since(t.last.at) < t.pace.ReadEsc+max(t.pace.Esc, t.pace.Sequence)
}

// hold waits as long as next is held back after Esc. It returns the cause of ctx if that is done.
func (t *Typist) hold(ctx context.Context, next string) error {
	if t.last.esc && t.awaitRead(ctx) {
		d := t.pace.Esc
		if strings.HasPrefix(next, "O") || strings.HasPrefix(next, "[") { // SS3 and CSI
			d = t.pace.Sequence
		}
		select {
		case <-time.After(time.Until(t.last.read.Add(d))):
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}

// The pauses between two questions whether a program has read a key.
const (
	firstLook = 20 * time.Microsecond
	lastLook  = 2 * time.Millisecond
)

// awaitRead waits until a program has read what was typed last, as long as the pace allows, and
// reports whether one has. A terminal in line mode has nothing to read before the end of the line.
func (t *Typist) awaitRead(ctx context.Context) bool {
	limit := t.last.at.Add(t.pace.Read)
	if t.last.esc {
		limit = t.last.at.Add(t.pace.ReadEsc)
	}
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		unread, err := t.keyboard.pty.unread()
		now := time.Now()
		switch {
		case err == nil && unread == 0:
			if t.last.read.IsZero() {
				t.last.read = now
				if limit.Before(now) { // it was read before, or too late to be waited for
					t.last.read = limit
				}
			}
			return true
		case err != nil, now.After(limit), ctx.Err() != nil:
			return false
		}
		time.Sleep(pause)
	}
}
