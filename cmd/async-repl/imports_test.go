package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"asyncrepl/internal/readmetest"
)

const module = "asyncrepl/"

// A rule limits the imports of the packages below a directory, and says why.
type rule struct {
	dir    string
	may    []string // allowed packages of this module, without those below them
	errors []string // allowed packages of this module, but only their Err variables
	not    []string // forbidden packages of other modules and the standard library, with all below them
	why    string
}

// The rules go from the bottom up. Each package needs one, so adding a package means deciding what
// it can know.
var rules = []rule{
	{dir: "internal/escape", not: []string{"os", "net", "github.com"},
		why: "a sequence is bytes, whoever reads it"},
	{dir: "internal/view", may: []string{"internal/escape"}, not: []string{"os", "net", "github.com"},
		why: "a view is bytes in, text out"},
	{dir: "internal/screen", may: []string{"internal/view"}, not: []string{"os", "net"},
		why: "a screen is bytes in, rows out, and the one place that knows the library that draws it"},
	{dir: "internal/keys", may: []string{"internal/escape"}, not: []string{"os", "net", "github.com"},
		why: "a key sends the same bytes to every terminal"},
	{dir: "internal/snapshot", may: []string{"internal/output", "internal/screen", "internal/view"}, not: []string{"os", "net", "github.com"},
		why: "a screen is read from the log of a terminal of any kind"},
	{dir: "internal/callstack", may: []string{"internal/view"}, not: []string{"os", "net", "github.com"},
		why: "a stack reads alike whatever language and program it is of"},
	{dir: "internal/output", not: []string{"os/exec", "net", "github.com"},
		why: "a log holds the output of jobs of any kind, and its file can be replaced without touching them"},
	{dir: "internal/progress", may: []string{"internal/output", "internal/view"}, not: []string{"os", "net", "github.com"},
		why: "a progress bar reads alike in whatever output it stands"},
	{dir: "internal/lines", may: []string{"internal/output", "internal/view"}, not: []string{"os", "net", "github.com"},
		why: "lines are read alike by whoever looks for something in them"},
	{dir: "internal/findings", may: []string{"internal/lines", "internal/output", "internal/view"}, not: []string{"os", "net", "github.com"},
		why: "an error looks alike in whatever output it stands"},
	{dir: "internal/ladder", not: []string{"os", "net", "github.com"},
		why: "jobs and processes share the words of the ladder and know nothing else of each other"},
	{dir: "internal/procfs", not: []string{"os/exec", "net", "github.com"},
		why: "the kernel shows every reader the same facts about a process"},
	{dir: "internal/sockdiag", not: []string{"os/exec", "net/http", "github.com"},
		why: "the kernel's account of sockets is read in one place, for every use"},
	{dir: "internal/pump", not: []string{"os/exec", "net", "github.com"},
		why: "a pump reads pipes and terminals alike and knows nothing about the bytes"},
	{dir: "internal/guard", may: []string{"internal/cgroup", "internal/procfs"}, not: []string{"os/exec", "net", "github.com"},
		why: "the guard needs only its pipe and the kernel, because everything else may have failed"},
	{dir: "internal/tty", may: []string{"internal/procfs"}, not: []string{"os/exec", "net"},
		why: "a terminal serves worker and shell alike, and knows neither of them, nor its watcher"},
	{dir: "internal/stdin", may: []string{"internal/pump"}, not: []string{"os/exec", "net", "github.com"},
		why: "a pipe takes input alike, whatever program reads it, and does not know its watcher"},
	{dir: "internal/queries", may: []string{"internal/escape", "internal/output", "internal/snapshot", "internal/tty"}, not: []string{"os", "net", "github.com"},
		why: "a terminal answers alike, whatever job it is of"},
	{dir: "internal/threads", may: []string{"internal/procfs", "internal/sockdiag"}, not: []string{"os/exec", "net/http", "github.com"},
		why: "the kernel shows what a thread waits for, whatever the reader makes of it"},
	{dir: "internal/waiting", may: []string{"internal/procfs", "internal/stdin", "internal/threads", "internal/tty"}, not: []string{"os/exec", "net", "github.com"},
		why: "the kernel and the terminal show whether a program waits, for jobs of any kind"},
	{dir: "internal/listening", may: []string{"internal/procfs", "internal/sockdiag"}, not: []string{"os/exec", "net/http", "github.com"},
		why: "the kernel shows which processes listen, for jobs of any kind"},
	{dir: "internal/pystack", may: []string{"internal/procfs"}, not: []string{"os/exec", "net", "github.com"},
		why: "a stack is read from the memory of a process, whatever the process is for"},
	{dir: "internal/child", may: []string{"internal/procfs"}, not: []string{"os/exec", "net", "github.com"},
		why: "a child is one process; the tree that grows from it belongs to package process"},
	{dir: "internal/cgroup", may: []string{"internal/procfs"}, not: []string{"os/exec", "net", "github.com"},
		why: "a control group takes any process, and ends none"},
	{dir: "internal/oom", not: []string{"os", "os/exec", "net", "github.com"},
		why: "a counter only compares the kernel's counts"},
	{dir: "internal/signals", may: []string{"internal/procfs"}, not: []string{"os/exec", "net", "github.com"},
		why: "a signal goes to processes that a caller has found, whatever they belong to"},
	{dir: "internal/procset", may: []string{"internal/ladder", "internal/procfs", "internal/signals"}, not: []string{"os", "net", "github.com"},
		why: "a set of processes is ended alike, whatever a scan finds them by"},
	{dir: "internal/process", may: []string{"internal/cgroup", "internal/child", "internal/guard", "internal/ladder", "internal/oom", "internal/procfs", "internal/procset", "internal/signals", "internal/tty"}, not: []string{"net", "github.com"},
		why: "processes of every kind are ended in one place"},

	{dir: "internal/changes", not: []string{"os/exec", "net", "github.com"},
		why: "the file system shows what has changed, whatever has changed it"},

	{dir: "jobs", may: []string{"internal/callstack", "internal/keys", "internal/ladder", "internal/output"}, not: []string{"os/exec", "net"},
		why: "the life of a job is tested without processes, and holds for jobs of any kind"},
	{dir: "internal/display", may: []string{"internal/view", "jobs"}, not: []string{"os", "net", "github.com"},
		why: "what a job shows is hostile data from any runner: its limits are kept in one place, and nothing decodes it"},
	{dir: "internal/runner", may: []string{"internal/changes", "internal/ladder", "internal/listening", "internal/process", "internal/procfs", "internal/pump", "internal/queries", "internal/threads", "internal/tty", "internal/waiting", "internal/output", "internal/view", "jobs"}, not: []string{"os/exec", "net"},
		why: "code that the runners share knows none of them, no Python and no protocol"},
	{dir: "pyrepl/worker", may: runnersMay, not: []string{"net/http", "os/exec"},
		why: "a worker is one process and knows nothing of sessions"},
	{dir: "pyrepl/checkpoint", not: []string{"os", "net", "github.com"},
		why: "which checkpoints are kept is tested without processes"},
	{dir: "pyrepl", may: append([]string{"pyrepl/checkpoint", "pyrepl/worker"}, runnersMay...), not: []string{"net/http", "os/exec"},
		why: "runners know no protocol and not one another"},
	{dir: "shell", may: runnersMay, not: []string{"net", "os/exec"},
		why: "runners know no protocol and not one another"},
	{dir: "pkgmgr/installer", may: []string{"internal/runner"}, not: []string{"os/exec", "net/http", "github.com"},
		why: "what pip and uv read and print depends on nothing but the width of their terminal"},
	{dir: "pkgmgr", may: append(runnersMay, "pkgmgr/installer"), not: []string{"net/http", "os/exec"},
		why: "runners know no protocol and not one another; the network is the installer's business"},

	{dir: "internal/hints", may: []string{"jobs"}, errors: []string{"internal/keys", "internal/tty"}, not: []string{"os", "net", "github.com"},
		why: "a hint depends on what failed and on nothing else"},
	{dir: "internal/report", may: []string{"internal/hints", "internal/callstack", "internal/display", "internal/findings", "internal/output", "internal/progress", "internal/snapshot", "internal/view", "jobs"}, not: []string{"os", "net", "github.com"},
		why: "a job reads alike through MCP, on the command line, in the browser and on disk, however it runs"},
	{dir: "internal/overview", may: []string{"internal/output", "internal/report", "internal/view", "jobs"}, not: []string{"os/exec", "net", "github.com"},
		why: "the state of a server reads alike in every front end"},
	{dir: "internal/notebook", not: []string{"os/exec", "net", "github.com"},
		why: "a notebook is a file of cells, whoever ran them"},
	{dir: "internal/export", may: []string{"internal/display", "internal/files", "internal/notebook", "internal/output", "internal/view", "jobs", "pyrepl"}, not: []string{"os/exec", "net", "github.com"},
		why: "an export reads what sessions and jobs keep, and starts nothing"},
	{dir: "internal/engine", may: []string{"internal/cgroup", "internal/output", "internal/overview", "internal/process", "internal/pystack", "internal/tty", "internal/waiting", "jobs", "pkgmgr", "pyrepl", "shell"}, not: []string{"os/exec", "net", "github.com"},
		why: "an engine serves front ends of any protocol, and may run in a process apart from them"},
	{dir: "internal/variables", may: []string{"internal/engine", "internal/report", "internal/view"}, not: []string{"os", "net", "github.com"},
		why: "variables read alike in every front end"},
	{dir: "internal/search", may: []string{"internal/lines", "internal/output", "internal/report", "internal/view", "jobs"}, not: []string{"os", "net", "github.com"},
		why: "output is searched alike in every front end"},
	{dir: "internal/conditions", may: []string{"internal/arguments", "internal/lines", "internal/output", "internal/report", "internal/search", "internal/view", "jobs"}, not: []string{"os", "net", "github.com"},
		why: "jobs are waited for alike in every front end, however they run"},
	{dir: "internal/refusal", may: []string{"internal/arguments", "internal/engine", "internal/hints", "internal/report", "internal/view", "jobs"}, not: []string{"os", "net", "github.com"},
		why: "the packages below know no tools, and every front end says in the same words what helps"},
	{dir: "internal/rawjson", not: []string{"os", "net", "github.com"},
		why: "bytes in, bytes out"},
	{dir: "internal/arguments", may: []string{"internal/keys", "internal/rawjson", "internal/report", "internal/view", "jobs"}, not: []string{"os", "net", "github.com/modelcontextprotocol"},
		why: "arguments are checked alike for every front end, before a tool runs"},
	{dir: "internal/resource", may: []string{"internal/arguments", "internal/output", "internal/report", "internal/snapshot", "internal/view", "jobs"}, not: []string{"os", "net/http", "github.com"},
		why: "programs read the same of a job through every front end"},
	{dir: "internal/news", may: []string{"internal/progress", "internal/report", "internal/view", "jobs"}, not: []string{"os", "net", "github.com"},
		why: "every reply announces the end of a job in the same words"},
	{dir: "internal/delivery", may: []string{"internal/news", "internal/report"}, not: []string{"os", "net"},
		why: "replies are delivered alike, whatever tool they are from"},
	{dir: "internal/files", may: []string{"internal/view"}, not: []string{"os/exec", "net", "github.com"},
		why: "what may be read and written is decided in one place, for every front end"},
	{dir: "internal/fileserver", may: []string{"internal/files"}, not: []string{"os/exec", "github.com"},
		why: "HTTP gets at the same files as the tools, through the same package"},
	{dir: "internal/filetools", may: []string{"internal/arguments", "internal/display", "internal/files", "internal/report", "internal/view"}, not: []string{"os", "net", "github.com"},
		why: "files read alike through every front end"},
	{dir: "internal/stdio", may: []string{"internal/delivery", "internal/rawjson"}, not: []string{"os", "net"},
		why: "a transport carries messages over a stream and does not know what they mean"},
	{dir: "internal/mcpserver", may: []string{"internal/arguments", "internal/conditions", "internal/delivery", "internal/engine", "internal/export", "internal/files", "internal/filetools", "internal/news", "internal/output", "internal/overview", "internal/rawjson", "internal/refusal", "internal/report", "internal/resource", "internal/search", "internal/variables", "internal/view", "jobs"}, not: []string{"os/exec", "net/http"},
		why: "tools start nothing themselves and do not know how jobs run; what helps after an error is said by package refusal"},
	{dir: "internal/metrics", may: []string{"internal/procfs"}, not: []string{"os/exec", "github.com"},
		why: "requests and jobs are counted alike whatever the protocol is"},
	{dir: "internal/httpserver", may: []string{"internal/delivery", "internal/metrics"}, not: []string{"os", "github.com/creack"},
		why: "a transport carries messages and does not know what they mean; tests can serve another server through it"},
	{dir: "internal/mcpclient", not: []string{"github.com"},
		why: "a client knows only the protocol, as the clients of others do"},
	{dir: "internal/listener", not: []string{"os/exec", "net/http", "github.com"},
		why: "a socket is opened alike for every protocol"},
	{dir: "internal/peer", may: []string{"internal/sockdiag"}, not: []string{"os/exec", "net/http", "github.com"},
		why: "the kernel says who has connected, whatever is spoken then"},
	{dir: "internal/tokens", not: []string{"os/exec", "net", "github.com"},
		why: "who a token belongs to depends on the file alone, however the token arrives"},
	{dir: "internal/version", not: []string{"os", "net", "github.com"},
		why: "the server and the wheel that carries it say the same version"},
	{dir: "internal/wheel", not: []string{"os/exec", "net", "github.com"},
		why: "a wheel is a file, whatever is in it"},
	{dir: "internal/demo", may: []string{"internal/mcpclient", "internal/tokens", "internal/wheel"}, not: []string{"net", "github.com"},
		why: "the demo uses the server as any client does: as a program"},
	{dir: "cmd", may: []string{"internal/demo", "internal/engine", "internal/files", "internal/fileserver", "internal/guard", "internal/httpserver", "internal/listener", "internal/mcpserver", "internal/metrics", "internal/peer", "internal/stdio", "internal/tokens", "internal/tty", "internal/version", "internal/wheel", "pkgmgr"}, not: []string{"net"},
		why: "main parses settings, connects the packages and decides what the end of input ends; the rest, the program pip included, belongs to other packages"},
}

