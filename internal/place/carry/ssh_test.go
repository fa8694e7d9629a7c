//go:build linux

package carry

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/sshdtest"
)

func TestSSH(t *testing.T) {
	t.Parallel()
	server := sshdtest.Start(t)
	s := Spec{Argv: SSH(server.Args()), Program: large(t, 40), Workspace: filepath.Join(server.Home, "it's new"), Setup: "echo ready >&2"}
	for range 2 {
		p, g := opened(t, s)
		if g.Machine != s.Workspace || g.Boot != filepath.Join(server.Home, ".cache/async-repl/bin") {
			t.Errorf("the greeting is %+v", g)
		}
		checkEcho(t, p, 5<<20)
	}
	p, _ := opened(t, s)
	server.Drop(t)
	if n, err := p.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("after the end of the connection: %d, %v", n, err)
	}
}

func TestTwoCarryAtOnceOverSSH(t *testing.T) {
	t.Parallel()
	enterTwice(t, SSH(sshdtest.Start(t).Args()))
}

// A login shell can print, ask for a line and be of any kind.
func TestLoginShellPrints(t *testing.T) {
	t.Parallel()
	login := writeProgram(t, "echo 'Welcome to box'; echo 'No news' >&2; printf 'Press return'; read line; exec sh -c \"$SSH_ORIGINAL_COMMAND\"\n")
	server := sshdtest.Start(t, "ForceCommand "+login)
	p, _ := opened(t, Spec{Argv: SSH(server.Args()), Program: writeProgram(t, echoes)})
	checkEcho(t, p, 1<<20)
}

// A login shell that waits is given up, and what it has started ends with the server.
func TestLoginShellWaits(t *testing.T) {
	t.Parallel()
	server := sshdtest.Start(t, "ForceCommand "+writeProgram(t, "echo Password:; sleep 1000\n"))
	_, _, err := openWithin(t.Context(), Spec{Argv: SSH(server.Args()), Env: os.Environ(), Program: writeProgram(t, "")}, 2*time.Second)
	if failed, ok := err.(*Error); !ok || failed.Step != Reach || !strings.HasPrefix(failed.Text, "nothing came for ") || !strings.Contains(failed.Cure, "login shell there neither wait nor ask, and see what it does: ssh -F "+server.Config+" box") || failed.Final {
		t.Errorf("the error is %#v", err)
	}
}

// Each refusal of ssh and of a login shell has its cure, and those that a person must lift are final.
func TestSSHRefusals(t *testing.T) {
	t.Parallel()
	server := sshdtest.Start(t)
	password := sshdtest.Start(t, "PasswordAuthentication yes")
	prints := sshdtest.Start(t, "ForceCommand "+writeProgram(t, "echo 'This account is not available'; exit 1\n"))
	stranger := filepath.Join(t.TempDir(), "stranger")
	public := sshdtest.NewKey(t, stranger)
	open := filepath.Join(t.TempDir(), "open")
	must.Do(t, os.WriteFile(open, must.Get(os.ReadFile(server.Key))(t), 0o644))
	changed := filepath.Join(t.TempDir(), "changed")
	must.Do(t, os.WriteFile(changed, fmt.Appendf(nil, "[127.0.0.1]:%d %s", server.Port, public), 0o600))
	closed := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	port := closed.Addr().(*net.TCPAddr).Port
	closed.Close()

	for _, test := range []struct {
		name   string
		server *sshdtest.Server
		option string
		text   string
		cure   string
		final  bool
	}{
		{name: "unknown host", option: "HostName=no-such-host.invalid", text: "Could not resolve hostname no-such-host.invalid", cure: "name of the host"},
		{name: "refused port", option: fmt.Sprintf("Port=%d", port), text: "Connection refused", cure: "sshd runs there"},
		{name: "wrong key", option: "IdentityFile=" + stranger, text: "Permission denied (publickey)", cure: "ssh-copy-id installs one", final: true},
		{name: "a key that others can read", option: "IdentityFile=" + open, text: "bad permissions", cure: "chmod 600", final: true},
		{name: "password wanted", server: password, option: "IdentityFile=" + stranger, text: "Permission denied (publickey,password)", cure: "without questions", final: true},
		{name: "unknown key of the host", option: "UserKnownHostsFile=/dev/null", text: "Host key verification failed", cure: "accept it once by hand: ssh -o UserKnownHostsFile=/dev/null -F ", final: true},
		{name: "changed key of the host", option: "UserKnownHostsFile=" + changed, text: "Offending ED25519 key in " + changed, cure: "ssh-keygen -R", final: true},
		{name: "unknown option", option: "Nonsense=1", text: "nonsense", cure: "configuration of ssh", final: true},
		{name: "no login", server: prints, option: "Compression=no", text: "This account is not available", cure: "by hand: ssh"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			at := test.server
			if at == nil {
				at = server
			}
			// An option of the command line comes before the configuration, except for keys, of which ssh tries all.
			args := at.Args()
			if key, ok := strings.CutPrefix(test.option, "IdentityFile="); ok {
				config := filepath.Join(t.TempDir(), "config")
				text := strings.Replace(string(must.Get(os.ReadFile(at.Config))(t)), at.Key, key, 1)
				must.Do(t, os.WriteFile(config, []byte(text), 0o600))
				args = []string{"-F", config, sshdtest.Host}
			} else {
				args = append([]string{"-o", test.option}, args...)
			}
			err := refusedBy(t, t.Context(), Spec{Argv: SSH(args), Program: writeProgram(t, echoes)})
			if err.Step != Reach || !strings.Contains(err.Text, test.text) || !strings.Contains(err.Cure, test.cure) || err.Final != test.final {
				t.Errorf("got step %d, final %v: %v; want %q and %q", err.Step, err.Final, err, test.text, test.cure)
			}
		})
	}
}

// A server that has ended refuses, and when it is back it lets us in again.
func TestServerComesBack(t *testing.T) {
	t.Parallel()
	server := sshdtest.Start(t)
	s := Spec{Argv: SSH(server.Args()), Program: writeProgram(t, echoes)}
	p, _ := opened(t, s)
	server.Stop(t)
	if _, err := p.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("reading: %v", err)
	}
	if err := refusedBy(t, t.Context(), s); err.Step != Reach || err.Final {
		t.Errorf("it is refused by %+v", err)
	}
	server.Run(t)
	p, _ = opened(t, s)
	checkEcho(t, p, 100)
}
