//go:build unix

package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"asyncrepl/internal/mcpclient"
)

// figure is code that draws a picture with what every Python has.
const figure = `import struct, zlib

class Figure:
    def _repr_png_(self):
        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        rows = b"".join(b"\0" + bytes(x * y // 64 % 256 for x in range(256)) for y in range(128))
        head = struct.pack(">IIBBBBB", 256, 128, 8, 0, 0, 0, 0)
        return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")

Figure()`

// seeFigure has Python show a picture, and the reply bring it.
func seeFigure(s *session) error {
	const tool = "execute_python"
	args := map[string]any{"code": figure, "wait_seconds": 60}
	s.printCall(tool, args)
	raw, err := s.c.Request(s.ctx, "tools/call", map[string]any{"name": tool, "arguments": args})
	if err != nil {
		return err
	}
	var reply struct {
		Content []struct {
			Text, MIMEType string
			Data           []byte
		}
	}
	if err := json.Unmarshal(raw, &reply); err != nil {
		return err
	}
	if len(reply.Content) == 0 {
		return errors.New("the reply is empty")
	}
	text := mcpclient.Reply(reply.Content[0].Text)
	s.printReply(text)
	if err := text.Expect("completed", "[image 1: PNG 256x128, job://"); err != nil {
		return err
	}
	if n := len(reply.Content); n != 2 {
		return fmt.Errorf("the reply has %d blocks, not a text and a picture", n)
	}
	picture := reply.Content[1]
	if picture.MIMEType != "image/png" || !bytes.HasPrefix(picture.Data, []byte("\x89PNG")) {
		return fmt.Errorf("the block of type %q is no PNG", picture.MIMEType)
	}
	fmt.Fprintf(s.out, "     (and the picture itself: %s, %d bytes)\n", picture.MIMEType, len(picture.Data))
	return nil
}

const busyLoop = `def search():
    n = 0
    while True:
        n += 1
search()`

// lookIntoLoop asks where a loop is that never ends, and ends it.
func lookIntoLoop(s *session) error {
	r, err := s.call("execute_python", map[string]any{"code": busyLoop, "wait_seconds": 0.5})
	if err != nil {
		return err
	}
	if err := r.Expect("running"); err != nil {
		return err
	}
	id := r.Header("Job ID")
	for at := ""; !strings.Contains(at, "in search"); {
		if r, err = s.call("check_python_status", map[string]any{"wait_seconds": 0.2}); err != nil {
			return err
		}
		if err := r.Expect("running"); err != nil {
			return err
		}
		before := at
		if at = r.Header("At"); at == "" && before != "" { // the reason was said before
			fmt.Fprintln(s.out, "   (no look is possible here)")
			break
		}
	}
	if _, err := s.call("cancel_job", map[string]any{"job_id": id}); err != nil {
		return err
	}
	if r, err = s.c.Call(s.ctx, "check_job_status", map[string]any{"job_id": id, "wait_seconds": 60}); err != nil {
		return err
	}
	if status := r.Header("Status"); !strings.HasPrefix(status, "cancelled") {
		return fmt.Errorf("the status is %q, not cancelled", status)
	}
	return nil
}

// branches reports whether a session can be branched on this system, and prints it if not.
func (s *session) branches() bool {
	if runtime.GOOS == "linux" {
		return true
	}
	fmt.Fprintln(s.out, "   (branches and checkpoints need Linux)")
	return false
}

// branchTwice makes a state that takes some work to make, with a checkpoint, and two sessions that
// continue from it in different ways.
func branchTwice(s *session) error {
	if !s.branches() {
		return nil
	}
	const state = "primes = [n for n in range(2, 50_000) if all(n % d for d in range(2, int(n ** 0.5) + 1))]\nlen(primes)"
	r, err := s.call("execute_python", map[string]any{"code": state, "checkpoint": true, "wait_seconds": 60})
	if err == nil {
		err = r.Expect("completed", "\nCheckpoint: kept\n", "\n5133")
	}
	for _, name := range []string{"small", "large"} {
		if err == nil {
			r, err = s.call("create_session", map[string]any{"name": name, "from_session": "default"})
		}
		if err == nil && !strings.Contains(string(r), "branch of default") {
			err = fmt.Errorf("%s is no branch of default", name)
		}
	}
	for _, next := range [][3]string{
		{"small", "del primes[3:]; primes", "[2, 3, 5]"},
		{"large", "del primes[:-3]; primes", "[49991, 49993, 49999]"},
		{"default", "len(primes)", "5133"},
	} {
		if err == nil {
			r, err = s.call("execute_python", map[string]any{"session": next[0], "code": next[1], "wait_seconds": 60})
		}
		if err == nil {
			err = r.Expect("completed", "\n"+next[2])
		}
	}
	return err
}

// continueAfterCrash crashes the session and has it continue from the checkpoint of branchTwice.
func continueAfterCrash(s *session) error {
	if !s.branches() {
		return nil
	}
	r, err := s.call("execute_python", map[string]any{"code": "primes.clear()\nimport os; os._exit(1)", "wait_seconds": 60})
	if err != nil {
		return err
	}
	if status := r.Header("Status"); !strings.HasSuffix(status, "variables lost)") {
		return fmt.Errorf("the status %q does not say that the variables are lost", status)
	}
	if r, err = s.call("restart_python_worker", map[string]any{"checkpoint": "latest"}); err != nil {
		return err
	}
	if got := r.Header("Restarted"); !strings.HasPrefix(got, "yes; the variables are those of the checkpoint") {
		return fmt.Errorf("restarted: %q", got)
	}
	if r, err = s.call("execute_python", map[string]any{"code": "len(primes)", "wait_seconds": 60}); err != nil {
		return err
	}
	return r.Expect("completed", "\n5133")
}

// exportNotebook writes what the session ran to a notebook that has the figure.
func exportNotebook(s *session) error {
	if _, err := s.call("export_session", map[string]any{"path": "demo.ipynb"}); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(s.dir, "demo.ipynb"))
	if err != nil {
		return err
	}
	var notebook struct {
		Cells []struct {
			Outputs []struct{ Data map[string]any }
		}
	}
	if err := json.Unmarshal(text, &notebook); err != nil {
		return err
	}
	for _, cell := range notebook.Cells {
		for _, output := range cell.Outputs {
			if output.Data["image/png"] != nil {
				return nil
			}
		}
	}
	return errors.New("the notebook does not have the figure")
}
