//go:build unix

package demo

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The steps with programs of a terminal. A program that is not installed is named, and its step
// passes without it.

// missing reports whether the server finds no such program, and says so.
func (s *session) missing(program string) (bool, error) {
	r, err := s.c.Call(s.ctx, "execute_command_async", map[string]any{"command": "command -v " + program, "wait_seconds": 60})
	if err != nil || r.Header("Status") == "completed" {
		return false, err
	}
	fmt.Fprintf(s.out, "   %s is not installed: nothing to show\n", program)
	return true, nil
}

// passphrase is what the demo sends as a secret.
const passphrase = "correct horse battery staple"

// makeKey answers ssh-keygen prompt by prompt. The passphrase leaves no trace.
func makeKey(s *session) error {
	if missing, err := s.missing("ssh-keygen"); missing || err != nil {
		return err
	}
	r, err := s.call("execute_command_async", map[string]any{"command": "ssh-keygen -t ed25519 -C demo", "wait_seconds": 60})
	if err != nil {
		return err
	}
	id := r.Header("Job ID")
	replies := string(r)
	for _, answer := range []struct {
		prompt, text string
		secret       bool
	}{
		{"Enter file in which to save the key ", "./demo_key\n", false},
		{"Enter passphrase", passphrase + "\n", true},
		{"Enter same passphrase again: ", passphrase + "\n", true},
	} {
		if err := r.Expect("waiting_input", answer.prompt); err != nil {
			return err
		}
		args := map[string]any{"job_id": id, "text": answer.text, "secret": answer.secret, "wait_seconds": 60}
		if r, err = s.call("send_command_input", args); err != nil {
			return err
		}
		replies += string(r)
	}
	if err := r.Expect("completed", "SHA256:"); err != nil {
		return err
	}
	if strings.Contains(replies, passphrase) {
		return errors.New("a reply shows the passphrase")
	}
	return s.searchFor(passphrase)
}

// searchFor returns an error if a file of the workspace or of the server's state holds text.
func (s *session) searchFor(text string) error {
	return filepath.WalkDir(s.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err == nil && bytes.Contains(b, []byte(text)) {
			err = fmt.Errorf("%s holds %q", path, text)
		}
		return err
	})
}

// pageThroughFile pages a file with less, searches in it and leaves it, by keys. Each reply shows
// the screen of less, and a check shows what is on the terminal when less has ended.
func pageThroughFile(s *session) error {
	if missing, err := s.missing("less"); missing || err != nil {
		return err
	}
	r, err := s.call("execute_command_async", map[string]any{"command": "seq 1000 | sed 's/^/line /' >lines; less lines", "wait_seconds": 60})
	if err != nil {
		return err
	}
	id := r.Header("Job ID")
	if err := r.Expect("waiting_input", "--- SCREEN ---\nline 1\n", "line 39\n"); err != nil {
		return err
	}
	for _, step := range []struct {
		keys   []string
		status string
		text   string
	}{
		{[]string{"pagedown"}, "waiting_input", "--- SCREEN ---\nline 40\n"},
		{[]string{"/", "line 500", "enter"}, "waiting_input", "--- SCREEN ---\nline 500\n"},
		{[]string{"q"}, "completed", ""},
	} {
		if r, err = s.call("send_command_input", map[string]any{"job_id": id, "keys": step.keys, "wait_seconds": 60}); err != nil {
			return err
		}
		if err := r.Expect(step.status, step.text); err != nil {
			return err
		}
	}
	r, err = s.call("check_job_status", map[string]any{"job_id": id, "view": "screen"})
	if err != nil {
		return err
	}
	if strings.Contains(string(r), "line 500") {
		return errors.New("less has not left the screen")
	}
	return r.Expect("completed")
}

