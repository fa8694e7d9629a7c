package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"asyncrepl/internal/release/wheel"
)

const binary = "\x7fELF"

func testWheel() wheel.Wheel {
	return programWheel("1.2.3", []string{"manylinux_2_17_x86_64", "musllinux_1_1_x86_64"}, []byte(binary), []byte("a license\n"))
}

// open returns the files of the wheel by name.
func open(t *testing.T, content []byte) map[string]*zip.File {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]*zip.File)
	for _, f := range r.File {
		files[f.Name] = f
	}
	return files
}

func text(t *testing.T, f *zip.File) []byte {
	t.Helper()
	if f == nil {
		t.Fatal("a file is missing")
	}
	r, err := f.Open()
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestWheelHoldsTheProgram(t *testing.T) {
	w := testWheel()
	content, err := w.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	files := open(t, content)
	program := files["async_repl-1.2.3.data/scripts/async-repl"]
	if got := text(t, program); string(got) != binary {
		t.Errorf("the program is %q", got)
	}
	if mode := program.Mode(); mode != 0o755 {
		t.Errorf("the program's mode is %v", mode)
	}
	if got := text(t, files["async_repl-1.2.3.dist-info/METADATA"]); !bytes.Contains(got, []byte("\nVersion: 1.2.3\n")) {
		t.Errorf("METADATA: %s", got)
	}
	// The tags of the file name, one in a line.
	want := "async_repl-1.2.3-py3-none-manylinux_2_17_x86_64.musllinux_1_1_x86_64.whl"
	if got := w.FileName(); got != want {
		t.Errorf("the name is %s, want %s", got, want)
	}
	about := string(text(t, files["async_repl-1.2.3.dist-info/WHEEL"]))
	for _, line := range []string{"Root-Is-Purelib: false", "Tag: py3-none-manylinux_2_17_x86_64", "Tag: py3-none-musllinux_1_1_x86_64"} {
		if !slices.Contains(strings.Split(about, "\n"), line) {
			t.Errorf("WHEEL lacks %q:\n%s", line, about)
		}
	}
}

// RECORD lists every file with its size and checksum: installers remove by it, and some verify it.
func TestRecordIsComplete(t *testing.T) {
	content, err := testWheel().Bytes()
	if err != nil {
		t.Fatal(err)
	}
	files := open(t, content)
	const record = "async_repl-1.2.3.dist-info/RECORD"
	rows, err := csv.NewReader(bytes.NewReader(text(t, files[record]))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		f := files[row[0]]
		delete(files, row[0])
		want := []string{record, "", ""}
		if row[0] != record {
			b := text(t, f)
			sum := sha256.Sum256(b)
			want = []string{row[0], "sha256=" + base64.RawURLEncoding.EncodeToString(sum[:]), strconv.Itoa(len(b))}
		}
		if !slices.Equal(row, want) {
			t.Errorf("got %q, want %q", row, want)
		}
	}
	for name := range files {
		t.Errorf("RECORD lacks %s", name)
	}
}

func TestSameWheelSameBytes(t *testing.T) {
	a, err := testWheel().Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if b, err := testWheel().Bytes(); err != nil || !bytes.Equal(a, b) {
		t.Errorf("two wheels of the same program differ (%v)", err)
	}
}

func TestChecksums(t *testing.T) {
	dir := t.TempDir()
	if err := write(dir, map[string][]byte{"b": []byte("2"), "async-repl-1": []byte("1")}); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	want := "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b  async-repl-1\n" +
		"d4735e3a265e16eee03f59718b9b5d03019c07d8b6c51f90da3a666eec13ab35  b\n"
	if err != nil || string(sums) != want {
		t.Errorf("got %q (%v), want %q", sums, err, want)
	}
	if st, err := os.Stat(filepath.Join(dir, "async-repl-1")); err != nil || st.Mode() != 0o755 {
		t.Errorf("the program can't be run: %v (%v)", st.Mode(), err)
	}
}

func TestUnknownPlatform(t *testing.T) {
	err := build(t.TempDir(), []string{"plan9/amd64"}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), `unknown platform "plan9/amd64"; known: darwin/amd64, darwin/arm64, linux/amd64, linux/arm64`) {
		t.Errorf("got %v", err)
	}
}

// A build says which platform it builds before it begins.
func TestBuildSaysWhichPlatform(t *testing.T) {
	t.Setenv("PATH", "") // there is no Go to build with
	var log strings.Builder
	if _, _, err := buildBinary("linux/arm64", &log); err == nil || log.String() != "building linux/arm64\n" {
		t.Errorf("it says %q, then %v", log.String(), err)
	}
}
