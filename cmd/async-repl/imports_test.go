package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"asyncrepl/internal/test/readmetest"
)

const module = "asyncrepl/"

// floors are the rooms of the house, from the bottom up. A package imports packages of its own room
// and of the floors below. Rooms on the same floor do not know each other.
var floors = [][]string{
	{"internal/output", "internal/release"},
	{"internal/kernel", "internal/text"},
	{"internal/files", "internal/sandbox", "internal/serve", "internal/terminal"},
	{"internal/process"},
	{"jobs"},
	{"internal/history", "internal/runner"},
	{"internal/reply", "pkgmgr", "pyrepl", "shell"},
	{"internal/notebook"},
	{"internal/engine"},
	{"internal/mcp", "internal/page"},
	{"internal/client", "internal/demo"},
	{"internal/place"},
	{"internal/people"},
	{"cmd"},
}

// libraries names the packages that import a library. No other package does.
var libraries = []struct{ library, packages, why string }{
	{"github.com/charmbracelet/x/vt", "internal/text/screen", "the emulator can be replaced in one place"},
	{"github.com/coder/websocket", "internal/page internal/people/hub", "the rest of the server knows no stream of a browser"},
	{"github.com/creack/pty", "internal/terminal/tty", "terminals are opened in one place"},
	{"github.com/spf13/cobra", "internal/people", "the start of the server does not go through it"},
	{"github.com/modelcontextprotocol/go-sdk/mcp", "internal/client/front internal/mcp/delivery internal/mcp/httpserver internal/mcp/server internal/mcp/stdio",
		"the library of the protocol can be replaced without touching jobs and replies"},
	{"sigs.k8s.io/yaml", "internal/place/kubernetes", "only people write YAML, and only the file of a Pod"},
	{"net/http", "cmd/async-repl internal/client/keeper internal/files/fileserver internal/mcp/client internal/mcp/httpserver internal/page internal/people/hub internal/place internal/sandbox/proxy internal/serve/metrics internal/serve/relay",
		"jobs and replies do not depend on the transport, and what a sandbox asks of the Internet is read in one place"},
	{"os/exec", "cmd/async-repl cmd/dist internal/demo internal/mcp/client internal/place/allocation", "package process starts every process of a job, so that none is left behind"},
}

// bans are imports that the floors allow and that must not be. The importer stands for the packages
// below it, too, and the imported package only for itself.
var bans = []struct{ importer, imported, why string }{
	{"internal/text", "os", "a view is bytes in, text out"},
	{"internal/terminal/keys", "internal/terminal/tty", "a key sends the same bytes to every terminal"},
	{"internal/process/guard", "internal/process", "the guard needs only its pipe and the kernel, because everything else may have failed"},
	{"jobs", "os", "the life of a job is tested without files and processes"},
	{"jobs", "internal/process", "a job shares the words of package ladder with processes, and nothing else"},
	{"jobs", "internal/terminal/tty", "a job takes input, whether a terminal or a pipe gets it"},
	{"internal/reply", "internal/process", "a reply reads alike through MCP, in a browser and from disk"},
	{"internal/reply", "internal/runner", "a reply reads alike however the job runs"},
	{"internal/mcp", "internal/process", "tools start and end nothing themselves"},
	{"internal/mcp", "pyrepl", "tools know Python only through the engine, which may run in another process"},
	{"internal/mcp", "shell", "tools know commands only through the engine"},
	{"internal/mcp", "pkgmgr", "tools know packages only through the engine"},
	{"internal/mcp/httpserver", "internal/mcp/server", "a transport does not know what messages mean; tests serve others through it"},
	{"internal/mcp/stdio", "internal/mcp/server", "a transport does not know what messages mean"},
	{"internal/mcp/client", "internal/mcp/server", "a client knows only the protocol, as others do"},
	{"internal/client/front", "internal/engine", "the front runs no job, and must not die of one"},
	{"internal/client/front", "internal/mcp/server", "the front passes on what it does not understand"},
	{"internal/people", "internal/engine", "a command knows of an engine what the protocol says, as any client does"},
	{"internal/people", "internal/mcp/server", "a command knows of an engine what the protocol says, as any client does"},
	{"internal/people/hub", "internal/mcp", "a page asks engines over HTTP, and speaks no MCP"},
	{"internal/place/stream", "internal/engine", "the life of a job is carried however the job runs"},
	{"internal/place/far", "internal/mcp/server", "a link starts jobs and calls tools by functions that it is given"},
	{"internal/demo", "internal/engine", "the demo uses the server as a program, as any client does"},
}

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

// floorOf returns the room of a package or of a file in one, and the number of its floor.
func floorOf(path string) (room string, floor int) {
	for i, rooms := range floors {
		for _, room := range rooms {
			if under(path, room) {
				return room, i
			}
		}
	}
	return "", -1
}

func TestImports(t *testing.T) {
	used := make(map[string]bool)
	sources(t, func(path string, file *ast.File) {
		room, floor := floorOf(path)
		if room == "" {
			t.Errorf("%s is in no room: add its room to the floors", path)
		}
		used[room] = true
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			of, ours := strings.CutPrefix(imported, module)
			if theirs, below := floorOf(of); ours && theirs != room && below >= floor {
				t.Errorf("%s imports %s: imports go to a lower floor, or stay in their room", path, of)
			}
			for _, o := range libraries {
				if imported == o.library && !slices.ContainsFunc(strings.Fields(o.packages), func(dir string) bool { return under(path, dir) }) {
					t.Errorf("%s imports %s, as only %s may: %s", path, imported, o.packages, o.why)
				}
			}
			for _, b := range bans {
				if of == b.imported && under(path, b.importer) {
					t.Errorf("%s imports %s: %s", path, of, b.why)
				}
			}
		}
	})
	for _, rooms := range floors {
		for _, room := range rooms {
			if !used[room] {
				t.Errorf("there is no room %s", room)
			}
		}
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
	packages := make(map[string]bool)
	sources(t, func(file string, _ *ast.File) { packages[path.Dir(file)] = true })
	for name := range packages {
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
					t.Errorf("%s compiles a pattern at the start of the program: use pattern.Lazy", path)
				}
				_, later := n.(*ast.FuncLit)
				return !later
			})
		}
	})
}
