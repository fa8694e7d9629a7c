package shell_test

import (
	"slices"
	"strings"
	"testing"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
	"asyncrepl/shell"
)

// A carried is a shell session of a bench.
type carried struct {
	*bench
	session *shell.Session
	shell   string
}

// inEachShell runs a test in a new session of each shell that is installed.
func inEachShell(t *testing.T, run func(t *testing.T, c carried)) {
	for _, name := range []string{"bash", "dash"} {
		t.Run(name, func(t *testing.T) {
			path := needtest.Program(t, name)
			b := newBench(t)
			run(t, carried{b, shell.NewSession("build", b.dir), path})
		})
	}
}

func (c carried) line(text string) shell.Line {
	env := []string{"PATH=/usr/bin:/bin", "HOME=/", "KEPT=1", "GONE=1"}
	return shell.Line{Owner: c.owner, Shell: c.shell, Text: text, Env: env, TTY: true}
}

func (c carried) start(t *testing.T, l shell.Line) *jobs.Job {
	t.Helper()
	return jobstest.Start(t, c.r, jobs.Spec{Kind: jobs.Shell, Session: "build", Title: l.Text}, c.session.Runner(l))
}

// run runs a line to its end and returns its output and receipt.
func (c carried) run(t *testing.T, l shell.Line) (string, jobs.Receipt) {
	t.Helper()
	j := c.start(t, l)
	record := jobstest.End(t, j)
	return strings.ReplaceAll(string(output.Tail(j.Log(), 1<<20)), "\r\n", "\n"), record.Receipt
}

// prints fails unless a line prints text and exits with 0.
func (c carried) prints(t *testing.T, line, text string) {
	t.Helper()
	if got, rec := c.run(t, c.line(line)); got != text || rec.Text() != "completed" {
		t.Errorf("%s prints %q, not %q, and is %s %q", line, got, text, rec.Text(), rec.Notes)
	}
}

