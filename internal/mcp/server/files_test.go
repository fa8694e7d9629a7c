package server

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/engine"
)

// filesWorld returns a client that is offered the toolset files, and its workspace.
func filesWorld(t *testing.T) (c *client, workspace string) {
	w := newWorld(t)
	w.config.Toolsets = []string{FilesToolset}
	return w.dial(engine.Scope{}), w.workspace
}

func TestFilesAreWrittenReadEditedAndDeleted(t *testing.T) {
	t.Parallel()
	c, workspace := filesWorld(t)
	file := filepath.Join(workspace, "a/b.txt")
	for i, step := range []struct {
		tool string
		args given
		want string
	}{
		{"write_file", given{"path": "a/b.txt", "content": "one\ntwo\nthree\n"}, "Written: a/b.txt, 14 bytes, new\n"},
		{"read_file", given{"path": "a/b.txt"}, "File: a/b.txt, 14 bytes\n\none\ntwo\nthree\n"},
		{"read_file", given{"path": file, "offset": 4, "max_bytes": 4}, "File: " + file + ", 14 bytes\nShown: bytes 4 to 8; continue with offset=8\n\ntwo\n"},
		{"read_file", given{"path": "a/b.txt", "offset": 8}, "File: a/b.txt, 14 bytes\nShown: bytes 8 to 14\n\nthree\n"},
		{"read_file", given{"path": "a/b.txt", "offset": 14}, "File: a/b.txt, 14 bytes\nShown: bytes 14 to 14\n\n"},
		{"edit_file", given{"path": "a/b.txt", "old": "two", "new": "2"}, "Edited: a/b.txt, 1 place: line 2\n"},
		{"edit_file", given{"path": "a/b.txt", "old": "e", "new": "E", "count": 9}, "Edited: a/b.txt, 3 places: lines 1, 3, 3\n"},
		{"write_file", given{"path": "raw", "content": "/w\nA=", "binary_base64": true}, "Written: raw, 2 bytes, new\n"},
		{"read_file", given{"path": "raw"}, "File: raw, 2 bytes\nEncoding: base64\n\n/wA="},
		{"write_file", given{"path": "latin1", "content": "Y2Fm6SBjcuhtZQo=", "binary_base64": true}, "Written: latin1, 11 bytes, new\n"},
		{"read_file", given{"path": "latin1"}, "File: latin1, 11 bytes\nEncoding: not UTF-8; 2 bytes shown as �\n\ncaf� cr�me\n"},
		{"delete_file", given{"path": "latin1"}, "Deleted: latin1\n"},
		{"write_file", given{"path": "raw", "content": ""}, "Written: raw, 0 bytes, in place of the old content\n"},
		{"list_files", nil, "Directory: .\nEntries: 2\n\na/\nraw\n"},
		{"list_files", given{"path": "", "recursive": true}, "Directory: .\nEntries: 3 to a depth of 3\n\na/\na/b.txt\nraw\n"},
		{"list_files", given{"recursive": true, "include_dirs": false, "max_depth": 1}, "Directory: .\nEntries: 1\n\nraw\n"},
		{"list_files", given{"tree": true, "include_files": false}, "Directory: .\nEntries: 1 to a depth of 3\n\n./\n└── a/\n"},
		{"delete_file", given{"filename": "raw"}, "Deleted: raw\n"},
		{"delete_file", given{"path": "a/b.txt"}, "Deleted: a/b.txt\n"},
		{"list_files", given{"path": "a"}, "Directory: a\nEntries: 0\n"},
	} {
		if d := cmp.Diff(step.want, c.call(step.tool, step.args)); d != "" {
			t.Errorf("step %d, %s: %s", i, step.tool, d)
		}
	}
}

