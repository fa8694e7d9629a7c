//go:build unix

package tty

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func open(t *testing.T) *PTY {
	t.Helper()
	p, err := Open(24, 80)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// TestCloseWakesRead: the master must stay non-blocking whatever has been asked of it, or its Close wakes nobody.
func TestCloseWakesRead(t *testing.T) {
	for name, first := range map[string]func(*PTY) error{
		"fresh":            func(*PTY) error { return nil },
		"resized":          func(p *PTY) error { return p.Resize(50, 132) },
		"mode read":        func(p *PTY) error { _, err := p.Mode(); return err },
		"in transit asked": func(p *PTY) error { p.InTransit(); return nil },
		"typed at":         func(p *PTY) error { _, err := p.Send(context.Background(), []byte("x\n")); return err },
		"looked at":        func(p *PTY) error { Waiting(p, []int{os.Getpid()}); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				p := open(t)
				if err := first(p); err != nil {
					t.Fatal(err)
				}
				got, ended := make(chan struct{}), make(chan error, 1)
				go func() { // ends with the error of the Read that Close wakes, below
					buf := make([]byte, 100)
					_, err := p.Master().Read(buf)
					close(got)
					for err == nil {
						_, err = p.Master().Read(buf)
					}
					ended <- err
				}()
				if _, err := p.Slave().WriteString("."); err != nil {
					t.Fatal(err)
				}
				<-got
				p.Close()
				select {
				case err := <-ended:
					if !errors.Is(err, os.ErrClosed) {
						t.Errorf("Read ended with %v", err)
					}
				case <-time.After(patience):
					t.Fatal("Read is blocked after Close")
				}
			}
		})
	}
}

