package tty_test

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/terminal/tty"
	"asyncrepl/internal/terminal/tty/ttytest"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

// readerArg makes the test binary a program that reads keys.
const readerArg = "typist-reader"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == readerArg {
		readKeys()
	}
	os.Exit(m.Run())
}

// readKeys waits for a signal and then prints what each read of the terminal returns, and how long
// after the call of the read before it that was: at least the time between the two keys.
func readKeys() {
	mode, err := unix.IoctlGetTermios(0, unix.TCGETS)
	if err != nil {
		panic(err)
	}
	mode.Lflag &^= unix.ICANON | unix.ECHO | unix.ISIG
	mode.Iflag &^= unix.ICRNL
	if err := unix.IoctlSetTermios(0, unix.TCSETS, mode); err != nil {
		panic(err)
	}
	begin := make(chan os.Signal, 1)
	signal.Notify(begin, syscall.SIGUSR1)
	fmt.Println("ready")
	<-begin
	buf := make([]byte, 1000)
	for last := time.Now(); ; {
		call := time.Now()
		n, err := syscall.Read(0, buf)
		if err == syscall.EINTR {
			continue
		}
		if n <= 0 || err != nil {
			os.Exit(1)
		}
		fmt.Printf("read %q after %d\n", buf[:n], time.Since(last))
		last = call
	}
}

// A keyReader is a program that reads keys, and its typist.
type keyReader struct {
	*ttytest.Program
	*tty.Typist
	t *testing.T
}

// startReader starts a program that begins to read keys with begin. It reads whatever a test waits
// for: the pace has no limits but those that the test sets.
func startReader(t *testing.T, pace tty.Pace) *keyReader {
	t.Helper()
	self := must.Get(os.Executable())(t)
	p := ttytest.Start(t, []string{self, readerArg})
	p.WaitPrinted(t, "ready")
	if pace.Read == 0 {
		pace.Read = ttytest.Patience
	}
	if pace.ReadEsc == 0 {
		pace.ReadEsc = ttytest.Patience
	}
	r := &keyReader{p, tty.NewTypist(tty.NewKeyboard(p.PTY, p.List), pace), t}
	t.Cleanup(func() { r.Close(errors.New("the test is over")) })
	return r
}

func (r *keyReader) begin() { r.Program.Signal(r.t, syscall.SIGUSR1) }

// types types s and returns its Typing, which is nil if it is all typed.
func (r *keyReader) types(s tty.Strokes) *tty.Typing {
	r.t.Helper()
	return must.Get(r.Type(r.t.Context(), s))(r.t)
}

var oneRead = regexp.MustCompile(`read (".*") after (\d+)`)

// reads waits until the program has read what last ends with, and returns its reads and the time
// before each.
func (r *keyReader) reads(last string) (texts []string, gaps []time.Duration) {
	r.t.Helper()
	polltest.Until(r.t, fmt.Sprintf("%q to be read", last), func() bool {
		texts, gaps = nil, nil
		for _, m := range oneRead.FindAllStringSubmatch(r.Printed(), -1) {
			text, _ := strconv.Unquote(m[1])
			gap, _ := strconv.ParseInt(m[2], 10, 64)
			texts, gaps = append(texts, text), append(gaps, time.Duration(gap))
		}
		return len(texts) > 0 && strings.HasSuffix(texts[len(texts)-1], last)
	})
	return texts, gaps
}

// Each key is read by itself, and so is the text before them.
func TestKeysAreReadOneAtATime(t *testing.T) {
	t.Parallel()
	r := startReader(t, tty.Pace{})
	r.begin()
	x := r.types(tty.Strokes{Text: "text\n", Keys: []string{"con", "\t", "x", "\x1bOA", "\r", "."}})
	texts, _ := r.reads(".")
	if want := []string{"text\r", "con", "\t", "x", "\x1bOA", "\r", "."}; !slices.Equal(texts, want) {
		t.Errorf("read %q, want %q", texts, want)
	}
	<-x.Done()
	if typed, keys, err := x.Progress(); typed != 6 || keys != 6 || err != nil {
		t.Errorf("%d of %d, %v", typed, keys, err)
	}
}