func TestSessionCarries(t *testing.T) {
	t.Parallel()
	tests := map[string][]struct{ line, prints string }{
		"directory":         {{"mkdir 'a b' && cd 'a b'", ""}, {"basename \"$(pwd)\"", "a b\n"}},
		"directory of exit": {{"cd /; exit", ""}, {"pwd", "/\n"}},
		"link":              {{"mkdir real; ln -s real link; cd link", ""}, {"basename \"$PWD\"; cd ..; ls -1", "link\nlink\nreal\n"}},
		"last directory":    {{"cd /; cd /tmp", ""}, {"cd - >/dev/null; pwd", "/\n"}},
		"variables":         {{"export A='x\ny' KEPT=2; unset GONE", ""}, {"echo \"$A$KEPT${GONE-none}\"", "x\ny2none\n"}, {"echo \"$A\"; unset A", "x\ny\n"}, {"echo ${A-none}", "none\n"}},
		"umask":             {{"umask 027", ""}, {"umask", "0027\n"}, {"umask 022", ""}, {"umask", "0022\n"}},
		"options":           {{"set -u -f", ""}, {"echo *; (echo $none) 2>/dev/null || echo refused; set +u +f", "*\nrefused\n"}, {"echo $none", "\n"}},
		"errexit":           {{"set -e", ""}, {"echo a; (false; echo b) || :; set +e", "a\nb\n"}},
		"quotes":            {{`export A="it's $HOME"' "q" '\\`, ""}, {`printf '%s\n' "$A"`, `it's / "q" \` + "\n"}},
		"own trap":          {{"cd /; trap 'echo bye' EXIT", "bye\n"}, {"pwd", "/\n"}},
		"arguments":         {{"echo $#; set -- a b; cd /", "0\n"}, {"echo $#", "0\n"}},
		"descriptors":       {{"ls -1 /proc/self/fd", "0\n1\n2\n3\n"}, {"sh -c 'echo >&3' 2>/dev/null || echo closed", "closed\n"}},
		"odd names":         {{"env 'a.b=1' true; export A=; cd /", ""}, {"echo ${A-none}$PWD", "/\n"}},
		"here document":     {{"cat <<X\nhi\nX\n", "hi\n"}, {"cd / # comment", ""}, {"pwd", "/\n"}},
		"long":              {{": " + strings.Repeat("x", 200_000) + "\ncd /", ""}, {"pwd", "/\n"}},
	}
	inEachShell(t, func(t *testing.T, c carried) {
		for name, steps := range tests {
			t.Run(name, func(t *testing.T) {
				c := c
				c.dir = t.TempDir()
				c.session = shell.NewSession("build", c.dir)
				for _, step := range steps {
					c.prints(t, step.line, step.prints)
				}
			})
		}
	})
}

func TestSessionEnds(t *testing.T) {
	t.Parallel()
	const isNew = "shell session build is new; "
	const nothing = "shell session build carries nothing of this command: "
	const noReport = nothing + "its shell was replaced by exec, or left by exit with a trap of its own on EXIT"
	tests := map[string]struct{ line, status, note string }{
		"exit":          {"cd /; exit 3", "failed (exit 3)", isNew + "shell session build is in / now"},
		"false":         {"cd /; false", "failed (exit 1)", isNew + "shell session build is in / now"},
		"syntax":        {"cd /\nif", "failed (exit 2)", isNew + "shell session build is in / now"},
		"errexit":       {"cd /; set -e; false; true", "failed (exit 1)", isNew + "shell session build is in / now"},
		"exec":          {"cd /; exec true", "completed", noReport},
		"trap, exit":    {"cd /; trap : EXIT; exit", "completed", noReport},
		"trap, no exit": {"cd /; trap : EXIT; (exit 3)", "failed (exit 3)", isNew + "shell session build is in / now"},
		"killed":        {"cd /; kill -KILL $$", "failed (killed by SIGKILL)", nothing + "it was killed"},
		"terminated":    {"cd /; kill -TERM $$; sleep 60", "failed (killed by SIGTERM)", nothing + "it was killed"},
		"no directory":  {"mkdir x; cd x; rmdir ../x", "completed", ""},
	}
	inEachShell(t, func(t *testing.T, c carried) {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				c := c
				c.dir = t.TempDir()
				c.session = shell.NewSession("build", c.dir)
				_, rec := c.run(t, c.line(test.line))
				if got := strings.Join(rec.Notes, "; "); rec.Text() != test.status || test.note != "" && got != test.note {
					t.Errorf("%s is %s, with the notes %q", test.line, rec.Text(), rec.Notes)
				}
			})
		}
	})
}

func TestSessionRunsOneAtATime(t *testing.T) {
	t.Parallel()
	inEachShell(t, func(t *testing.T, c carried) {
		first := c.start(t, c.line("read x; cd /"))
		jobstest.Asks(t, first)
		withdrawn := c.start(t, c.line("cd /usr"))
		last := c.start(t, c.line("pwd"))
		withdrawn.Stop(jobs.Stop{By: jobs.Agent, From: jobs.Interrupt})
		if record := jobstest.End(t, withdrawn); record.Receipt.End != jobs.NotRun {
			t.Errorf("a command cancelled before its turn: %s", record.Receipt.Text())
		}
		if status := last.Record().Status; status != jobs.Queued {
			t.Errorf("a command behind one that asks is %s", status)
		}
		if since, _ := c.session.Idle(); !since.IsZero() {
			t.Error("a session whose command asks is idle")
		}
		jobstest.Send(t, first, jobs.Input{Text: "\n"})
		jobstest.End(t, last)
		if got := jobstest.Output(last); got != "/\r\n" {
			t.Errorf("the last command was in %q", got)
		}
		if since, dir := c.session.Idle(); since.IsZero() || dir != "/" {
			t.Errorf("the session is idle since %v, in %s", since, dir)
		}
	})
}

// A cancelled command needs no rung that it would not need without a session.
func TestSessionCommandIsCancelled(t *testing.T) {
	t.Parallel()
	// The program of the line says that it has begun: an interrupt during a fork can be lost, and that
	// before a read begins, too.
	const program = `sh -c 'echo begun; exec sleep 1000'`
	asks := func(t *testing.T, j *jobs.Job) { jobstest.Asks(t, j) }
	inEachShell(t, func(t *testing.T, c carried) {
		for line, ready := range map[string]func(*testing.T, *jobs.Job){
			"cd /; " + program:                      rests,
			"cd /; " + program + " | cat":           rests,
			"cd /; echo begun; read x":              asks,
			"cd /; echo begun; while :; do :; done": func(*testing.T, *jobs.Job) {},
		} {
			for _, tty := range []bool{true, false} {
				l := c.line(line)
				l.TTY = tty
				j := c.start(t, l)
				jobstest.Prints(t, j, "begun")
				ready(t, j)
				j.Stop(jobs.Stop{By: jobs.Agent, From: jobs.Interrupt, Step: jobstest.Patience})
				rec := jobstest.End(t, j).Receipt
				if got := rec.Rungs; !slices.Equal(got, []jobs.Rung{jobs.Interrupt}) || len(rec.Notes) != 1 {
					t.Errorf("%s, on a terminal %t: needs %v, notes %q", line, tty, got, rec.Notes)
				}
			}
		}
		c.prints(t, "pwd", c.dir+"\n")
	})
}

func TestSessionIsForOneCommand(t *testing.T) {
	t.Parallel()
	inEachShell(t, func(t *testing.T, c carried) {
		c.prints(t, "export A=1 B=1", "")
		l := c.line("echo $A$B$C; export B=3")
		l.Given, l.Dir = map[string]string{"A": "2", "B": "2", "C": "2"}, "/"
		if got, _ := c.run(t, l); got != "222\n" {
			t.Errorf("a command with variables of its own prints %q", got)
		}
		c.prints(t, "echo $A$B$C; pwd", "13\n/\n")
	})
	inBash(t, func(t *testing.T, c carried) {
		c.prints(t, "A=1; B=(1 2); f() { echo $A; }", "")
		l := c.line("f; echo $B; sh -c 'echo $A$B'; B=3")
		l.Given = map[string]string{"A": "2", "B": "2"}
		if got, _ := c.run(t, l); got != "2\n2\n22\n" {
			t.Errorf("a command with variables of its own prints %q", got)
		}
		c.prints(t, "f; echo $B; sh -c 'echo ${A-none}$B'", "1\n3\nnone3\n")
	})
}

// inBash runs a test in a new session of bash.
func inBash(t *testing.T, run func(t *testing.T, c carried)) {
	inEachShell(t, func(t *testing.T, c carried) {
		if !strings.HasSuffix(c.shell, "bash") {
			t.Skip("only bash carries what it does not export")
		}
		run(t, c)
	})
}

func TestSessionCarriesWhatBashDoesNotExport(t *testing.T) {
	t.Parallel()
	tests := map[string][]struct{ line, prints string }{
		"variable":       {{"A=1 B='x\ny' C=$'\\xff\\'\"\\\\`$' D=", ""}, {"printf '%q ' \"$A\" \"$B\" \"$C\" \"${D-none}\"; sh -c 'echo ${A-none}'", `1 $'x\ny' $'\377\'"\\` + "`$' '' none\n"}},
		"unset":          {{"A=1; f() { :; }; alias g=:", ""}, {"unset A; unset -f f; unalias g", ""}, {"echo ${A-none}; type f g 2>/dev/null || echo gone", "none\ngone\n"}},
		"arrays":         {{"a=(1 'b\nc' \"it's\"); k='x ]\n\"y'; declare -A m=([k]=v [$k]='\"')", ""}, {`echo "${#a[@]} ${a[1]} ${a[2]} ${m[k]} ${m[$k]}"; a+=(4); unset "m[k]"`, "3 b\nc it's v \"\n"}, {`echo "${a[3]} ${#m[@]}"`, "4 1\n"}},
		"attributes":     {{"declare -i n=5; declare -l s=ABC; declare -n r=n; declare none; declare -a e=()", ""}, {"n+=1; s=DEF; echo $n $s $r ${none-unset} ${#e[@]}; declare -p none e", "6 def 6 unset 0\ndeclare -- none\ndeclare -a e=()\n"}},
		"exported":       {{"A=1; export B=1 C=1", ""}, {"export A; declare +x B; KEPT=2; declare +x GONE", ""}, {"echo $A$B$KEPT$GONE; sh -c 'echo $A${B-none}$KEPT${GONE-none}'", "1121\n1none2none\n"}},
		"exported array": {{"declare -ax a=(1 2)", ""}, {"echo ${a[@]@A}", "declare -ax a=([0]=\"1\" [1]=\"2\")\n"}},
		"function":       {{"f() { cat <<X\n$1 it's\nX\n}; a-b.c() { f \"$@\"; }", ""}, {"a-b.c 1", "1 it's\n"}, {"f() { echo again $1; }", ""}, {"a-b.c 2", "again 2\n"}},
		"version manager": { // it has the shape of nvm
			{`cat >vm.sh <<'X'
vm_strip() { [ -z "${VM_CURRENT-}" ] || PATH=${PATH#*:}; }
vm() {
	case $1 in
	use) vm_strip && VM_CURRENT=$2 && PATH=$PWD/$2:$PATH ;;
	deactivate) vm_strip && unset VM_CURRENT ;;
	esac
}
X
. ./vm.sh && vm use 20`, ""},
			{"echo ${PATH#$PWD/}; vm use 22", "20:/usr/bin:/bin\n"},
			{"echo ${PATH#$PWD/}; vm deactivate", "22:/usr/bin:/bin\n"},
			{"echo $PATH${VM_CURRENT-}", "/usr/bin:/bin\n"},
		},
		"exported function": {{"f() { echo 1; }; export -f f", ""}, {"f() { echo 2; }", ""}, {"bash -c f", "2\n"}},
		"alias":             {{`alias hi='echo "it'\''s"' two=$'echo a\necho b' g=echo`, ""}, {"hi; two\ng c", "it's\na\nb\nc\n"}, {"shopt -u expand_aliases", ""}, {"hi 2>/dev/null || echo off", "off\n"}},
		"alias in function": {{"f() { g a; }; g() { echo g $1; }; alias a=b", ""}, {"alias g='echo alias'", ""}, {"f; g a", "g a\nalias a\n"}},
		"extglob":           {{"shopt -s extglob\nf() { case $1 in @(a|b)) echo ab;; *) echo no;; esac; }\nshopt -u extglob", ""}, {"shopt extglob; f a; shopt -s extglob", "extglob        \toff\nno\n"}, {"shopt extglob; f a", "extglob        \ton\nab\n"}},
		"options":           {{"A=1; f() { echo $A; }; set -ufe", ""}, {"echo *; f", "*\n1\n"}},
		"posix":             {{"a-b() { echo $A; }; A=1; set -o posix", ""}, {"A=2; set -o | grep posix", "posix          \ton\n"}, {"set +o posix; a-b", "2\n"}},
		"names of builtins": {{"for b in cd printf set shopt trap exit exec umask compgen declare alias : command env unset; do source /dev/stdin <<<\"$b() { echo mine; }\"; done; eval() { echo mine; }; A=1", ""}, {"cd; A=2", "mine\n"}, {"builtin cd /; printf; echo $A", "mine\n2\n"}, {"pwd", "/\n"}},
		"aliases of words":  {{"for b in builtin printf eval exit declare : set; do alias $b='echo mine;'; done; A=1; cd /", ""}, {"\\printf '%s ' $A $PWD; printf", "1 / mine\n"}, {"echo $A", "1\n"}},
		"trap on DEBUG":     {{"trap 'echo + $BASH_COMMAND' DEBUG; A=1; f() { echo f; }", "+ A=1\n"}, {"f; echo $A", "f\n1\n"}},
		"trace to stdout":   {{"A=1; f() { echo f; }; BASH_XTRACEFD=1; set -x", ""}, {"exec 2>/dev/null; set +x; f; echo $A${BASH_XTRACEFD-none}", "+ builtin eval 'exec 2>/dev/null; set +x; f; echo $A${BASH_XTRACEFD-none}'\n++ exec\nf\n1none\n"}},
		"own of bash":       {{"IFS=,; read <<<x; [[ a =~ a ]]; mapfile -t <<<a; OPTIND=5; cd /tmp", ""}, {"echo ${REPLY-none}${BASH_REMATCH-none}${MAPFILE-none}; x='a b'; echo $x $OPTIND", "nonenonenone\na b 1\n"}},
		"exit":              {{"f() { A=1; exit; }; f", ""}, {"echo $A; f", "1\n"}},
		"long":              {{"A=1; f() { A=3; exit; }", ""}, {": " + strings.Repeat("x", 200_000) + "\necho $A; A=2", "1\n"}, {": " + strings.Repeat("x", 200_000) + "\necho $A; f", "2\n"}, {"echo $A", "3\n"}},
		"descriptors":       {{"A=1", ""}, {"ls -1 /proc/self/fd; bash -c 'ls -1 /proc/self/fd' | tail -1", "0\n1\n2\n3\n3\n"}},
		"own descriptors":   {{"f() { exit; }; exec 3>a 4>b 10>c; echo 1 >&3; echo 2 >&4; echo 3 >&10; cd /; f", ""}, {"pwd; cat \"$OLDPWD\"/[a-c]", "/\n1\n2\n3\n"}},
		"errors":            {{"f() { :; }; A=1", ""}, {"nosuch 2>&1 | sed 's/.*: line/line/'; echo $0 | sed 's,.*/,,'", "line 1: nosuch: command not found\nbash\n"}},
	}
	inBash(t, func(t *testing.T, c carried) {
		for name, steps := range tests {
			t.Run(name, func(t *testing.T) {
				c := c
				c.dir = t.TempDir()
				c.session = shell.NewSession("build", c.dir)
				for _, step := range steps {
					c.prints(t, step.line, step.prints)
				}
			})
		}
	})
}

// A virtual environment is left as it was entered.
func TestSessionLeavesAVirtualEnvironment(t *testing.T) {
	t.Parallel()
	python := needtest.Program(t, "python3")
	inBash(t, func(t *testing.T, c carried) {
		before, _ := c.run(t, c.line("echo $PATH"))
		if _, rec := c.run(t, c.line(python+" -m venv --without-pip v && . v/bin/activate")); rec.Text() != "completed" {
			t.Fatal(rec.Text())
		}
		c.prints(t, "command -v python; echo $VIRTUAL_ENV", c.dir+"/v/bin/python\n"+c.dir+"/v\n")
		c.prints(t, "deactivate", "")
		c.prints(t, "echo $PATH", before)
		c.prints(t, "echo ${VIRTUAL_ENV-none}; type deactivate 2>/dev/null || echo gone", "none\ngone\n")
	})
}

func TestSessionSaysWhatIsNotCarried(t *testing.T) {
	t.Parallel()
	inBash(t, func(t *testing.T, c carried) {
		_, rec := c.run(t, c.line("readonly A=1 B=(1); C=1; true | true"))
		if want := []string{"shell session build is new", "shell session build does not carry A, B: readonly"}; !slices.Equal(rec.Notes, want) {
			t.Errorf("notes %q, not %q", rec.Notes, want)
		}
		c.prints(t, "echo ${A-none}${B-none}$C; A=2", "nonenone1\n")
		c.prints(t, "echo $A", "2\n")
	})
}

// What is too large to carry does not take what was carried before with it.
func TestSessionWithTooLargeFunctions(t *testing.T) {
	t.Parallel()
	inBash(t, func(t *testing.T, c carried) {
		c.prints(t, "A=1; f() { echo 1; }; alias g='echo 1'", "")
		for _, size := range []string{"1100000", "20000000"} {
			_, rec := c.run(t, c.line("cd /; export B="+size+"; A=2; f() { echo 2; }; big=$(head -c "+size+" /dev/zero | tr '\\0' x)"))
			if n := len(rec.Notes); n == 0 || rec.Notes[n-1] != "shell session build keeps its functions, aliases and unexported variables of before: those that this command has left take more than 1 MiB" {
				t.Errorf("notes %q", rec.Notes)
			}
			c.prints(t, "f; g; echo $A $B $PWD ${big-none}", "1\n1\n1 "+size+" / none\n")
		}
		c.prints(t, "big=$(head -c 1000000 /dev/zero | tr '\\0' x)", "")
		c.prints(t, "f; echo ${#big}", "1\n1000000\n")
	})
}

// A function that bash prints wrongly is lost alone. What another one prints is no end of a function.
func TestSessionWithAFunctionThatBashPrintsWrongly(t *testing.T) {
	t.Parallel()
	inBash(t, func(t *testing.T, c carried) {
		c.prints(t, "f() { true && cat <<E && echo 1\n2\nE\n}; e() { printf '}\n%s\n}\n' 'g ()'; }; g() { echo 3; }; alias h='echo 4'; A=5", "")
		_, rec := c.run(t, c.line("shopt -q extglob; declare -F f"))
		if want := []string{"shell session build has lost the function f: bash can't read what declare -f prints of it"}; !slices.Equal(rec.Notes, want) {
			t.Errorf("notes %q, not %q", rec.Notes, want)
		}
		c.prints(t, "e; g; h; echo $A", "}\ng ()\n}\n3\n4\n5\n")
	})
}

// Variables that no program can be started with don't take the others with them.
func TestSessionWithTooManyVariables(t *testing.T) {
	t.Parallel()
	inEachShell(t, func(t *testing.T, c carried) {
		c.prints(t, "export A=1", "")
		_, rec := c.run(t, c.line("mkdir x; cd x; umask 027; big=$(head -c 3000000 /dev/zero | tr '\\0' x); export big A=2"))
		if len(rec.Notes) != 2 || !strings.HasSuffix(rec.Notes[0], "/x now") || !strings.Contains(rec.Notes[1], "keeps its variables of before") {
			t.Errorf("notes %q", rec.Notes)
		}
		c.prints(t, `echo "$A$KEPT${big-none} $(umask)"; basename "$PWD"`, "11none 0027\nx\n")
	})
}

// A shell that traces what it does shows the line, and not how the server carries its state.
func TestSessionTraces(t *testing.T) {
	t.Parallel()
	inEachShell(t, func(t *testing.T, c carried) {
		c.prints(t, "set -u", "")
		for _, set := range []string{"set -x", "set -v", "set -xv"} {
			c.prints(t, set, "")
			got, rec := c.run(t, c.line("echo a"))
			if !strings.HasSuffix(got, "a\n") || strings.Contains(got, "set ") || strings.Contains(got, "shopt") {
				t.Errorf("%s: echo a prints %q, and is %s", set, got, rec.Text())
			}
			c.run(t, c.line("set +xv"))
		}
	})
}

func TestSessionWithoutItsDirectory(t *testing.T) {
	t.Parallel()
	inEachShell(t, func(t *testing.T, c carried) {
		c.prints(t, "mkdir x; cd x; rmdir ../x", "")
		_, rec := c.run(t, c.line("pwd"))
		if rec.End != jobs.NotStarted || rec.Cause != jobs.NoDirectory {
			t.Errorf("a command in a directory that is gone: %s", rec.Text())
		}
		l := c.line("pwd")
		l.Dir = "/"
		if got, _ := c.run(t, l); got != "/\n" {
			t.Errorf("a command elsewhere prints %q", got)
		}
	})
}

// What a command leaves running neither keeps the next one waiting nor changes what it gets.
func TestSessionWithABackgroundProcess(t *testing.T) {
	t.Parallel()
	inEachShell(t, func(t *testing.T, c carried) {
		_, rec := c.run(t, c.line("trap '' HUP; (while sleep 1; do cd /usr; done) & cd /"))
		if len(rec.Left) == 0 {
			t.Errorf("left nothing: %s", rec.Text())
		}
		c.prints(t, "pwd", "/\n")
	})
}