// runnersMay are the packages that the runners may import.
var runnersMay = []string{
	"internal/callstack", "internal/cgroup", "internal/display", "internal/keys", "internal/ladder", "internal/listening", "internal/output", "internal/process", "internal/procfs", "internal/pump", "internal/pystack", "internal/queries", "internal/runner",
	"internal/stdin", "internal/tty", "internal/view", "internal/waiting", "jobs",
}

// speakMCP are the packages that may import the protocol's library, so that it can be replaced.
var speakMCP = []string{"internal/delivery", "internal/httpserver", "internal/mcpserver", "internal/stdio"}

const mcpLibrary = "github.com/modelcontextprotocol"

// processWide are the names that stand for state of the whole process. No package below cmd uses
// them: a connection gets everything that it can see in its scope.
var processWide = map[string][]string{
	"os":       {"Getenv", "LookupEnv", "Environ", "Getwd", "Chdir", "Setenv", "Stdin", "Stdout", "Stderr", "Args", "Exit", "UserHomeDir"},
	"exec":     {"LookPath"},
	"filepath": {"Abs"},
	"flag":     {"Bool", "Int", "String", "Var", "Parse", "Arg", "Args", "NewFlagSet", "CommandLine"},
	"slog":     {"Default", "SetDefault"},
}