func TestBlockingModes(t *testing.T) {
	p := open(t)
	for _, c := range []struct {
		file *os.File
		want bool
	}{{p.Master(), true}, {p.Slave(), false}} {
		err := control(c.file, func(fd int) error {
			flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
			if got := flags&unix.O_NONBLOCK != 0; got != c.want {
				t.Errorf("%s: non-blocking %t, want %t", c.file.Name(), got, c.want)
			}
			cloexec, err2 := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
			if cloexec&unix.FD_CLOEXEC == 0 {
				t.Errorf("%s: inherited by every child", c.file.Name())
			}
			return errors.Join(err, err2)
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestDeviceIsTheSlaves(t *testing.T) {
	p := open(t)
	var st unix.Stat_t
	if err := unix.Stat(p.Name(), &st); err != nil {
		t.Fatal(err)
	}
	if got, want := p.Device(), DeviceOf(&st); got != want {
		t.Errorf("got %+v, want %+v of %s", got, want, p.Name())
	}
}

func TestResize(t *testing.T) {
	p := start(t, []string{"sh", "-c", `stty size; read x; stty size`})
	p.waitPrinted(t, "40 120")
	if err := p.pty.Resize(50, 132); err != nil {
		t.Fatal(err)
	}
	p.send(t, "\n")
	p.waitPrinted(t, "50 132")
}

func TestMode(t *testing.T) {
	p := start(t, []string{"sh", "-c", `echo one; read x; stty -echo eof ^A; echo two; read x; stty -icanon -isig; echo three; read x`})
	for _, c := range []struct {
		after string
		want  Mode
		kind  string
	}{
		{"one", Mode{Echo: true, Canon: true, Signals: true, EOF: 4}, Line},
		{"two", Mode{Canon: true, Signals: true, EOF: 1}, Secret},
		{"three", Mode{}, Key},
	} {
		p.waitPrinted(t, c.after)
		got, err := p.pty.Mode()
		if err != nil {
			t.Fatal(err)
		}
		if !got.Canon {
			got.EOF = 0 // its place has another meaning
		}
		if got != c.want || kindOf(got) != c.kind {
			t.Errorf("after %s: got %+v, %s; want %+v, %s", c.after, got, kindOf(got), c.want, c.kind)
		}
		p.send(t, "\n")
	}
}

func TestForeground(t *testing.T) {
	p := start(t, []string{"bash", "-c", `echo $$; read x; set -m; sh -c 'echo $$; read x'; :`})
	for i := range 2 {
		waitFor(t, "pids", func() bool { return strings.Count(p.printed(), "\n") == 2*i+1 })
		lines := strings.Fields(p.printed())
		got, err := p.pty.Foreground()
		if want := lines[len(lines)-1]; err != nil || fmt.Sprint(got) != want {
			t.Errorf("got %d, %v; want %s", got, err, want)
		}
		p.send(t, "\n")
	}
}

// Half a line in line mode is no input yet, and an end of file is.
func TestInTransit(t *testing.T) {
	p := start(t, []string{"sh", "-c", `stty -echo; echo ready; exec sleep 1000`})
	p.waitPrinted(t, "ready")
	for _, c := range []struct {
		text string
		want bool
	}{{"half", false}, {" a line\n", true}} {
		p.send(t, c.text)
		waitFor(t, fmt.Sprintf("in transit %t after %q", c.want, c.text), func() bool { return p.pty.InTransit() == c.want })
	}
	eof := start(t, []string{"sh", "-c", `stty -echo; echo ready; exec sleep 1000`})
	eof.waitPrinted(t, "ready")
	waitFor(t, "quiet", func() bool { return !eof.pty.InTransit() })
	eof.send(t, "\x04")
	waitFor(t, "the end of file to be in transit", eof.pty.InTransit)
	p.pty.CloseSlave()
	if !p.pty.InTransit() {
		t.Error("nothing is in transit by a closed slave, which can't be asked")
	}
}

// TestSendToOneWhoDoesNotRead: Send ends, and tells how much was taken.
func TestSendToOneWhoDoesNotRead(t *testing.T) {
	const much = 1 << 20
	p := start(t, []string{"sh", "-c", `stty raw -echo; echo ready; exec sleep 1000`})
	p.waitPrinted(t, "ready")
	p.pty.limit = 50 * time.Millisecond
	first, err := p.pty.Send(t.Context(), make([]byte, much))
	if !errors.Is(err, errFull) || first <= 0 || first >= much {
		t.Errorf("got %d, %v; want a part and errFull", first, err)
	}
	p.pty.limit = patience
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if n, err := p.pty.Send(ctx, make([]byte, much)); !errors.Is(err, context.DeadlineExceeded) || n >= much {
		t.Errorf("got %d, %v; want the context's error", n, err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { // ends when Close wakes it, below
		if n, err := p.pty.Send(t.Context(), make([]byte, much)); !errors.Is(err, os.ErrClosed) {
			t.Errorf("got %d, %v; want that it is closed", n, err)
		}
	})
	waitFor(t, "the Send to begin", func() bool { return p.pty.Sending() })
	if n, err := p.pty.Send(ctx, []byte("x")); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %d, %v from a Send whose turn does not come", n, err)
	}
	p.pty.Close()
	wg.Wait()
	if n, err := p.pty.Send(t.Context(), []byte("x")); n != 0 || !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %d, %v afterwards; want that it is closed", n, err)
	}
}

// TestCancelledSendEndsItsOwnOnly: a Send whose context ends as it has written its bytes does not cut the next one short.
func TestCancelledSendEndsItsOwnOnly(t *testing.T) {
	p := start(t, []string{"sh", "-c", `stty raw -echo; echo ready; exec cat >/dev/null`})
	p.waitPrinted(t, "ready")
	p.pty.limit = patience
	for round := range 8000 { // one in 1,000 was hit, and one in 100 under the race detector
		ctx, cancel := context.WithCancel(t.Context())
		go cancel() // ends at once
		p.pty.Send(ctx, []byte("a"))
		for range 3 {
			if n, err := p.pty.Send(t.Context(), []byte("b")); err != nil {
				t.Fatalf("round %d: %d, %v from a Send after one that was cancelled", round, n, err)
			}
		}
	}
}

// TestSendWhole: a program that reads slowly gets all of it.
func TestSendWhole(t *testing.T) {
	const much = 1 << 20
	p := start(t, []string{"sh", "-c", fmt.Sprintf(`stty raw -echo; echo ready; head -c %d | wc -c`, much)})
	p.waitPrinted(t, "ready")
	p.send(t, strings.Repeat("0123456789abcdef", much/16))
	p.waitPrinted(t, fmt.Sprint(much))
}

// TestSendersTakeTurns: what one sends is not torn by another.
func TestSendersTakeTurns(t *testing.T) {
	p := start(t, []string{"sh", "-c", `stty raw -echo; echo ready; exec head -c 200000`})
	p.waitPrinted(t, "ready")
	var wg sync.WaitGroup
	for _, c := range "ab" {
		wg.Go(func() { // ends with its Sends
			for range 10 {
				p.send(t, strings.Repeat(string(c), 10000))
			}
		})
	}
	wg.Wait()
	waitFor(t, "all", func() bool { return len(p.printed()) >= 200000 })
	_, got, _ := strings.Cut(p.printed(), "\n")
	got = strings.TrimLeft(got, "\r\n")
	for i := 0; i < len(got); i += 10000 {
		if part := got[i:min(i+10000, len(got))]; strings.Count(part, part[:1]) != len(part) {
			t.Fatalf("torn between %d and %d", i, i+10000)
		}
	}
}
