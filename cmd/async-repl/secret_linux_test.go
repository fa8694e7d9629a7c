package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

// A surveyed server is one all of whose traces are collected: what it answers, what it logs, and the
// files of its directories.
type surveyed struct {
	*started
	root    string
	replies bytes.Buffer
}

// survey starts a server whose directories are all below one.
func survey(t *testing.T) *surveyed {
	t.Helper()
	root := filepath.Dir(newState(t))
	var env []string
	for variable, dir := range map[string]string{"REPL_STATE_DIR": "state", "REPL_WORKDIR": "work", "HOME": "home", "TMPDIR": "tmp", "XDG_CACHE_HOME": "cache"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
		env = append(env, variable+"="+filepath.Join(root, dir))
	}
	if httpEra() != "" {
		env = append(env, "REPL_ACCESS_LOG="+filepath.Join(root, "access.log"))
	}
	return &surveyed{started: startServer(t, env...), root: root}
}

// try calls a tool, keeps what it answers, also if that is a refusal, and returns it.
func (s *surveyed) try(tool string, args ...any) (r client.Reply, isError bool) {
	s.t.Helper()
	r, err := s.Call(s.ctx(), tool, pairs(args))
	if err != nil {
		r = client.Reply(err.Error())
	}
	fmt.Fprintf(&s.replies, "%s\n", r)
	return r, err != nil
}

// read keeps what a resource holds.
func (s *surveyed) read(uri string) {
	s.t.Helper()
	content, err := s.Request(s.ctx(), "resources/read", map[string]any{"uri": uri})
	if err != nil {
		s.t.Fatal(err)
	}
	fmt.Fprintf(&s.replies, "%s\n", content)
}

// traces returns the names of the places that hold one of some texts: replies, the log, files, and
// files that are open and have no name.
func (s *surveyed) traces(texts ...string) (found []string) {
	s.t.Helper()
	places := map[string][]byte{"replies": s.replies.Bytes(), "log": []byte(s.log.String())}
	add := func(path string) {
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
			if places[path], err = os.ReadFile(path); err != nil {
				s.t.Error(err)
			}
		}
	}
	err := filepath.WalkDir(s.root, func(path string, e fs.DirEntry, err error) error {
		add(path)
		if errors.Is(err, fs.ErrNotExist) { // the guard of an engine that crashed removes some
			return nil
		}
		return err
	})
	if err != nil {
		s.t.Error(err)
	}
	open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", s.inner())) // none once it has ended
	for _, path := range open {
		if to, err := os.Readlink(path); err == nil && strings.HasPrefix(to, s.root) {
			add(path)
		}
	}
	for place, content := range maps.All(places) {
		for _, text := range texts {
			if bytes.Contains(content, []byte(text)) {
				found = append(found, place)
			}
		}
	}
	return found
}

// checks is shell that says whether $answer is the secret, which it does not hold itself, and prints
// enough for a file.
func checks(secret string) string {
	return fmt.Sprintf(`; [ "$(printf %%s "$answer" | sha256sum)" = "%x  -" ] && echo right; seq 60000; exit 3`, sha256.Sum256([]byte(secret)))
}