// sources calls f for each Go file of the module that is neither a test nor, as jobstest is, of a
// package that serves tests.
func sources(t *testing.T, f func(path string, file *ast.File)) {
	t.Helper()
	root := filepath.Join("..", "..")
	seen := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() && rel != "." && (strings.HasPrefix(d.Name(), ".") || strings.HasSuffix(d.Name(), "test")) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		seen++
		f(filepath.ToSlash(rel), file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 20 {
		t.Fatalf("only %d source files were found", seen)
	}
}

// under reports whether path is dir or below it.
func under(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

func TestImportRules(t *testing.T) {
	ruled := make(map[string]bool)
	sources(t, func(path string, file *ast.File) {
		k := slices.IndexFunc(rules, func(r rule) bool { return under(path, r.dir) })
		if k < 0 {
			t.Errorf("%s is of a package that has no rule here", path)
			return
		}
		ruled[rules[k].dir] = true
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			rules[k].check(t, path, file, imported)
			if under(imported, mcpLibrary) && !slices.ContainsFunc(speakMCP, func(dir string) bool { return under(path, dir) }) {
				t.Errorf("%s imports %s: only %v speak the protocol, so that its library can be replaced", path, imported, speakMCP)
			}
		}
	})
	for _, r := range rules {
		if !ruled[r.dir] {
			t.Errorf("the rule for %s is about no package", r.dir)
		}
	}
}

// check checks one import of a file below the rule's directory.
func (r rule) check(t *testing.T, path string, file *ast.File, imported string) {
	of, ours := strings.CutPrefix(imported, module)
	switch {
	case ours && slices.Contains(r.errors, of):
		name := of[strings.LastIndexByte(of, '/')+1:]
		selectors(file, func(pkg, selected string) {
			if pkg == name && !strings.HasPrefix(selected, "Err") {
				t.Errorf("%s uses %s.%s, more than an error: %s", path, pkg, selected, r.why)
			}
		})
	case ours && !slices.Contains(r.may, of):
		t.Errorf("%s imports %s: %s", path, of, r.why)
	case slices.ContainsFunc(r.not, func(not string) bool { return under(imported, not) }):
		t.Errorf("%s imports %s: %s", path, imported, r.why)
	}
}

// selectors calls f for each x.name in a file.
func selectors(file *ast.File, f func(x, name string)) {
	ast.Inspect(file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok {
				f(x.Name, sel.Sel.Name)
			}
		}
		return true
	})
}

