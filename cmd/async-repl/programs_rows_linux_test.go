package main

import "strings"

// programEnv is in the environment of the programs.
var programEnv = []string{
	"LC_ALL=C.UTF-8", "MANPAGER=less", "LESS=", "INPUTRC=/dev/null", "npm_config_update_notifier=false",
	"GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_COMMITTER_NAME=a", "EMAIL=a@example.org",
}

// programFiles are in the workspace of the programs.
var programFiles = map[string]string{
	"text":    strings.Repeat("a line of text\n", 200),
	"page.1":  ".TH PAGE 1\n.SH NAME\npage \\- a page\n" + strings.Repeat(".SH SECTION\nSome text.\n", 50),
	"step.py": "x = 1\ny = 2\nprint(x + y)\n",
	"step.js": "let x = 1\nlet y = 2\nconsole.log(x + y)\n",
	"beside.py": `import os, sys, threading, time
def work():
    os.nice(19)
    while True:
        if sys.argv[1] == "prints":
            print("tick", flush=True)
            time.sleep(float(sys.argv[2]))
threading.Thread(target=work, daemon=True).start()
input("go on? ")
`,
	"polls.py": `import select, sys, time
while not select.select([0], [], [], 0.1)[0]:
    if sys.argv[1] == "prints":
        print("tick", flush=True)
`,
	"status": "Package: example\nStatus: install ok installed\nArchitecture: all\nVersion: 1\nMaintainer: a <a@example.org>\nDescription: an example\n",
	"conffile.sh": `set -e
for v in 1 2; do
  mkdir -p pkg/DEBIAN pkg/etc
  printf 'Package: example\nVersion: %s\nArchitecture: all\nMaintainer: a <a@example.org>\nDescription: an example\n' $v >pkg/DEBIAN/control
  echo /etc/example.conf >pkg/DEBIAN/conffiles
  echo "version=$v" >pkg/etc/example.conf
  dpkg-deb --build pkg example$v.deb >/dev/null
done
mkdir -p admin/info admin/updates instdir
: >admin/status; : >admin/available
run() { dpkg --force-not-root --force-bad-path --admindir=admin --instdir=instdir --log=/dev/null "$@"; }
run -i example1.deb >/dev/null
echo mine >instdir/etc/example.conf
run -i example2.deb
`,
	"uninstall.sh": `set -e
pip=$(python3 -c 'import os, pip; print(os.path.dirname(os.path.dirname(pip.__file__)))')
python3 -m venv --without-pip v
d=$(echo v/lib/python3*/site-packages)/example-1.dist-info
mkdir $d
printf 'Metadata-Version: 2.1\nName: example\nVersion: 1\n' >$d/METADATA
echo example-1.dist-info/METADATA,, >$d/RECORD
PYTHONPATH=$pip v/bin/python -m pip uninstall example
`,
	"agent.sh": `set -e
mkdir -m 700 gnupg
echo "pinentry-program $(command -v pinentry-curses)" >gnupg/gpg-agent.conf
export GNUPGHOME=$PWD/gnupg
gpg -q --batch --pinentry-mode loopback --passphrase secret --quick-gen-key a@example.org ed25519 sign never
gpg-connect-agent reloadagent /bye # which forgets the passphrase
`,
	"gitadd.sh": "set -e\ngit init -q repo; cd repo; echo a >f; git add f; git commit -qm a; echo b >>f; git add -p\n",
	"slow.py": `import socket, subprocess, sys, threading, time, urllib.request
s = socket.create_server(("127.0.0.1", 0))
def serve(c):
    c.recv(10000)
    c.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
    while True:
        c.sendall(b"x" * 1000)
        time.sleep(0.05)
def accept():
    while True:
        threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
threading.Thread(target=accept, daemon=True).start()
print("ready", flush=True)
at = "http://127.0.0.1:%d/" % s.getsockname()[1]
if sys.argv[1] == "urllib":
    urllib.request.urlopen(at).read()
else:
    subprocess.run(["curl", "-o", "/dev/null", at])
`,
	"Makefile": "all: a b\na b:\n\t@echo ready; sleep 1000\n",
	"big.c":    "#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nint main(void) { return 0; }\n",
	"select.sh": `PS3="which? "
select x in apple pear; do echo "$x"; break; done
`,
	"questions.py": `import questionary
print(questionary.select("Which?", choices=["apple", "pear"]).ask())
`,
	"ask.js": `const r = require("readline").createInterface(process.stdin, process.stdout)
r.question("name? ", () => r.close())
`,
	"clack.js": `import(require.resolve("@clack/prompts")).then(({ text }) => text({ message: "name?" }))
`,
	"key.js": `process.stdin.setRawMode(true).on("data", () => process.exit())
process.stdout.write("key? ")
`,
	"pool.py": `import concurrent.futures, sys
if __name__ == "__main__":
    pool = getattr(concurrent.futures, sys.argv[1])(2)
    list(pool.map(abs, [1, 2]))
    input("name? ")
`,
	"serves.py": `import http.server, threading
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
input("go on? ")
`,
	"window.py": "import curses\ncurses.wrapper(lambda w: (w.addstr('press a key'), w.getch()))\n",
	"raw.py":    "import tty, sys\ntty.setraw(0)\nsys.stdout.write('raw> ')\nsys.stdout.flush()\nsys.stdin.read(1)\n",
}