// A secret is in no reply, record, log, file or crash report, however it is sent and whether it is
// taken or refused. Programs of the job print nothing of it here.
func TestSecretLeavesNoTrace(t *testing.T) {
	t.Parallel()
	s := survey(t)
	const secret = "correcthorse42battery"
	asks := `read -r -s -p "Password: " answer` + checks(secret)
	var letters []string
	for _, letter := range secret {
		letters = append(letters, string(letter))
	}
	for name, args := range map[string][]any{
		"a line":           {"text", secret + "\n"},
		"text and a key":   {"text", secret, "keys", []string{"enter"}},
		"an element":       {"keys", []string{secret, "enter"}},
		"letters":          {"keys", append(letters, "enter")},
		"a paste":          {"text", secret, "paste", true, "keys", []string{"enter"}},
		"with a size":      {"text", secret + "\n", "size", []int{30, 100}},
		"and then its end": {"text", secret + "\n", "eof", true},
	} {
		if testing.Short() && name != "a line" {
			continue // a full run tries the other ways
		}
		r, _ := s.try("execute_command_async", "command", asks, "wait_seconds", 60)
		id := r.Header("Job ID")
		for _, refused := range [][]any{
			{"keys", []string{secret}},                    // a word without a key
			{"keys", []string{"enter", "ctrl-" + secret}}, // no chord
			{"text", secret + "\x03\n"},                   // acted on
			{"text", strings.Repeat(secret, 1000) + "\n"}, // cut
			{"text", secret + "\x1b[201~", "paste", true}, // the end of the brackets
			{"text", []string{secret}},                    // no string
			{"keys", secret},                              // no list
			{"text", secret, "signal", "KILL"},
		} {
			if r, isError := s.try("send_command_input", append(refused, "job_id", id, "secret", true)...); !isError {
				t.Errorf("%v was not refused:\n%s", refused, r)
			}
		}
		r, isError := s.try("send_command_input", append(args, "job_id", id, "secret", true, "wait_seconds", 60)...)
		if isError || r.Header("Status") != "failed (exit 3)" || !strings.Contains(string(r), "\nright\n") {
			t.Errorf("%s did not arrive:\n%s", name, r)
		}
		s.try("send_command_input", "text", secret+"\n", "job_id", id, "secret", true) // it has ended
		s.try("send_command_input", "text", secret+"\n", "job_id", "01M0000000000000000000NONE", "secret", true)
		s.try("check_job_status", "job_id", id, "max_chars", 45000)
		s.try("wait_for_jobs", "job_ids", []string{id})
		s.read("job://" + id)
		s.read("job://" + id + "/output")
	}
	r, _ := s.try("execute_command_async", "command", "echo ready; exec cat", "wait_seconds", 60)
	s.try("send_command_input", "text", secret+"\n", "job_id", r.Header("Job ID"), "secret", true) // the terminal would echo it
	r, _ = s.try("execute_command_async", "command", "read -r answer"+checks(secret), "tty", false, "wait_seconds", 0)
	s.try("send_command_input", "text", secret+"\n", "job_id", r.Header("Job ID"), "secret", true, "wait_seconds", 60)
	s.try("execute_python", "code", "import getpass; answer = getpass.getpass(); len(answer)", "wait_seconds", 60)
	s.try("send_python_input", "text", secret, "wait_seconds", 60)
	s.try("export_session", "path", "session.ipynb")
	for _, tool := range []string{"list_jobs", "list_sessions", "server_status", "check_python_status"} {
		s.try(tool)
	}
	if found := s.traces(secret, base64.StdEncoding.EncodeToString([]byte(secret))); found != nil {
		t.Errorf("the secret is in: %v", found)
	}
	if found := s.traces("\n12345\r\n"); !strings.Contains(strings.Join(found, "\n"), "/output.log") {
		t.Errorf("the output is in %v: the search misses the file that it fills", found)
	}

	pid := s.inner()
	if pid == 0 {
		t.Fatal("there is no engine")
	}
	must.Do(t, syscall.Kill(pid, syscall.SIGQUIT))
	if carrier() == "" { // at a place it is in a file, which traces reads
		polltest.Until(t, "the crash report", func() bool { return strings.Contains(s.log.String(), "goroutine ") })
	}
	s.stop()
	s.exit()
	if found := s.traces(secret, base64.StdEncoding.EncodeToString([]byte(secret)), fmt.Sprintf("%x", secret), fmt.Sprintf("%x", secret[:8])); found != nil {
		t.Errorf("after a crash the secret is in: %v", found)
	}
}

// What a program prints is its output, also if it is a secret that it was sent.
func TestSecretThatAProgramPrintsIsItsOutput(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	r := s.do("execute_command_async", "command", `read -r -s -p "Password: " answer; echo "you said $answer."`, "wait_seconds", 60)
	r = s.do("send_command_input", "job_id", r.Header("Job ID"), "text", "correcthorse42battery\n", "secret", true, "wait_seconds", 60)
	if want := "\nyou said correcthorse42battery.\n"; !strings.HasSuffix(string(r), want) {
		t.Errorf("the output is changed:\n%s", r)
	}
}