// The table of packages in docs/how-it-works.md has a row for each.
func TestDocsNameEveryPackage(t *testing.T) {
	const page = "docs/how-it-works.md"
	text := readmetest.Text(t, page)
	for _, r := range rules {
		name := r.dir
		if name == "cmd" {
			name = "cmd/async-repl"
		}
		if !strings.Contains(text, "\n| `"+name+"` | ") {
			t.Errorf("the table of packages in %s has no row for %s", page, name)
		}
	}
}

func TestOnlyCommandReadsTheProcess(t *testing.T) {
	sources(t, func(path string, file *ast.File) {
		if under(path, "cmd") {
			return
		}
		selectors(file, func(pkg, name string) {
			if slices.Contains(processWide[pkg], name) {
				t.Errorf("%s uses %s.%s: only cmd reads flags, the environment, the current directory and the standard streams", path, pkg, name)
			}
		})
	})
}

// Patterns are compiled when they are first used: the first answer of a server need not wait for
// them.
func TestStartCompilesNoPattern(t *testing.T) {
	sources(t, func(path string, file *ast.File) {
		for _, d := range file.Decls {
			if _, ok := d.(*ast.GenDecl); !ok {
				continue
			}
			ast.Inspect(d, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "MustCompile" {
					t.Errorf("%s compiles a pattern at the start of the program: use sync.OnceValue", path)
				}
				_, later := n.(*ast.FuncLit)
				return !later
			})
		}
	})
}
