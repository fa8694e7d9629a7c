package main

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

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