// programChecks are the commands that report whether something is installed that is no command.
var programChecks = map[string]string{
	"perl5db.pl":  `perl -e 'exit !grep { -e "$_/perl5db.pl" } @INC'`,
	"agent":       `command -v gpg-agent && command -v pinentry-curses && command -v gpg`,
	"ipython":     `"$(head -1 "$(command -v ipython)" | cut -c 3-)" -c 'import IPython'`, // that user may run
	"node":        `node -e 0`,
	"clack":       `node -e 'require.resolve("@clack/prompts")'`, // in NODE_PATH
	"questionary": `python3 -c 'import questionary'`,
	"setuid":      `grep -q 'NoNewPrivs:.*0' /proc/self/status`,
	"python3-pip": `python3 -c 'import pip, venv'`,
}

// programs are the rows of TestPrograms.
var programs = append(waitingPrograms, workingPrograms...)

var waitingPrograms = []program{
	// REPLs.
	{name: "python", needs: "python3", command: `python3 -q`, asks: []question{ask("key", ">>> ", "exit()\n")}},
	{name: "python -m asyncio", needs: "python3", command: `python3 -m asyncio`,
		asks: []question{ask("key", ">>> ", "exit()\n")}},
	{name: "ipython", needs: "ipython", command: `ipython --no-banner --no-confirm-exit`,
		asks: []question{ask("key", "In [1]: ", "exit\n")}},
	{name: "node", needs: "node", command: `node`, asks: []question{ask("key", "> ", ".exit\n")}},
	{name: "erl", needs: "erl", command: `erl`, asks: []question{ask("key", "1> ", "halt().\n")}},
	{name: "sqlite3", needs: "sqlite3", command: `sqlite3`, asks: []question{ask("key", "sqlite> ", ".exit\n")}},
	{name: "redis-cli", needs: "redis-cli", command: `redis-cli -p 1`, // there is no server at this port
		asks: []question{ask("key", "not connected> ", "quit\n")}},
	{name: "bc", needs: "bc", command: `bc -q`, asks: []question{ask("key", "", "quit\n")}},
	{name: "dc", needs: "dc", command: `dc`, asks: []question{{"line", "", []any{"eof", true}}}},
	{name: "lua", needs: "lua5.4", command: `lua5.4`, asks: []question{ask("key", "> ", "os.exit()\n")}},
	{name: "tclsh", needs: "tclsh", command: `tclsh`, asks: []question{ask("line", "% ", "exit\n")}},
	{name: "bash", needs: "bash", command: `PS1="$ " bash --norc -i`,
		asks: []question{ask("key", "$ ", "exit 0\n")}},
	{name: "dash", needs: "dash", command: `PS1="$ " dash -i`, asks: []question{ask("line", "$ ", "exit 0\n")}},
	{name: "ed", needs: "ed", command: `ed -p '* '`, asks: []question{ask("line", "* ", "q\n")}},
	// Editors.
	{name: "vi", needs: "vi", command: `vi new.txt`, asks: []question{ask("key", "", ":q!\n")}},
	{name: "nvim", needs: "nvim", command: `nvim ../text`, asks: []question{press("key", "", ":", "q", "enter")}},
	{name: "emacs", needs: "emacs", command: `emacs -nw -Q ../text`, asks: []question{press("key", "", "ctrl-x", "ctrl-c")}},
	{name: "nano", needs: "nano", command: `nano new.txt`, asks: []question{press("key", "", "ctrl-x")}},
	{name: "git commit", needs: "git vi", command: `git init -q; GIT_EDITOR=vi git commit --allow-empty`, ends: "failed (exit 1)",
		asks: []question{ask("key", "", ":q!\n")}},
	{name: "git rebase -i", needs: "git vi", command: `git init -q; git commit -q --allow-empty -m a; GIT_EDITOR=vi git rebase -q -i --root`,
		asks: []question{ask("key", "", ":q!\n")}},
	// Pagers.
	{name: "less", needs: "less", command: `less ../text`, asks: []question{press("key", "", "q")}},
	{name: "more", needs: "more", command: `more ../text`, asks: []question{press("key", "--More--…", "q")}},
	{name: "man", needs: "man less", command: `man -l ../page.1`, asks: []question{press("key", "", "q")}},
	{name: "top", needs: "top", command: `top`, asks: []question{press("key", "", "q")}},
	{name: "git diff", needs: "git less", command: `GIT_PAGER=less git diff --no-index ../step.py ../text; true`,
		asks: []question{press("key", "", "q")}},
	// Menus.
	{name: "dialog", needs: "dialog", command: `dialog --yesno "Go on?" 7 30`,
		asks: []question{press("key", "", "enter")}},
	{name: "whiptail", needs: "whiptail", command: `whiptail --yesno "Go on?" 7 30`,
		asks: []question{press("key", "", "enter")}},
	{name: "select", needs: "bash", command: `bash ../select.sh`, asks: []question{ask("line", "which? ", "1\n")}},
	{name: "fzf", needs: "fzf", command: `printf 'apple\npear\n' | fzf`, ends: "failed (exit 130)",
		asks: []question{press("key", "", "ctrl-c")}},
	{name: "questionary", needs: "python3 questionary", command: `python3 ../questions.py`,
		asks: []question{press("key", "? Which? (Use arrow keys)", "enter")}},
	{name: "clack", needs: "node clack", command: `node ../clack.js`, asks: []question{ask("key", "", "joe\n")}},
	{name: "curses", needs: "python3", command: `python3 ../window.py`, asks: []question{press("key", "", "x")}},
	// Debuggers.
	{name: "gdb", needs: "gdb", command: `gdb -q -nx`, asks: []question{ask("key", "(gdb) ", "quit\n")}},
	{name: "gdb of a stopped program", needs: "gdb", command: `gdb -q -nx -ex starti sleep`,
		asks: []question{ask("key", "(gdb) ", "kill\n"), ask("key", "Kill the program being debugged? (y or n) ", "y\n"), ask("key", "(gdb) ", "quit\n")}},
	{name: "pdb", needs: "python3", command: `python3 -m pdb ../step.py`,
		asks: []question{ask("key", "(Pdb) ", "q\n")}},
	{name: "breakpoint()", needs: "python3", command: `python3 -c 'breakpoint()'`, ends: "failed (exit 1)",
		asks: []question{ask("key", "(Pdb) ", "q\n")}},
	{name: "gdb -tui", needs: "gdb", command: `gdb -q -nx -tui`, asks: []question{ask("key", "", "quit\n")}},
	{name: "perl -d", needs: "perl perl5db.pl", command: `perl -de 1`,
		asks: []question{ask("line", "  DB<1> ", "q\n")}},
	// Questions of package managers.
	{name: "apt-get", needs: "apt-get", command: `mkdir -p archives/partial; apt-get -o Dir::Cache="$PWD" -o Debug::NoLocking=1 -o Dir::State::status="$PWD/../status" -o Dir::State::lists="$PWD" remove example; true`,
		asks: []question{ask("line", "Do you want to continue? [Y/n] ", "n\n")}},
	{name: "dpkg, a changed file", needs: "dpkg dpkg-deb", command: `PATH=$PATH:/sbin:/usr/sbin bash ../conffile.sh`,
		asks: []question{ask("line", "*** example.conf (Y/I/N/O/D/Z) [default=N] ? ", "n\n")}},
	{name: "npm init", needs: "npm node", command: `mkdir init && cd init && npm init`,
		asks: []question{press("key", "package name: (init) ", "ctrl-c")}},
	{name: "pip uninstall", needs: "python3 python3-pip", command: `bash ../uninstall.sh`,
		asks: []question{ask("line", "Proceed (Y/n)? ", "n\n")}},
	// Passwords and keys.
	{name: "ssh-keygen", needs: "ssh-keygen", command: `ssh-keygen -t ed25519 -f key`,
		asks: []question{ask("secret", "Enter passphrase …(empty for no passphrase): ", "\n"), ask("secret", "Enter same passphrase again: ", "\n")}},
	{name: "openssl", needs: "openssl", command: `openssl genpkey -algorithm ed25519 -aes256 -out pem`,
		asks: []question{ask("secret", "Enter PEM pass phrase:", "secret\n"), ask("secret", "Verifying - Enter PEM pass phrase:", "secret\n")}},
	{name: "gpg", needs: "gpg", command: `mkdir -m 700 g; gpg --homedir g --no-autostart --import; true`,
		asks: []question{{"line", "", []any{"eof", true}}}},
	{name: "pinentry of an agent outside the job", needs: "agent", command: `export GNUPGHOME="$PWD/../gnupg" GPG_TTY=$(tty); gpg -q --pinentry-mode ask --sign -o signed ../text`,
		asks: []question{ask("key", "", "secret\n")}},
	{name: "passwd", needs: "passwd", command: `passwd`, by: root,
		asks: []question{ask("secret", "New password: ", "")}},
	{name: "passwd as a user", needs: "passwd setuid", command: `passwd`, by: ordinary,
		asks: []question{ask("secret", "Current password: ", "")}},
	{name: "su", needs: "su setuid", command: `su`, by: ordinary,
		asks: []question{ask("secret", "Password: ", "")}},
	{name: "getpass", needs: "python3", command: `python3 -c 'import getpass; getpass.getpass()'`,
		asks: []question{ask("secret", "Password: ", "x\n")}},
	{name: "ssh-keygen -y", needs: "ssh-keygen", command: `ssh-keygen -q -t ed25519 -N secret -f key; ssh-keygen -y -f key`,
		asks: []question{ask("secret", "Enter passphrase…: ", "secret\n")}},
	{name: "curl -u", needs: "curl", command: `curl -u user http://127.0.0.1:9/; true`,
		asks: []question{ask("secret", "Enter host password for user 'user':", "secret\n")}},
	{name: "git credential", needs: "git", command: `printf 'protocol=http\nhost=example.org\n\n' | git credential fill`,
		asks: []question{ask("line", "Username for 'http://example.org': ", "a\n"), ask("secret", "Password for 'http://a@example.org': ", "secret\n")}},
	{name: "chsh", needs: "chsh", command: `chsh`, by: root,
		asks: []question{ask("line", `\tLogin Shell […]: `, "")}},
	// Questions of shells and small programs.
	{name: "read", needs: "bash", command: `bash -c 'read x'`, asks: []question{ask("line", "", "\n")}},
	{name: "read -p", needs: "bash", command: `bash -c 'read -p "name? " x'`,
		asks: []question{ask("line", "name? ", "a\n")}},
	{name: "read -s", needs: "bash", command: `bash -c 'read -sp "code? " x'`,
		asks: []question{ask("secret", "code? ", "a\n")}},
	{name: "read -n1", needs: "bash", command: `bash -c 'read -n1 -p "[y/n] " x'`,
		asks: []question{press("key", "[y/n] ", "y")}},
	{name: "read -e", needs: "bash", command: `bash -c 'read -ep "name? " x'`,
		asks: []question{ask("key", "name? ", "a\n")}},
	{name: "read -t", needs: "bash", command: `bash -c 'read -t 1000 -p "soon? " x'`,
		asks: []question{ask("line", "soon? ", "a\n")}},
	{name: "read -t, again and again", needs: "bash", command: `bash -c 'until read -t 0.2 x; do :; done'`,
		asks: []question{ask("line", "", "a\n")}},
	{name: "rm -i", needs: "rm", command: `: >old; rm -i old`,
		asks: []question{ask("line", "rm: remove regular empty file 'old'? ", "y\n")}},
	{name: "cp -i", needs: "cp", command: `cp ../text copy; cp -i ../text copy`,
		asks: []question{ask("line", "cp: overwrite 'copy'? ", "y\n")}},
	{name: "mv -i", needs: "mv", command: `: >a; : >b; mv -i a b`,
		asks: []question{ask("line", "mv: overwrite 'b'? ", "y\n")}},
	{name: "xargs -p", needs: "xargs", command: `echo a | xargs -p echo`,
		asks: []question{ask("line", "echo a…?...", "y\n")}},
	{name: "find -ok", needs: "find", command: `find ../step.py -ok echo {} \;`,
		asks: []question{ask("line", "< echo ... ../step.py > ? ", "y\n")}},
	{name: "patch", needs: "patch", command: `printf -- '--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n' | patch`,
		asks: []question{ask("line", "File to patch: ", "")}},
	{name: "sort", needs: "sort", command: `sort`, asks: []question{{"line", "", []any{"eof", true}}}},
	{name: "cat", needs: "cat", command: `cat`, asks: []question{{"line", "", []any{"eof", true}}}},
	{name: "cat into a pipe", needs: "cat tr", command: `cat | tr a b`,
		asks: []question{{"line", "", []any{"eof", true}}}},
	{name: "git add -p", needs: "git", command: `bash ../gitadd.sh`,
		asks: []question{ask("line", "(1/1) Stage this hunk […]? ", "q\n")}},
	{name: "input()", needs: "python3", command: `python3 -c 'input("name? ")'`,
		asks: []question{ask("line", "name? ", "a\n")}},
	{name: "perl <STDIN>", needs: "perl", command: `perl -e '$| = 1; print "name? "; <STDIN>'`,
		asks: []question{ask("line", "name? ", "a\n")}},
	{name: "input() beside idle threads", needs: "python3", command: `python3 ../pool.py ThreadPoolExecutor`,
		asks: []question{ask("line", "name? ", "a\n")}},
	{name: "input() beside idle processes", needs: "python3", command: `python3 ../pool.py ProcessPoolExecutor`,
		asks: []question{ask("line", "name? ", "a\n")}},
	{name: "input() beside a sleeping child", needs: "bash", command: `sleep 1000 & read -p "name? " x; kill $!`,
		asks: []question{ask("line", "name? ", "a\n")}},
	{name: "a question of a child", needs: "python3 bash", command: `python3 -c 'import subprocess; subprocess.run(["bash", "-c", "read -p \"name? \" x"])'`,
		asks: []question{ask("line", "name? ", "a\n")}},
	{name: "a raw terminal", needs: "python3", command: `python3 ../raw.py`,
		asks: []question{press("key", "raw> ", "x")}},
	{name: "script", needs: "script bash", command: `script -qc "bash -c 'read -p \"name? \" x'" /dev/null`,
		asks: []question{ask("key", "name? ", "a\n")}},
	{name: "pty.spawn", needs: "python3 bash", command: `python3 -c 'import pty; pty.spawn(["bash", "-c", "read -p \"name? \" x"])'`,
		asks: []question{ask("key", "name? ", "a\n")}},
	{name: "a poll loop that is silent", needs: "python3", command: `python3 ../polls.py silent`,
		asks: []question{ask("line", "", "a\n")}},
	{name: "node readline", needs: "node", command: `node ../ask.js`,
		asks: []question{ask("key", "name? ", "a\n")}},
	{name: "node beside a silent timer", needs: "node", command: `node -e 'setInterval(() => 0, 100); require("../ask.js")'`,
		asks: []question{ask("key", "name? ", "")}},
	{name: "node, a key", needs: "node", command: `node ../key.js`, asks: []question{press("key", "key? ", "x")}},
	// Pipes.
	{name: "cat of a pipe", needs: "cat", command: `cat`, pipes: true,
		asks: []question{{"line", "", []any{"eof", true}}}},
	{name: "input() of a pipe", needs: "python3", command: `python3 -c 'input("name? ")'`, pipes: true,
		asks: []question{ask("line", "name? ", "a\n")}},
	{name: "bc of a pipe", needs: "bc", command: `bc`, pipes: true, asks: []question{ask("line", "", "quit\n")}},
}