// What follows Esc is held back until the program must have taken Esc for a key, in the same call and
// in the next one, be it a key or text.
func TestEscIsAKeyOfItsOwn(t *testing.T) {
	t.Parallel()
	const short, long = 50 * time.Millisecond, 150 * time.Millisecond
	r := startReader(t, tty.Pace{Esc: short, Sequence: long})
	r.begin()
	r.types(tty.Strokes{Keys: []string{"\x1b", "O", "\x1b", "[x", "\x1b", "a", "\x1bOA", "b\x1b"}})
	r.reads("b\x1b")
	if x := r.types(tty.Strokes{Text: "Of"}); x == nil {
		t.Error("text after Esc was typed at once")
	}
	texts, gaps := r.reads("Of")
	if want := []string{"\x1b", "O", "\x1b", "[x", "\x1b", "a", "\x1bOA", "b\x1b", "Of"}; !slices.Equal(texts, want) {
		t.Fatalf("read %q, want %q", texts, want)
	}
	for i, least := range map[int]time.Duration{1: long, 3: long, 5: short, 8: long} {
		if gaps[i] < least {
			t.Errorf("%q came %s after Esc, want %s", texts[i], gaps[i], least)
		}
	}
}

// A program that does not read gets the rest at once.
func TestKeysForAProgramThatDoesNotRead(t *testing.T) {
	t.Parallel()
	r := startReader(t, tty.Pace{Read: time.Millisecond, ReadEsc: time.Millisecond, Esc: ttytest.Patience, Sequence: ttytest.Patience})
	<-r.types(tty.Strokes{Keys: []string{"a", "\x1b", "O", "b", "."}}).Done()
	if x := r.types(tty.Strokes{Keys: []string{"\x1b"}}); x != nil {
		t.Error("a single key was queued")
	}
	<-r.types(tty.Strokes{Text: "O!"}).Done()
	r.begin()
	if texts, _ := r.reads("!"); strings.Join(texts, "") != "a\x1bOb.\x1bO!" {
		t.Errorf("read %q", texts)
	}
}

// A terminal in line mode has no key of its own for Esc, and nothing is read before the line ends.
func TestKeysInLineMode(t *testing.T) {
	t.Parallel()
	p := ttytest.Start(t, []string{"sh", "-c", "stty -echo -onlcr; echo ready; exec cat -v"})
	p.WaitPrinted(t, "ready")
	y := tty.NewTypist(tty.NewKeyboard(p.PTY, p.List), tty.Pace{Read: ttytest.Patience, ReadEsc: ttytest.Patience, Esc: ttytest.Patience, Sequence: ttytest.Patience})
	t.Cleanup(func() { y.Close(errors.New("the test is over")) })
	must.Get(y.Type(t.Context(), tty.Strokes{Keys: []string{"a", "\x1b", "O", "\r", "b", "\r"}}))(t)
	p.WaitPrinted(t, "a^[O\nb\n")
}

// What is sent while keys are not yet typed follows them in order, whatever it is.
func TestInputFollowsKeysThatAreNotTyped(t *testing.T) {
	t.Parallel()
	r := startReader(t, tty.Pace{})
	first := r.types(tty.Strokes{Keys: []string{"a", "b"}})
	second := r.types(tty.Strokes{Text: "text"})
	third := r.types(tty.Strokes{Paste: "pasted", Keys: []string{"c", "."}})
	polltest.Until(t, "a to be typed", func() bool { typed, _, _ := first.Progress(); return typed == 1 })
	if typed, keys, _ := third.Progress(); first.Behind() || !second.Behind() || !third.Behind() || typed != 0 || keys != 2 {
		t.Errorf("behind: %t, %t, %t; %d of %d of the third", first.Behind(), second.Behind(), third.Behind(), typed, keys)
	}
	if !r.PTY.Sending() {
		t.Error("nothing is being sent while keys are not typed")
	}
	r.begin()
	texts, _ := r.reads(".")
	if want := "abtextpastedc."; strings.Join(texts, "") != want {
		t.Errorf("read %q, want %q", texts, want)
	}
	<-third.Done()
	polltest.Until(t, "the end of the typing", func() bool { return !r.PTY.Sending() })
	if r.Lost() != nil {
		t.Error("something was lost")
	}
}

