package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"asyncrepl/internal/test/readmetest"
)

// paths matches the paths that begin with a directory of the checkout.
var paths = regexp.MustCompile("`((?:cmd|internal|jobs|pkgmgr|pyrepl|shell)/[a-z_./-]+)`")

// pages returns the pages for readers of the repository, relative to its root.
func pages(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil || len(found) < 13 {
		t.Fatalf("%d pages found in docs: %v", len(found), err)
	}
	names := []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"}
	for _, path := range found {
		names = append(names, "docs/"+filepath.Base(path))
	}
	return names
}

// The packages, tests and files that the pages name exist.
func TestDocumentedCommands(t *testing.T) {
	root := filepath.Join("..", "..")
	commands, files := 0, 0 // found
	for _, name := range pages(t) {
		for line := range strings.Lines(readmetest.Text(t, name)) {
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

// Each link from a page to another leads to a file, and to a heading in it if it names one. README.md
// has a link to each page, and shows each picture.
func TestDocumentedLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^):#\s]*)(#[^)\s]*)?\)`)
	heading := regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAnchor := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	found := 0
	readme := readmetest.Text(t, "README.md")
	for _, name := range pages(t) {
		if name != "README.md" && !strings.Contains(readme, "("+name+")") {
			t.Errorf("README.md has no link to %s", name)
		}
		for _, m := range link.FindAllStringSubmatch(readmetest.Text(t, name), -1) {
			found++
			target := name
			if m[1] != "" {
				target = path.Join(path.Dir(name), m[1])
			}
			text := readmetest.Text(t, target)
			var anchors []string
			for _, h := range heading.FindAllStringSubmatch(text, -1) {
				anchor := notInAnchor.ReplaceAllString(strings.ToLower(h[1]), "")
				anchors = append(anchors, "#"+strings.ReplaceAll(anchor, " ", "-"))
			}
			if m[2] != "" && !slices.Contains(anchors, m[2]) {
				t.Errorf("%s: %s has no heading %s", name, target, m[2])
			}
		}
	}
	if found < 100 {
		t.Errorf("%d links found: the test no longer reads the pages", found)
	}
	pictures, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.png"))
	if err != nil || len(pictures) == 0 {
		t.Fatalf("%d pictures found in docs: %v", len(pictures), err)
	}
	for _, picture := range pictures {
		if name := "docs/" + filepath.Base(picture); !strings.Contains(readme, "]("+name+")") {
			t.Errorf("README.md does not show %s", name)
		}
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
