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
)

const module = "asyncrepl/"

// A rule says what the packages below a directory may not import, and why.
type rule struct {
	dir    string
	forbid []string // import paths, with all that is below them
	allow  []string // exceptions: import paths, and "in DIRECTORY" for what lies below one
	why    string
}

var rules = []rule{
	{dir: "jobs", forbid: []string{module, "os/exec", "net", "github.com/"}, allow: []string{module + "internal/ladder", module + "internal/output", "github.com/oklog/ulid/v2", "github.com/agnivade/levenshtein"},
		why: "the life of a job is tested without processes, and holds for jobs of any kind"},
	{dir: "internal/ladder", forbid: []string{module, "os/exec", "net", "github.com/"},
		why: "jobs and processes share the words of the ladder and know nothing else of each other"},
	{dir: "internal/output", forbid: []string{module, "os/exec", "net", "github.com/"},
		why: "a log holds the output of jobs of any kind, and its file can be replaced without touching them"},
	{dir: "internal/view", forbid: []string{module, "os/exec"},
		why: "a view is bytes in, text out"},
	{dir: "internal/procfs", forbid: []string{module, "os/exec"},
		why: "what the kernel shows of a process is the same for every reader"},
	{dir: "internal/tty", forbid: []string{module}, allow: []string{module + "internal/procfs"},
		why: "a terminal serves worker and shell alike and knows neither"},
	{dir: "internal/waiting", forbid: []string{module, "os/exec"}, allow: []string{module + "internal/procfs", module + "internal/tty"},
		why: "whether a program waits is seen in the kernel and the terminal, whatever the job"},
	{dir: "internal/pump", forbid: []string{module},
		why: "a pump reads pipes and terminals alike and knows nothing of what it reads"},
	{dir: "internal/guard", forbid: []string{module, "os/exec"}, allow: []string{module + "internal/procfs"},
		why: "the guard needs its pipe and the kernel and nothing else, for all else may have failed"},
	{dir: "internal/process", forbid: []string{module}, allow: []string{module + "internal/guard", module + "internal/ladder", module + "internal/procfs", module + "internal/tty"},
		why: "processes are ended in one place, whatever they were started for"},
	{dir: "internal/runner", forbid: []string{module}, allow: []string{module + "internal/process", module + "jobs"},
		why: "what runners share belongs to none of them"},
	{dir: "pyrepl", forbid: []string{module + "shell", module + "pkgmgr", module + "internal/mcpserver", module + "internal/report", module + "cmd"},
		why: "runners know no protocol and not one another"},
	{dir: "shell", forbid: []string{module + "pyrepl", module + "pkgmgr", module + "internal/mcpserver", module + "internal/report", module + "cmd"},
		why: "runners know no protocol and not one another"},
	{dir: "pkgmgr", forbid: []string{module + "pyrepl", module + "shell", module + "internal/mcpserver", module + "internal/report", module + "cmd"},
		why: "runners know no protocol and not one another"},
	{dir: "internal/mcpserver", forbid: []string{module + "cmd", "os/exec"},
		why: "tools start nothing themselves: runners do"},
	{dir: "internal/mcpclient", forbid: []string{module, "github.com/"},
		why: "a client knows of a server what the protocol says, as the clients of others do"},
	{dir: "internal/report", forbid: []string{module, "os/exec", "net", "github.com/"}, allow: []string{module + "jobs", module + "internal/output", module + "internal/view"},
		why: "a job reads alike through MCP, on the command line, in the browser and on disk, however it runs"},
	{dir: ".", forbid: []string{"github.com/modelcontextprotocol"}, allow: []string{"in internal/mcpserver", "in internal/stdio"},
		why: "only what speaks the protocol knows its library, so that it can be replaced"},
	{dir: "internal/stdio", forbid: []string{module, "os/exec"},
		why: "a transport carries messages, whatever they say"},
}

// below cmd, nobody reads what belongs to the process: what a connection may
// see is handed down in its scope.
var processWide = map[string][]string{
	"os": {"Getenv", "LookupEnv", "Environ", "Getwd", "Chdir", "Setenv", "Stdin", "Stdout", "Stderr", "Args", "Exit"},
}

// sources calls f for each Go file of the module that is neither a test nor, as
// jobstest is, of a package that serves tests.
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

func under(path, dir string) bool {
	return dir == "." || path == strings.TrimSuffix(dir, "/") || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

func TestImportRules(t *testing.T) {
	sources(t, func(path string, file *ast.File) {
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rules {
				if !under(path, r.dir) || slices.Contains(r.allow, imported) {
					continue
				}
				if slices.ContainsFunc(r.allow, func(a string) bool { place, ok := strings.CutPrefix(a, "in "); return ok && under(path, place) }) {
					continue
				}
				for _, f := range r.forbid {
					if under(imported, f) {
						t.Errorf("%s imports %s: %s", path, imported, r.why)
					}
				}
			}
		}
	})
}

func TestOnlyCommandReadsTheProcess(t *testing.T) {
	sources(t, func(path string, file *ast.File) {
		if under(path, "cmd") {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := sel.X.(*ast.Ident); ok && slices.Contains(processWide[pkg.Name], sel.Sel.Name) {
				t.Errorf("%s uses %s.%s: only cmd reads the environment, the current directory and the standard streams", path, pkg.Name, sel.Sel.Name)
			}
			return true
		})
	})
}