// What is dropped is counted, once, and what comes later is typed.
func TestDroppedKeysAreCounted(t *testing.T) {
	t.Parallel()
	r := startReader(t, tty.Pace{})
	r.types(tty.Strokes{Keys: []string{"a", "b", "c"}})
	r.types(tty.Strokes{Text: "text"})
	told := r.types(tty.Strokes{Keys: []string{"d", "e"}})
	why := errors.New("the test drops it")
	r.Drop(why)
	<-told.Done()
	if typed, keys, err := told.Progress(); typed != 0 || keys != 2 || err != why {
		t.Errorf("%d of %d, %v", typed, keys, err)
	}
	lost := r.Lost()
	if len(lost) != 2 || !regexp.MustCompile(`^[23] of 3 keys were not typed: the test drops it$`).MatchString(lost[0]) || lost[1] != "what was sent behind keys was not typed: the test drops it" {
		t.Errorf("lost: %q", lost)
	}
	if lost := r.Lost(); lost != nil {
		t.Errorf("lost again: %q", lost)
	}
	r.begin()
	r.types(tty.Strokes{Keys: []string{"f", "."}})
	if texts, _ := r.reads("."); !strings.HasSuffix(strings.Join(texts, ""), "f.") {
		t.Errorf("read %q", texts)
	}
	r.Close(why)
	if _, err := r.Type(t.Context(), tty.Strokes{Keys: []string{"g", "h"}}); err != why {
		t.Errorf("after Close: %v", err)
	}
}

// A secret is not typed at a terminal that has begun to echo meanwhile.
func TestSecretKeysAreNotEchoed(t *testing.T) {
	t.Parallel()
	r := startReader(t, tty.Pace{})
	keys := r.types(tty.Strokes{Keys: []string{"1", "2"}, Secret: true})
	text := r.types(tty.Strokes{Text: "3", Secret: true})
	polltest.Until(t, "the first key to be typed", func() bool { typed, _, _ := keys.Progress(); return typed == 1 })
	mode := must.Get(unix.IoctlGetTermios(int(r.PTY.Slave().Fd()), unix.TCGETS))(t)
	mode.Lflag |= unix.ECHO
	must.Do(t, unix.IoctlSetTermios(int(r.PTY.Slave().Fd()), unix.TCSETS, mode))
	r.begin()
	<-text.Done()
	if typed, _, err := keys.Progress(); typed != 1 || !errors.Is(err, tty.ErrEcho) {
		t.Errorf("%d keys, %v", typed, err)
	}
	if _, _, err := text.Progress(); !errors.Is(err, tty.ErrEcho) {
		t.Errorf("the text behind them: %v", err)
	}
	if texts, _ := r.reads("1"); !slices.Equal(texts, []string{"1"}) {
		t.Errorf("read %q", texts)
	}
}

// A call that the terminal would refuse is refused whole, and what waits for its turn when that comes.
func TestKeysThatAreRefused(t *testing.T) {
	t.Parallel()
	r := startReader(t, tty.Pace{})
	if _, err := r.Type(t.Context(), tty.Strokes{Keys: []string{"a", "b"}, EOF: true}); !errors.Is(err, tty.ErrRawEOF) {
		t.Errorf("an end of file: %v", err)
	}
	r.types(tty.Strokes{Keys: []string{"a", "b"}})
	late := r.types(tty.Strokes{EOF: true})
	r.begin()
	<-late.Done()
	if lost := r.Lost(); len(lost) != 1 || !strings.Contains(lost[0], tty.ErrRawEOF.Error()) {
		t.Errorf("lost: %q", lost)
	}
	if texts, _ := r.reads("b"); !slices.Equal(texts, []string{"a", "b"}) {
		t.Errorf("read %q", texts)
	}
}
