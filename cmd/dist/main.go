// Command dist builds the files that people install: for each platform a static binary and a Python
// wheel that carries it, with the licenses of all code in them and the checksums of all files.
//
//	go run ./cmd/dist
//	go run ./cmd/dist -o DIR linux/amd64
//
// From the same commit and with the same Go, it writes the same bytes.
package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"asyncrepl/internal/release/version"
)

const program = "asyncrepl/cmd/async-repl"

// platforms are the systems that files are built for, with the tags of their wheels. The tags of
// Linux are old ones, because a static binary runs with any C library, or none
// (https://peps.python.org/pep-0600/, https://peps.python.org/pep-0656/). The tag of macOS is the
// oldest version that Go supports (https://go.dev/doc/go1.25#darwin).
var platforms = map[string][]string{
	"linux/amd64":  {"manylinux_2_17_x86_64", "manylinux2014_x86_64", "musllinux_1_1_x86_64"},
	"linux/arm64":  {"manylinux_2_17_aarch64", "manylinux2014_aarch64", "musllinux_1_1_aarch64"},
	"darwin/amd64": {"macosx_12_0_x86_64"},
	"darwin/arm64": {"macosx_12_0_arm64"},
}

func main() {
	out := flag.String("o", "dist", "the `directory` to write to")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: dist [-o directory] [%s ...]\n", strings.Join(platformNames(), " | "))
	}
	flag.Parse()
	targets := flag.Args()
	if len(targets) == 0 {
		targets = platformNames()
	}
	if err := build(*out, targets, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

func platformNames() []string {
	var names []string
	for name := range platforms {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// build writes the files for the targets into a directory, and prints their names. It says in log
// which target it builds, because each takes up to a minute.
func build(dir string, targets []string, log io.Writer) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, target := range targets {
		if platforms[target] == nil {
			return fmt.Errorf("unknown platform %q; known: %s", target, strings.Join(platformNames(), ", "))
		}
	}
	licenses, err := collectLicenses(targets)
	if err != nil {
		return err
	}
	files := map[string][]byte{"LICENSES": licenses}
	for _, target := range targets {
		v, binary, err := buildBinary(target, log)
		if err != nil {
			return err
		}
		w := programWheel(v, platforms[target], binary, licenses)
		content, err := w.Bytes()
		if err != nil {
			return fmt.Errorf("writing the wheel for %s: %v", target, err)
		}
		files[fmt.Sprintf("async-repl-%s-%s", v, strings.ReplaceAll(target, "/", "-"))] = binary
		files[w.FileName()] = content
	}
	return write(dir, files)
}

// write writes the files and their checksums, in the form that sha256sum -c reads.
func write(dir string, files map[string][]byte) error {
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	var sums strings.Builder
	for _, name := range names {
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(files[name]), name)
	}
	files["SHA256SUMS"] = []byte(sums.String())
	for _, name := range append(names, "SHA256SUMS") {
		path, mode := filepath.Join(dir, name), os.FileMode(0o644)
		if strings.HasPrefix(name, "async-repl-") {
			mode = 0o755
		}
		err := cmp.Or(os.WriteFile(path, files[name], mode), os.Chmod(path, mode))
		if err != nil {
			return err
		}
		fmt.Println(path)
	}
	return nil
}

// buildBinary builds the program for a target and returns it with its version.
func buildBinary(target string, log io.Writer) (v string, binary []byte, err error) {
	fmt.Fprintln(log, "building", target)
	dir, err := os.MkdirTemp("", "async-repl-dist-")
	if err != nil {
		return "", nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "async-repl")
	if _, err := goCommand(target, "build", "-trimpath", "-ldflags=-s -w", "-o", path, program); err != nil {
		return "", nil, err
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return "", nil, fmt.Errorf("reading the version of the binary for %s: %v", target, err)
	}
	binary, err = os.ReadFile(path)
	return version.Of(info), binary, err
}

// goCommand runs go for a target and returns what it prints.
func goCommand(target string, args ...string) (string, error) {
	system, arch, _ := strings.Cut(target, "/")
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("running go %s for %s: %v", args[0], target, err)
	}
	return string(out), nil
}

// collectLicenses returns the licenses of the program, of Go and of the modules that are linked
// into the program on any of the targets.
func collectLicenses(targets []string) ([]byte, error) {
	root, err := goCommand(targets[0], "list", "-m", "-f", "{{.Dir}}", strings.Split(program, "/")[0])
	if err != nil {
		return nil, err
	}
	goroot, err := goCommand(targets[0], "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	lines := []string{"async-repl " + strings.TrimSpace(root), "The Go library " + strings.TrimSpace(goroot)}
	var modules []string
	for _, target := range targets {
		list, err := goCommand(target, "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}@{{.Version}} {{.Dir}}{{end}}{{end}}", program)
		if err != nil {
			return nil, err
		}
		modules = append(modules, strings.Split(strings.TrimSpace(list), "\n")...)
	}
	slices.Sort(modules)
	var all strings.Builder
	for _, line := range append(lines, slices.Compact(modules)...) {
		at := strings.LastIndexByte(line, ' ')
		name, dir := line[:at], line[at+1:]
		text, err := license(dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %v", name, err)
		}
		fmt.Fprintf(&all, "%s\n%s\n\n%s\n\n", name, strings.Repeat("=", len(name)), text)
	}
	return []byte(all.String()), nil
}

// license returns the texts of the license files in a directory.
func license(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var texts []string
	for _, e := range entries {
		name := strings.ToLower(e.Name())
		if !strings.HasPrefix(name, "license") && !strings.HasPrefix(name, "notice") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return "", err
		}
		texts = append(texts, strings.TrimSpace(string(text)))
	}
	if len(texts) == 0 {
		return "", fmt.Errorf("there is no license file in %s", dir)
	}
	return strings.Join(texts, "\n\n"), nil
}
