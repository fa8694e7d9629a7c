package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// paths matches the paths that begin with a directory of the checkout.
var paths = regexp.MustCompile("`((?:cmd|internal|jobs|pkgmgr|pyrepl|shell)/[a-z_./-]+)`")

// The packages, tests and files that CONTRIBUTING.md and the README name exist.
func TestDocumentedCommands(t *testing.T) {
	root := filepath.Join("..", "..")
	commands, files := 0, 0 // found
	for _, name := range []string{"CONTRIBUTING.md", "README.md"} {
		raw, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(raw)) {
			if command, ok := strings.CutPrefix(line, "    "); ok && strings.Contains(command, "go ") {
				checkCommand(t, root, strings.TrimSpace(command))
				commands++
			}
			for _, path := range paths.FindAllStringSubmatch(line, -1) {
				if _, err := os.Stat(filepath.Join(root, path[1])); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				files++
			}
		}
	}
	if commands < 10 || files < 15 {
		t.Errorf("%d commands and %d files found: the test no longer reads the pages", commands, files)
	}
}

// checkCommand checks that the packages of a go command exist, and that each test that it names is
// in one of them.
func checkCommand(t *testing.T, root, command string) {
	t.Helper()
	var tests []string
	words := strings.Fields(command)
	for _, word := range words {
		if !strings.HasPrefix(word, "./") || word == "./..." {
			continue
		}
		dir := filepath.Join(root, word)
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("%q: %v", command, err)
		}
		tests = append(tests, testsOf(t, dir)...)
	}
	for i, word := range words[:len(words)-1] {
		if word != "-run" && word != "-bench" && word != "-fuzz" {
			continue
		}
		for _, name := range strings.Split(strings.Trim(words[i+1], "'"), "|") {
			if name != "^$" && name != "." && !slices.Contains(tests, name) {
				t.Errorf("%q: there is no %s", command, name)
			}
		}
	}
}

// testsOf returns the names of a package's tests, benchmarks and fuzz tests.
func testsOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}