// watchBuild shows that a job which is only quiet does not ask, although its last line looks like a
// question: it stays running, and the server says what it does.
func watchBuild(s *session) error {
	r, err := s.call("execute_command_async", map[string]any{"command": `printf 'Linking all of it, OK? '; exec sleep 300`, "wait_seconds": 0.5})
	if err != nil {
		return err
	}
	if err := r.Expect("running"); err != nil {
		return err
	}
	id := r.Header("Job ID")
	if r, err = s.call("wait_for_jobs", map[string]any{"job_ids": []string{id}, "quiet_seconds": 5}); err != nil {
		return err
	}
	if err := r.Expect("", "\nStatus: running\n", "Condition: met: job "+id+" has printed nothing for 5.0s\n", "\nActivity: no output"); err != nil {
		return err
	}
	r, err = s.call("cancel_job", map[string]any{"job_id": id})
	if err != nil {
		return err
	}
	return r.Expect("cancelled (interrupted)")
}

// flood prints many lines, one of them an error in colour.
const flood = `awk 'BEGIN { for (i = 1; i <= 200000; i++) print (i == 123456 ? "\033[31merror\033[0m: no space left for " : "copied ") "block " i }'`

// findError finds an error in the middle of a flood of output, and reads on from there.
func findError(s *session) error {
	r, err := s.call("execute_command_async", map[string]any{"command": flood, "wait_seconds": 60, "max_chars": 100})
	if err != nil {
		return err
	}
	if err := r.Expect("completed"); err != nil {
		return err
	}
	id := r.Header("Job ID")
	if r, err = s.call("search_job_output", map[string]any{"job_id": id, "pattern": `error: .* block \d+`, "context": 1}); err != nil {
		return err
	}
	if err := r.Expect("completed", "- copied block 123455\n", ": error: no space left for block 123456\n", "- copied block 123457\n"); err != nil {
		return err
	}
	_, found, _ := strings.Cut(string(r), "\n\n")
	var before, at int64
	if _, err := fmt.Sscanf(found, "stdout %d- copied block 123455\nstdout %d: ", &before, &at); err != nil || at <= before {
		return fmt.Errorf("the match has no cursor: %q", found)
	}
	if r, err = s.call("check_job_status", map[string]any{"job_id": id, "cursor": at, "max_chars": 100}); err != nil {
		return err
	}
	if text := r.Section("STDOUT"); !strings.HasPrefix(text, "error: no space left for block 123456\ncopied block 123457\n") {
		return fmt.Errorf("at cursor %d is %q", at, text)
	}
	return nil
}

const longBar = `import sys, time
for i in range(1, 10_001):
    print(f"\r{i // 200:3}%|{i // 2000 * '█':10}| {i}/20000 [00:12<00:12, 833.33it/s]", end="", file=sys.stderr)
time.sleep(60)`

// watchBar checks a progress bar while it is drawn. The bar is one line, and the server says in
// words how far it is.
func watchBar(s *session) error {
	r, err := s.call("execute_python", map[string]any{"code": longBar, "wait_seconds": 0})
	if err != nil {
		return err
	}
	id := map[string]any{"job_id": r.Header("Job ID"), "wait_seconds": 0.5}
	for !strings.HasPrefix(r.Header("Progress"), "50 %") {
		if r, err = s.c.Call(s.ctx, "check_job_status", id); err != nil {
			return err
		}
		if r.Header("Status") != "running" {
			return fmt.Errorf("the job does not run: %s", r)
		}
	}
	s.printCall("check_job_status", id)
	s.printReply(r)
	if _, shown, _ := strings.Cut(string(r), " ---\n"); strings.Count(shown, "20000") != 1 {
		return errors.New("the bar is not one line")
	}
	if err := r.Expect("running", "Progress: 50 %, 10000 of 20000, 833 it/s, 0:12 left"); err != nil {
		return err
	}
	r, err = s.call("cancel_job", map[string]any{"job_id": id["job_id"]})
	if err != nil {
		return err
	}
	return r.Expect("cancelled (interrupted; variables kept)")
}
