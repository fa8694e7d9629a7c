package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"time"
)

// A wheel is a Python package of one program and no module: pip and uv put the program on the PATH.
type wheel struct {
	version  string
	tags     []string // of the platforms
	binary   []byte
	licenses []byte
}

// fileName returns the wheel's name, in which pip and uv read its package, version and platforms.
func (w wheel) fileName() string {
	return fmt.Sprintf("async_repl-%s-py3-none-%s.whl", w.version, strings.Join(w.tags, "."))
}

const metadata = `Metadata-Version: 2.4
Name: async-repl
Version: %s
Summary: An MCP server that gives a coding agent a persistent Python and real terminals
Keywords: mcp,agent,repl,terminal,jobs
License-Expression: MIT
License-File: LICENSES
Requires-Python: >=3.9
Description-Content-Type: text/plain

An MCP server that gives a coding agent a persistent Python and real terminals, as one static program.
An MCP client starts it by the command async-repl; "async-repl demo" shows a session, and
"async-repl help" lists the settings.
`

// bytes returns the wheel: a zip archive with its metadata. The same wheel gives the same bytes.
func (w wheel) bytes() ([]byte, error) {
	info := fmt.Sprintf("async_repl-%s.dist-info/", w.version)
	record := info + "RECORD"
	about := "Wheel-Version: 1.0\nGenerator: async-repl dist\nRoot-Is-Purelib: false\n"
	for _, tag := range w.tags {
		about += "Tag: py3-none-" + tag + "\n"
	}
	var archive bytes.Buffer
	var sums strings.Builder
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
		fmt.Fprintf(&sums, "%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(content))
		_, err = f.Write(content)
		return err
	}
	for _, file := range []struct {
		name    string
		content []byte
	}{
		{fmt.Sprintf("async_repl-%s.data/scripts/async-repl", w.version), w.binary},
		{info + "licenses/LICENSES", w.licenses},
		{info + "METADATA", fmt.Appendf(nil, metadata, w.version)},
		{info + "WHEEL", []byte(about)},
	} {
		if err := add(file.name, file.content); err != nil {
			return nil, err
		}
	}
	sums.WriteString(record + ",,\n") // it can't hold its own checksum
	if err := add(record, []byte(sums.String())); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return archive.Bytes(), nil
}