func TestFileMistakesSayHowToFixThem(t *testing.T) {
	t.Parallel()
	c, workspace := filesWorld(t)
	if err := os.WriteFile(filepath.Join(workspace, "file"), []byte("a\nb\na\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		tool string
		args given
		want string
	}{
		{"read_file", given{"path": "../x"}, "Reading ../x: this leads out of the workspace: give a path in it, and no link that leads out or is absolute"},
		{"read_file", given{"path": "x\n"}, `Reading x\n: there is no such file or directory`},
		{"read_file", given{"path": "."}, "Reading .: this is a directory; list_files lists it"},
		{"read_file", given{"path": "file", "offset": 7}, "offset 7 is beyond the end of the file, 6."},
		{"read_file", given{"path": "file", "max_bytes": -1}, "max_bytes must be 1 or more."},
		{"list_files", given{"path": "file"}, "Listing file: this is not a directory; read_file reads files"},
		{"write_file", given{"path": "file", "content": "x", "overwrite": false}, "Writing file: file already exists; overwrite=true replaces it"},
		{"write_file", given{"path": "file", "content": "x!", "binary_base64": true}, "content is not valid base64: illegal base64 data at input byte 1. Nothing was written."},
		{"write_file", given{"path": "file/x", "content": ""}, "Writing file/x: this can't be the path of a file: not a directory"},
		{"delete_file", given{}, "path is missing. Give the path of the file to delete."},
		{"delete_file", given{"path": "file", "filename": "file"}, "path and filename are both given. They mean the same: give path."},
		{"write_file", given{"path": "new/", "content": ""}, "Writing new/: this is the path of a directory: leave the slash at its end out"},
		{"write_file", given{"path": "file/", "content": ""}, "Writing file/: this is the path of a directory: leave the slash at its end out"},
		{"delete_file", given{"path": "."}, "Deleting .: this is a directory"},
		{"edit_file", given{"path": "file", "old": "", "new": "x"}, "old is empty. Give the text to replace; write_file makes a new file."},
		{"edit_file", given{"path": "file", "old": "a", "new": "a"}, "old and new are the same: nothing would change."},
		{"edit_file", given{"path": "file", "old": "a", "new": "x"},
			"Editing file: old occurs 2 times, more than count=1: in lines 1, 3; give more of the text around it, or a count"},
		{"edit_file", given{"path": "file", "old": "c", "new": "x"},
			"Editing file: old does not occur in the file: read the file for its exact text, blanks included"},
	} {
		if got := c.refused(step.tool, step.args); got != step.want {
			t.Errorf("step %d, %s: got %q, want %q", i, step.tool, got, step.want)
		}
	}
	if b, err := os.ReadFile(filepath.Join(workspace, "file")); err != nil || string(b) != "a\nb\na\n" {
		t.Errorf("the file has %q, %v", b, err)
	}
}

// A file is read to its end with what each reply says about the next call.
func TestReadFileIsBounded(t *testing.T) {
	t.Parallel()
	c, workspace := filesWorld(t)
	text := strings.Repeat("é€𝄞\n", 20_000)
	for name, tt := range map[string]struct {
		content string
		extra   given
		chars   int // most of a reply's body
	}{
		"text":               {text, nil, 16_000},
		"text, more at once": {text, given{"max_bytes": 1 << 20}, 45_000},
		"base64":             {"\x00binary: \xff" + text, nil, 16_000},
	} {
		if err := os.WriteFile(filepath.Join(workspace, "file"), []byte(tt.content), 0o644); err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for {
			args := given{"path": "file", "offset": got.Len()}
			for k, v := range tt.extra {
				args[k] = v
			}
			head, body, _ := strings.Cut(c.call("read_file", args), "\n\n")
			if n := utf8.RuneCountInString(body); n > tt.chars || n < tt.chars/2 && field(head+"\n", "Shown") == "" {
				t.Fatalf("%s: %d characters", name, n)
			}
			if strings.Contains(head, "base64") {
				b, err := base64.StdEncoding.DecodeString(body)
				if err != nil {
					t.Fatal(err)
				}
				body = string(b)
			}
			got.WriteString(body)
			if !strings.Contains(head, "; continue with offset=") {
				break
			}
		}
		if got.String() != tt.content {
			t.Errorf("%s: %d bytes were read, not %d", name, got.Len(), len(tt.content))
		}
	}
}

func TestReadFileShowsPictures(t *testing.T) {
	t.Parallel()
	c, workspace := filesWorld(t)
	var small, wide bytes.Buffer
	for b, width := range map[*bytes.Buffer]int{&small: 3, &wide: 2000} {
		if err := png.Encode(b, image.NewGray(image.Rect(0, 0, width, 2))); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range map[string][]byte{"small": small.Bytes(), "wide": wide.Bytes(), "broken": small.Bytes()[:20]} {
		if err := os.WriteFile(filepath.Join(workspace, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	reply := c.request("tools/call", map[string]any{"name": "read_file", "arguments": given{"path": "small"}})
	if all := blocks(t, reply); len(all) != 2 || !strings.HasSuffix(all[0].Text, " bytes, image/png\n") ||
		all[1].Type != "image" || all[1].MIMEType != "image/png" || !bytes.Equal(all[1].Data, small.Bytes()) {
		t.Errorf("%+v", all)
	}
	for kind, text := range map[string]string{ // of one pixel
		"image/gif":  "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7",
		"image/webp": "UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==",
	} {
		content, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(workspace, "notes.txt"), content, 0o644); err != nil {
			t.Fatal(err)
		}
		reply := c.request("tools/call", map[string]any{"name": "read_file", "arguments": given{"path": "notes.txt"}})
		if all := blocks(t, reply); len(all) != 2 || all[1].Type != "image" || all[1].MIMEType != kind || !bytes.Equal(all[1].Data, content) {
			t.Errorf("%s: %+v", kind, all)
		}
	}
	for name, want := range map[string]string{"wide": "more than 1568 pixels a side", "broken": "it is no PNG"} {
		if got := c.call("read_file", given{"path": name}); !strings.HasSuffix(got, " bytes, image/png\nNote: not shown: "+want+"; max_bytes shows it as base64\n") {
			t.Errorf("%s: %s", name, got)
		}
		if got := c.call("read_file", given{"path": name, "max_bytes": 8}); !strings.Contains(got, "\nEncoding: base64\nShown: bytes 0 to 8; continue with offset=8\n\niVBORw0KGgo=") {
			t.Errorf("%s as base64: %s", name, got)
		}
	}
}

func TestFilesAreThoseOfTheWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config.Toolsets = []string{FilesToolset}
	mine, theirs := w.dial(engine.Scope{Workspace: t.TempDir()}), w.dial(engine.Scope{Workspace: t.TempDir()})
	mine.call("write_file", given{"path": "secret", "content": "x"})
	if got := theirs.call("list_files", nil); got != "Directory: .\nEntries: 0\n" {
		t.Error(got)
	}
	if got := theirs.refused("read_file", given{"path": "secret"}); got != "Reading secret: there is no such file or directory" {
		t.Error(got)
	}
}
