//go:build unix

package main

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// installWheel returns the run of a step that builds a package, installs it into the running
// session by one call with one argument, and imports it. It needs no network.
func installWheel(name, tool, argument, text, status string) func(*session) error {
	return func(s *session) error {
		if _, err := buildWheel(s.dir, name, "1.0", "def to(name):\n    return f'A "+name+" to {name}, from a wheel'\n"); err != nil {
			return fmt.Errorf("building a wheel: %w", err)
		}
		r, err := s.call(tool, map[string]any{argument: text, "wait_seconds": 60})
		if err != nil {
			return err
		}
		if err := expect(r, status); err != nil {
			return err
		}
		if r, err = s.call("execute_python", map[string]any{"code": "import " + name + "; " + name + ".to(name)"}); err != nil {
			return err
		}
		return expect(r, "completed", "A "+name+" to Jonathan, from a wheel")
	}
}

// buildWheel writes a wheel of one module, a zip archive with its metadata, and returns its path.
func buildWheel(dir, name, version, source string) (path string, err error) {
	path = filepath.Join(dir, fmt.Sprintf("%s-%s-py3-none-any.whl", name, version))
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z := zip.NewWriter(f)
	info := fmt.Sprintf("%s-%s.dist-info/", name, version)
	record := ""
	for _, file := range [][2]string{
		{name + ".py", source},
		{info + "METADATA", fmt.Sprintf("Metadata-Version: 2.1\nName: %s\nVersion: %s\n", name, version)},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: async-repl\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{info + "RECORD", ""},
	} {
		record += file[0] + ",,\n"
		if file[0] == info+"RECORD" {
			file[1] = record
		}
		w, err := z.Create(file[0])
		if err == nil {
			_, err = io.WriteString(w, file[1])
		}
		if err != nil {
			return "", err
		}
	}
	return path, z.Close()
}
