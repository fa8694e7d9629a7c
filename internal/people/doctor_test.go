//go:build unix

package people

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/test/must"
)

// The doctor tries a server and asks all engines. It exits with 1 if something does not work.
func TestDoctor(t *testing.T) {
	w, s := serving(t)
	w.own = func() (*client.Client, io.Closer, error) {
		conn, err := s.records(t.Context())
		return client.New(conn, conn), conn, err
	}
	got := w.run("doctor")
	for _, want := range []string{
		"ok     job: a shell command runs\n", "ok     server: guard (pid ", "ok     sockets: commands reach engines in " + w.place + "\n",
		"ok     client: jobs can outlive the client that started them\n", "ok     state directory: ",
		"ok     sandbox: it can start; REPL_SANDBOX=workspace sets it\n",
		"fails  server: jobs have no program pip of their own", // the engine of this test has none
	} {
		if !strings.Contains(got.out, want) {
			t.Errorf("it does not say %q:\n%s", want, got.out)
		}
	}
	if got.code != 1 || got.err != "" || strings.Count(got.out, "fails") != 1 {
		t.Errorf("exit %d, %q:\n%s", got.code, got.err, got.out)
	}
	w.confined = errors.New("no namespaces: allow them by these lines\none\ntwo")
	w.run("doctor").expect(t, "~\nnote   sandbox: no namespaces: allow them by these lines (async-repl sandbox check prints them)\n", "", 1)
	s.welcomes(func(w *sockets.Welcome) { w.Lone = true })
	w.run("doctor").expect(t, "~\nnote   client: jobs end with the client that started them", "", 1)
	s.welcomes(func(w *sockets.Welcome) { w.PID++ }) // another engine than the one that is tried
	w.run("doctor").expect(t, "~\nfails  sockets: no command reaches the engine that was tried\n", "", 1)
	w.run("doctor").expect(t, fmt.Sprintf("~\nok     engine: process %d answers, version test\n", os.Getpid()+1), "", 1)
	s.stop()
	must.Do(t, os.Chmod(w.place, 0o755))
	w.own = func() (*client.Client, io.Closer, error) { return nil, nil, errors.New("it can't be started") }
	got = w.run("doctor")
	if want := "fails  server: it can't be started\nnote   sandbox: no namespaces: allow them by these lines (async-repl sandbox check prints them)\nfails  engine: " + w.place + " belongs to user "; got.code != 1 || !strings.HasPrefix(got.out, want) {
		t.Errorf("exit %d, got:\n%s\nwant:\n%s", got.code, got.out, want)
	}
	must.Do(t, os.Chmod(w.place, 0o700))
}

// What a logout ends depends on the control group, the directory of the sockets and the settings of
// systemd.
func TestDoctorSaysWhatALogoutEnds(t *testing.T) {
	t.Parallel()
	const uid, manager, session = 4_000_000_000, "0::/user.slice/user-4000000000.slice/user@4000000000.service/app.slice/x.scope\n", "0::/user.slice/user-4000000000.slice/session-3.scope\n"
	const place, enable = "/run/user/4000000000/async-repl", "loginctl enable-linger 4000000000 prevents that"
	for name, tt := range map[string]struct {
		files map[string]string
		want  string
	}{
		"the user's manager": {map[string]string{"proc/self/cgroup": manager}, "note GROUP ends with your last login, and jobs with it: " + enable},
		"it lingers":         {map[string]string{"proc/self/cgroup": manager, "var/lib/systemd/linger/4000000000": ""}, "ok GROUP does not end with a login"},
		"a session":          {map[string]string{"proc/self/cgroup": session}, "ok GROUP does not end with a login, as most systems are built; KillUserProcesses=no in /etc/systemd/logind.conf makes it sure"},
		"a session that is killed": {map[string]string{"proc/self/cgroup": session, "etc/systemd/logind.conf": "[Login]\nKillUserProcesses=yes\n"},
			"note GROUP ends with its login, and jobs with it (KillUserProcesses=yes in /etc/systemd/logind.conf): " + enable},
		"a drop-in decides": {map[string]string{"proc/self/cgroup": session, "etc/systemd/logind.conf": "KillUserProcesses=yes\n", "usr/lib/systemd/logind.conf.d/50.conf": "KillUserProcesses=no\n",
			"run/systemd/logind.conf.d/40.conf": "KillUserProcesses=1\n"}, "ok GROUP does not end with a login"},
		"a drop-in is replaced": {map[string]string{"proc/self/cgroup": session, "etc/systemd/logind.conf.d/50.conf": "KillUserProcesses=on\n", "usr/lib/systemd/logind.conf.d/50.conf": "KillUserProcesses=no\n"},
			"note GROUP ends with its login, and jobs with it (KillUserProcesses=yes in /etc/systemd/logind.conf.d/50.conf): " + enable},
		"a comment":  {map[string]string{"proc/self/cgroup": session, "etc/systemd/logind.conf": "#KillUserProcesses=yes\n"}, "ok GROUP does not end with a login, as most systems are built; KillUserProcesses=no in /etc/systemd/logind.conf makes it sure"},
		"a service":  {map[string]string{"proc/self/cgroup": "1:name=systemd:/x\n0::/system.slice/ssh.service\n"}, "ok GROUP does not end with a login"},
		"no systemd": {map[string]string{"proc/self/cgroup": "9:name=systemd:/\n"}, "ok this system has none that a login could end"},
		"no groups":  {nil, "ok this system has none that a login could end"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, text := range tt.files {
				must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o700))
				must.Do(t, os.WriteFile(filepath.Join(root, file), []byte(text), 0o600))
			}
			var all []string
			atLogout(root, uid, place, func(state, what, text string) { all = append(all, state+" "+text) })
			got := regexp.MustCompile(`/(user|system)\.slice[^\s:]*`).ReplaceAllString(all[0], "GROUP")
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			state := mind
			if _, lingers := tt.files["var/lib/systemd/linger/4000000000"]; lingers {
				state = works
			}
			if len(all) != 2 || !strings.HasPrefix(all[1], state+" "+place) {
				t.Errorf("the directory of the sockets: %q", all[1:])
			}
		})
	}
	atLogout(t.TempDir(), uid, "/tmp/async-repl-4000000000", func(state, what, text string) {
		if what == "directory of the sockets" && (state != works || text != "/tmp/async-repl-4000000000 stays after a logout") {
			t.Errorf("%s: %s", state, text)
		}
	})
}
