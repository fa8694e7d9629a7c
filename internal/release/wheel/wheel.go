// Package wheel writes Python packages as the files that pip and uv install.
//
// A wheel is a zip archive: the files of the package, then the directory NAME-VERSION.dist-info
// with METADATA, which describes the package, WHEEL, which names its platforms, and RECORD, which
// lists every file with its checksum and size
// (https://packaging.python.org/en/latest/specifications/binary-distribution-format/). The same
// wheel gives the same bytes.
package wheel

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A Wheel is one version of a package.
type Wheel struct {
	Name     string // the name with underscores, like a module's: async_repl, not async-repl
	Version  string
	Tags     []string // the platforms, such as macosx_12_0_arm64; none: Python code for all of them
	Metadata string   // METADATA; "": only the name and the version
	Files    []File   // the files other than METADATA, WHEEL and RECORD
}

// A File is a file of a wheel. Those in NAME-VERSION.data/scripts/ are programs.
type File struct {
	Name    string
	Content []byte
}

// OfModule returns a wheel of one module.
func OfModule(name, version, source string) Wheel {
	return Wheel{Name: name, Version: version, Files: []File{{name + ".py", []byte(source)}}}
}

// FileName returns the wheel's name, in which pip and uv read its package, version and platforms.
func (w Wheel) FileName() string {
	return fmt.Sprintf("%s-%s-py3-none-%s.whl", w.Name, w.Version, strings.Join(w.tags(), "."))
}

func (w Wheel) tags() []string {
	if len(w.Tags) == 0 {
		return []string{"any"}
	}
	return w.Tags
}

// Save writes the wheel to a directory and returns its path.
func (w Wheel) Save(dir string) (path string, err error) {
	content, err := w.Bytes()
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, w.FileName())
	return path, os.WriteFile(path, content, 0o666)
}

// Bytes returns the content of the wheel's file.
func (w Wheel) Bytes() ([]byte, error) {
	metadata := w.Metadata
	if metadata == "" {
		metadata = fmt.Sprintf("Metadata-Version: 2.1\nName: %s\nVersion: %s\n", w.Name, w.Version)
	}
	about := fmt.Sprintf("Wheel-Version: 1.0\nGenerator: async-repl\nRoot-Is-Purelib: %v\n", len(w.Tags) == 0)
	for _, tag := range w.tags() {
		about += "Tag: py3-none-" + tag + "\n"
	}
	var archive bytes.Buffer
	var record strings.Builder
	z := zip.NewWriter(&archive)
	add := func(name string, content []byte) error {
		h := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)}
		h.SetMode(0o644)
		if strings.Contains(name, ".data/scripts/") {
			h.SetMode(0o755)
		}
		f, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(content))
		_, err = f.Write(content)
		return err
	}
	info := fmt.Sprintf("%s-%s.dist-info/", w.Name, w.Version)
	for _, file := range append(w.Files[:len(w.Files):len(w.Files)],
		File{info + "METADATA", []byte(metadata)},
		File{info + "WHEEL", []byte(about)},
	) {
		if err := add(file.Name, file.Content); err != nil {
			return nil, err
		}
	}
	record.WriteString(info + "RECORD,,\n") // it can't hold its own checksum
	if err := add(info+"RECORD", []byte(record.String())); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return archive.Bytes(), nil
}
