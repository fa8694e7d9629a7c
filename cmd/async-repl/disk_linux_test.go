package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/test/needtest"
)

// own makes a process with mounts of its own, which end with it.
var own = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}

// startOnDisk starts a server whose state directory is a disk of its own, mounted with these
// options. It skips the test if that is not possible here.
func startOnDisk(t *testing.T, dir, options string) *started {
	t.Helper()
	s := prepare(t, "REPL_STATE_DIR="+dir)
	s.onDisk(dir, options)
	s.open()
	return s
}

// onDisk makes a server that has not been started begin with a disk mounted at dir. It skips the
// test if that is not possible here.
func (s *started) onDisk(dir, options string) {
	s.t.Helper()
	inherited(s.t)
	mount := exec.Command("mount", "-t", "tmpfs", "-o", options, "tmpfs", dir)
	mount.SysProcAttr = own
	out, err := mount.CombinedOutput()
	needtest.Right(s.t, "mount a disk", err, out)
	s.under(`mount -t tmpfs -o "$1" tmpfs "$2"`, options, dir)
	s.cmd.SysProcAttr = own
}

// under makes a server that has not been started begin with a line of shell.
func (s *started) under(line string, args ...string) {
	sh := exec.Command("sh", append([]string{"-c", line + fmt.Sprintf(` && shift %d && exec "$0" "$@"`, len(args)), s.cmd.Path}, args...)...)
	s.cmd.Path, s.cmd.Args = sh.Path, sh.Args
}

// If the disk is full, read-only or missing, the job continues and the beginning and the end of its
// output are kept. Reply, receipt and server_status say how much was lost and why. When there is
// room again, nothing more is lost.
func TestDiskFails(t *testing.T) {
	if testing.Short() {
		t.Skip("mounts disks and fills them")
	}
	t.Parallel()
	for name, test := range map[string]struct {
		options    string // of the mount; none: no disk of its own
		spoil, fix string // shell, with the directory as $DIR
		why        string
	}{
		"full":       {"size=3m", `head -c 2700K /dev/zero >"$DIR/filler"`, `rm "$DIR/filler"`, "no space left on device"},
		"read-only":  {"ro", "true", `mount -o remount,rw "$DIR"`, "read-only file system"},
		"not there":  {"", `rm -r "$DIR" && touch "$DIR"`, `rm "$DIR"`, "not a directory"},
		"not enough": {"size=300k", "true", `mount -o remount,size=4m "$DIR"`, "no space left on device"},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "full" {
				notApart(t, "no job mounts the disk again, or removes the directory")
			}
			dir := newState(t)
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			var s *started
			if test.options == "" {
				s = startServer(t, "REPL_STATE_DIR="+dir)
			} else {
				s = startOnDisk(t, dir, test.options)
			}
			run := func(line string) client.Reply {
				t.Helper()
				r := s.do("execute_command_async", "command", "DIR='"+s.records()+"'; "+line, "tty", false, "wait_seconds", 100)
				if err := r.Expect("completed"); err != nil {
					t.Fatalf("%v\n%s", err, r)
				}
				return r
			}
			run(test.spoil)
			checkLost(t, s, run("seq 100001 500000"), test.why)
			run(test.fix)
			r := run("seq 100001 300000")
			if got := r.Header("Cursor"); got != "1400000" || r.Header("Dropped") != "" {
				t.Errorf("with room again: cursor %s, dropped %q", got, r.Header("Dropped"))
			}
			middle := s.do("check_job_status", "job_id", r.Header("Job ID"), "cursor", 140_000, "max_chars", 1000)
			if !strings.Contains(string(middle), "\n120001\n") {
				t.Errorf("the middle is not there:\n%s", middle)
			}
			if status := string(s.do("server_status")); strings.Contains(status, "Not written to disk: ") {
				t.Errorf("server_status:\n%s", status)
			}
		})
	}
}

// checkLost checks that a reply about 3 MB of output says that most was lost, and why.
func checkLost(t *testing.T, s *started, r client.Reply, why string) {
	t.Helper()
	if got := r.Header("Cursor"); got != "2800000" {
		t.Errorf("cursor %s", got)
	}
	if err := r.Expect("completed", "\n100001\n", "\n500000\n"); err != nil {
		t.Error(err)
	}
	lost, _, _ := strings.Cut(r.Header("Dropped"), " ")
	lost = strings.ReplaceAll(lost, ",", "")
	if n, err := strconv.Atoi(lost); err != nil || n < 1_500_000 {
		t.Errorf("%q of 3 MB are said to be lost", lost)
	}
	if note := r.Header("Note"); !strings.HasPrefix(note, lost+" bytes of output were lost: the disk") {
		t.Errorf("receipt: %q, lost are %s", note, lost)
	}
	if status := string(s.do("server_status")); !strings.Contains(status, "Not written to disk: ") || !strings.Contains(status, why) {
		t.Errorf("server_status does not say %q:\n%s", why, status)
	}
}

// All output is kept of more jobs with long output than a server has descriptors.
func TestLoadLongOutputWithFewDescriptors(t *testing.T) {
	if testing.Short() {
		t.Skip("runs 70 jobs with long output")
	}
	t.Parallel()
	s := prepare(t)
	s.under("ulimit -n 64")
	s.open()
	var ids []string
	for range 70 {
		r := s.do("execute_command_async", "command", "seq 10001 70000", "tty", false, "wait_seconds", 100)
		if err := r.Expect("completed"); err != nil {
			t.Fatalf("%v\n%s", err, r)
		}
		ids = append(ids, r.Header("Job ID"))
	}
	for _, id := range ids {
		r := s.do("check_job_status", "job_id", id, "cursor", 60_000)
		if !strings.Contains(string(r), "\n20001\n") || r.Header("Dropped") != "" || !strings.HasSuffix(r.Header("Omitted"), "..360000)") {
			t.Fatalf("not all is kept:\n%.500s", r)
		}
	}
}

// REPL_MAX_STATE bounds the output of all jobs together. The job whose output made room says so.
func TestLimitOfAllOutput(t *testing.T) {
	t.Parallel()
	s := startServer(t, "REPL_MAX_STATE=2MiB")
	run := func() string {
		t.Helper()
		r := s.do("execute_command_async", "command", "seq 100001 300000", "tty", false, "wait_seconds", 100)
		if err := r.Expect("completed"); err != nil || r.Header("Dropped") != "" {
			t.Fatalf("%v\n%.500s", err, r)
		}
		return r.Header("Job ID")
	}
	first, second := run(), run()
	r := s.do("check_job_status", "job_id", first)
	// The newest 4 KiB stay in memory.
	if got := r.Header("Dropped"); !strings.HasPrefix(got, "1,395,904 bytes ") || !strings.Contains(got, "REPL_MAX_STATE") {
		t.Errorf("of the first: %q", got)
	}
	if !strings.Contains(string(r), "\n300000\n") {
		t.Errorf("the newest are gone, too:\n%.500s", r)
	}
	if r := s.do("check_job_status", "job_id", second); r.Header("Dropped") != "" {
		t.Errorf("of the second: %q", r.Header("Dropped"))
	}
}
