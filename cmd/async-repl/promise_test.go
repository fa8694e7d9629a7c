package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/internal/test/racetest"
)

// peak returns the most memory that a process has used, in KiB.
func peak(t testing.TB, pid int) int {
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

// 100 MB of output of each kind of job are kept in full, and the server needs less memory than that.
func TestLoadFloodsAreKeptInLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("a load test")
	}
	t.Parallel()
	const size = 100_000_000
	s := startServer(t)
	for name, r := range map[string]client.Reply{
		"shell":  s.do("execute_command_async", "command", fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", size), "wait_seconds", 0),
		"pipe":   s.do("execute_command_async", "command", fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", size), "wait_seconds", 0, "tty", false),
		"python": s.do("execute_python", "code", fmt.Sprintf("for _ in range(%d): print('x' * 9999)", size/10_000), "wait_seconds", 0),
	} {
		end := s.end(r.Header("Job ID"))
		if err := end.Expect("completed"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := end.Header("Cursor"); got != strconv.Itoa(size) {
			t.Errorf("%s: cursor %s, want %d", name, got, size)
		}
		if n := len(end); n > 16_500 {
			t.Errorf("%s: a reply of %d bytes", name, n)
		}
	}
	if kib := peak(t, s.inner()); kib > 60_000*racetest.Memory {
		t.Errorf("the server had %d KiB", kib)
	}
}

// A running session finds a new package at once, and keeps its variables. A note says that it has
// imported an older version. A cancelled install changes nothing.
func TestInstallsBesideARunningSession(t *testing.T) {
	if testing.Short() {
		t.Skip("makes an environment and installs packages")
	}
	t.Parallel()
	index := t.TempDir()
	s := startServer(t, ownEnvironment, "PIP_FIND_LINKS="+index, "PIP_NO_INDEX=1", "UV_FIND_LINKS="+index, "UV_NO_INDEX=1", "UV_OFFLINE=1")
	for version, dir := range map[string]string{"1.0": index, "2.0": s.dir} {
		saveWheel(t, dir, "replwheel", version, "value = '"+version+"'")
	}
	install := func(what, status string) client.Reply {
		t.Helper()
		r := s.end(s.do("install_package_async", "package", what, "wait_seconds", 0).Header("Job ID"))
		if err := r.Expect(status); err != nil {
			t.Fatalf("%v: %s", err, r)
		}
		return r
	}
	s.do("execute_python", "code", "kept = 1\ntry:\n    import replwheel\nexcept ImportError: pass", "wait_seconds", 60)
	install("replwheel>=1,<2", "completed (installed replwheel 1.0)")
	if r := s.do("execute_python", "wait_seconds", 60, "code", "import replwheel; print(replwheel.value, kept)"); r.Expect("completed", "1.0 1") != nil {
		t.Errorf("the session does not find what was installed: %s", r)
	}
	r := install("./replwheel-2.0-py3-none-any.whl", "completed (installed replwheel 2.0 (was 1.0))")
	if got, want := r.Header("Note"), "session default has imported replwheel before; restart its Python to use replwheel 2.0 there"; got != want {
		t.Errorf("note %q, want %q", got, want)
	}

	building := filepath.Join(s.dir, "building")
	if err := os.Mkdir(filepath.Join(s.dir, "stuck"), 0o777); err != nil {
		t.Fatal(err)
	}
	s.write("stuck/pyproject.toml", "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n[project]\nname = 'stuck'\nversion = '1.0'\n")
	s.write("stuck/backend.py", "import time\ndef build_wheel(*_, **__): open("+strconv.Quote(building)+", 'w').close(); time.sleep(1000)\n")
	id := s.do("install_package_async", "package", "./stuck", "wait_seconds", 0).Header("Job ID")
	polltest.Until(t, "the build", func() bool { _, err := os.Stat(building); return err == nil })
	s.do("cancel_job", "job_id", id)
	r = s.end(id)
	if status := r.Header("Status"); !strings.HasPrefix(status, "cancelled (") || r.Header("Note") != "no package was installed or removed" {
		t.Errorf("after a cancel: %s", r)
	}
	install("replwheel", "completed (already satisfied)")
}

// A client that only lists, or asks for the status, makes no environment and starts no process.
func TestListingStartsNothing(t *testing.T) {
	t.Parallel()
	s := startServer(t, ownEnvironment)
	if _, err := s.Request(s.ctx(), "tools/list", nil); err != nil {
		t.Fatal(err)
	}
	s.do("list_jobs")
	s.do("list_variables")
	s.do("server_status")
	if entries, err := os.ReadDir(s.dir); err != nil || len(entries) > 0 {
		t.Errorf("the workspace holds %v, %v", entries, err)
	}
	if kids, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", s.inner())); err != nil || len(kids) > 0 {
		t.Errorf("processes %s, %v", kids, err)
	}
}
