package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// peak is the most memory that a process has had, in KiB.
func peak(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(status), "VmHWM:")
	if !ok {
		t.Fatalf("no peak in %s", status)
	}
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib
}

// 200 MB from either kind of job are all there, and cost the server little.
func TestFloodsAreKeptInLittleMemory(t *testing.T) {
	const size = 200_000_000
	s := startServer(t)
	for name, r := range map[string]reply{
		"shell":  s.do("execute_command_async", "command", fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", size), "wait_seconds", 0),
		"pipe":   s.do("execute_command_async", "command", fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", size), "wait_seconds", 0, "tty", false),
		"python": s.do("execute_python", "code", fmt.Sprintf("for _ in range(%d): print('x' * 9999)", size/10_000), "wait_seconds", 0),
	} {
		end := s.end(r.header("Job ID"))
		if err := expect(end, "completed"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := end.header("Cursor"); got != strconv.Itoa(size) {
			t.Errorf("%s: cursor %s, want %d", name, got, size)
		}
		if n := len(end); n > 16_500 {
			t.Errorf("%s: a reply of %d bytes", name, n)
		}
	}
	if kib := peak(t, s.cmd.Process.Pid); kib > 100_000 {
		t.Errorf("the server had %d KiB", kib)
	}
}

// A package is importable at once in the session that was running before.
func TestInstalledPackageIsImportableAtOnce(t *testing.T) {
	dir := t.TempDir()
	if _, err := buildWheel(dir, "replwheel", "1.2", "value = 'from the wheel'\n"); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, "PIP_FIND_LINKS="+dir, "PIP_NO_INDEX=1", "UV_FIND_LINKS="+dir, "UV_NO_INDEX=1", "UV_OFFLINE=1")
	s.do("execute_python", "code", "kept = 1\ntry:\n    import replwheel\nexcept ImportError: pass", "wait_seconds", 60)
	r := s.do("install_package_async", "package", "replwheel>=1,<2", "wait_seconds", 0)
	if err := expect(s.end(r.header("Job ID")), "completed (installed replwheel 1.2)"); err != nil {
		t.Fatalf("%v: %s", err, s.end(r.header("Job ID")))
	}
	r = s.do("execute_python", "code", "import replwheel; print(replwheel.value, kept)")
	if err := expect(r, "completed", "from the wheel 1"); err != nil {
		t.Errorf("%v: %s", err, r)
	}
	if text := s.refused("install_package_async", "package", "--index-url=http://127.0.0.1:1 x"); !strings.Contains(text, "option") {
		t.Errorf("the refusal of an option says %q", text)
	}
}

// The environment is touched lazily: a client that only lists pays for nothing.
func TestListingStartsNothing(t *testing.T) {
	s := startServer(t)
	if _, err := s.request(s.ctx(), "tools/list", nil); err != nil {
		t.Fatal(err)
	}
	s.do("list_jobs")
	s.do("list_variables")
	if entries, err := os.ReadDir(s.dir); err != nil || len(entries) > 0 {
		t.Errorf("the workspace holds %v, %v", entries, err)
	}
	if kids, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", s.cmd.Process.Pid)); err != nil || len(kids) > 0 {
		t.Errorf("processes %s, %v", kids, err)
	}
}

func TestSessions(t *testing.T) {
	s := startServer(t, "REPL_MAX_SESSIONS=2")
	for _, name := range []string{"a", "b"} {
		s.do("execute_python", "code", "who = "+strconv.Quote(name), "session", name, "wait_seconds", 60)
	}
	if r := s.do("execute_python", "code", "who", "session", "a"); r.section("RESULT") != "'a'\n" && r.section("RESULT") != "'a'" {
		t.Errorf("session a has %s", r)
	}
	if text := s.refused("execute_python", "code", "1", "session", "c"); !strings.Contains(text, "REPL_MAX_SESSIONS") {
		t.Errorf("the refusal says %q", text)
	}
	s.do("restart_python_worker", "session", "a") // which makes room
	s.do("execute_python", "code", "1", "session", "c", "wait_seconds", 60)
}