var workingPrograms = []program{
	// Servers.
	{name: "http.server", needs: "python3", command: `python3 -u -m http.server --bind 127.0.0.1 0`,
		ready: "Serving HTTP"},
	{name: "http.server on pipes", needs: "python3", command: `python3 -u -m http.server --bind 127.0.0.1 0`,
		ready: "Serving HTTP", pipes: true},
	{name: "node http", needs: "node", command: `node -e 'require("http").createServer().listen(0, "127.0.0.1", () => console.log("ready"))'`,
		ready: "ready"},
	{name: "a server beside a reader", needs: "python3", command: `python3 ../serves.py`,
		ready: "go on?", accepts: "line, read by python3"},
	{name: "a ticker beside a reader", needs: "python3", command: `python3 ../beside.py prints 0.1`,
		ready: "tick", late: true, accepts: "line, read by python3"},
	{name: "a slow ticker beside a reader", needs: "python3", command: `python3 ../beside.py prints 0.5`,
		ready: "tick", late: true, accepts: "line, read by python3"},
	{name: "a computation beside a reader", needs: "python3", command: `python3 ../beside.py computes`,
		ready: "go on?", accepts: "line, read by python3"},
	{name: "nc -l", needs: "nc", command: `nc -lU socket`},
	{name: "socat", needs: "socat", command: `socat UNIX-LISTEN:listens -`},
	// Timers.
	{name: "sleep", needs: "sleep", command: `sleep 1000`},
	{name: "setTimeout", needs: "node", command: `node -e 'setTimeout(() => 0, 1e6); console.log("ready")'`,
		ready: "ready"},
	{name: "asyncio.sleep", needs: "python3", command: `python3 -c 'import asyncio; print("ready", flush=True); asyncio.run(asyncio.sleep(1000))'`,
		ready: "ready"},
	{name: "watch", needs: "watch", command: `watch -n 0.3 date +%N`,
		ready: "Every", accepts: perhaps}, // newer ones read keys,
	{name: "top -b", needs: "top", command: `top -b -d 0.5`, ready: "PID"},
	{name: "vmstat", needs: "vmstat", command: `vmstat 1`, ready: "swpd"},
	{name: "pause", needs: "python3", command: `python3 -c 'import signal; print("ready", flush=True); signal.pause()'`,
		ready: "ready"},
	// Locks.
	{name: "flock", needs: "flock", command: `exec 9>lock; flock 9; flock lock true`},
	{name: "a mutex", needs: "python3", command: `python3 -c 'import threading; l = threading.Lock(); l.acquire(); print("ready", flush=True); l.acquire()'`,
		ready: "ready"},
	{name: "a locked database", needs: "sqlite3", command: `sqlite3 db "create table t(a)"; (echo "begin exclusive;"; echo "select 'ready';"; sleep 1000) | sqlite3 db &
sleep 1; sqlite3 -cmd ".timeout 1000000" db "insert into t values(1)"`, ready: "ready"},
	{name: "lockf", needs: "python3", command: `python3 -c 'import fcntl, os, time
f = open("lock2", "w")
fcntl.lockf(f, fcntl.LOCK_EX)
if os.fork(): os.wait()
print("ready", flush=True)
fcntl.lockf(f, fcntl.LOCK_EX)'`, ready: "ready"},
	// Pipes.
	{name: "tail -f", needs: "tail", command: `tail -f ../text`, ready: "a line"},
	{name: "cat of a fifo", needs: "cat mkfifo", command: `mkfifo f1; cat f1`},
	{name: "writing a fifo", needs: "mkfifo", command: `mkfifo f2; echo a >f2`},
	{name: "a pipe from a sleep", needs: "cat", command: `sleep 1000 | cat`},
	{name: "a pipe that is full", needs: "yes", command: `yes | sleep 1000`},
	{name: "xargs of a pipe", needs: "xargs", command: `sleep 1000 | xargs echo`},
	// Watchers.
	{name: "inotifywait", needs: "inotifywait", command: `inotifywait -q -e delete .`},
	{name: "tail -F", needs: "tail", command: `tail -F none`, ready: "none"},
	{name: "fs.watch", needs: "node", command: `node -e 'require("fs").watch("."); console.log("ready")'`,
		ready: "ready"},
	{name: "node --watch", needs: "node", command: `echo 'console.log("ready")' >watched.js; node --watch watched.js`,
		ready: "ready"},
	{name: "less +F", needs: "less", command: `less +F ../text`, ready: "a line"},
	// Work.
	{name: "a compiler", needs: "gcc", command: `while nice gcc -O2 -c -o big.o ../big.c; do :; done`},
	{name: "a computation", needs: "python3", command: `exec nice -n 19 python3 -c 'while True: pass'`},
	{name: "make -j", needs: "make", command: `make -j2 -f ../Makefile`, ready: "ready"},
	{name: "a download", needs: "python3", command: `python3 ../slow.py urllib`, ready: "ready"},
	{name: "a download by curl", needs: "curl python3", command: `python3 ../slow.py curl`, ready: "ready"},
	{name: "children", needs: "bash", command: `bash -c 'sleep 1000 & sleep 1000 & wait'`},
	{name: "join", needs: "python3", command: `python3 -c 'import multiprocessing as m, time
p = m.Process(target=time.sleep, args=(1000,))
p.start()
print("ready", flush=True)
p.join()'`, ready: "ready"},
	{name: "gdb of a running program", needs: "gdb", command: `gdb -q -nx -ex run --args sleep 1000`, ready: "Starting"},
	{name: "child_process", needs: "node", command: `node -e 'require("child_process").spawn("sleep", [1000]); console.log("ready")'`,
		ready: "ready"},
	// Readers that do not wait.
	{name: "a loop that prints", needs: "python3", command: `python3 ../polls.py prints`,
		ready: "tick", accepts: "line, read by python3"},
	{name: "script of a program that works", needs: "script", command: `script -qc "while sleep 0.1; do :; done" /dev/null`, accepts: "key, read by script"},
	{name: "script of a program that reads nothing", needs: "script", command: `script -qc "sleep 1000" /dev/null`, accepts: "key, read by script"},
	{name: "read -t, and print", needs: "bash", command: `bash -c 'until read -t 0.1 x; do echo -n .; done'`,
		ready: "..", accepts: "line, read by bash"},
	{name: "jest --watchAll", needs: "node jest", command: `echo '{}' >package.json; echo 'test("x", () => {})' >x.test.js; jest --watchAll`,
		ready: "Press q", accepts: "key, read by node", by: ordinary}, // once: it takes seconds of a processor to start
	{name: "vitest", needs: "node vitest", command: `echo 'test("x", () => {})' >x.test.js; vitest --globals`,
		ready: "Waiting for file changes", accepts: "key, read by node", by: ordinary},
	{name: "bash with a job in the background", needs: "bash", command: `PROMPT_COMMAND='[ "$!" ] || sleep 1000 &' bash --norc -i`,
		ready: "bash-", accepts: "key, read by bash"},
	{name: "node inspect", needs: "node", command: `node inspect --port=0 ../step.js`,
		ready: "debug>", accepts: "key, read by node"}, // its child listens
	{name: "a background reader", needs: "cat", command: `set -m; cat & wait; sleep 1000`, stopped: "cat"},
	{name: "timeout", needs: "timeout cat", command: `timeout 1000 cat; true`, stopped: "cat"},
}
