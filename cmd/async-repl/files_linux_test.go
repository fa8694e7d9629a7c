package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"asyncrepl/internal/test/polltest"
)

// filesOf returns the URL of files of the server whose MCP has that URL.
func filesOf(url string) string { return strings.TrimSuffix(url, "mcp") + "files/" }

// A file is sent up, worked on and fetched back. Another tenant has other files.
func TestFileIsSentUpWorkedOnAndFetchedBack(t *testing.T) {
	file := newTokens(t, "alice", "bob")
	s := serveWith(t, "-listen", "127.0.0.1:0", "-tokens", file.path, "-trusted-tenants", "-toolsets", "all")
	url := filesOf(s.url())
	alice, bob := file.tokens["alice"], file.tokens["bob"]
	if status, body := put(url+"data/numbers.txt", alice, "1\n2\n3\n").answer(t); status != http.StatusCreated {
		t.Fatal(status, body)
	}
	if r := newerClient(t, s.url(), alice).do("execute_python", "code", "s = sum(map(int, open('data/numbers.txt')))\nopen('sum.txt', 'w').write(str(s))", "wait_seconds", 60); r.Header("Status") != "completed" {
		t.Error(r)
	}
	for name, c := range map[string]struct {
		request
		status int
		says   string
	}{
		"fetched back":               {get(url+"sum.txt", alice), 200, "6"},
		"another tenant's":           {get(url+"sum.txt", bob), 404, "no such file"},
		"another's by its directory": {get(url+"%2e%2e/alice/sum.txt", bob), 403, "out of the workspace"},
		"put by the directory":       {put(url+"../alice/sum.txt", bob, "x"), 403, "out of the workspace"},
		"NUL":                        {get(url+"sum.txt%00", alice), 400, "can't be the path"},
		"no token":                   {get(url+"sum.txt", ""), 401, "a token is needed"},
		"a wrong token":              {put(url+"sum.txt", "guess", "x"), 401, "this token is not known"},
		"no file":                    {get(url, alice), 400, "can't be the path"},
		"beside":                     {get(strings.TrimSuffix(url, "/"), alice), 404, "not found"},
	} {
		if status, body := c.answer(t); status != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if got := newerClient(t, s.url(), bob).do("list_files"); !strings.Contains(string(got), "Entries: 0") {
		t.Errorf("bob sees %s", got)
	}
	if got := newerClient(t, s.url(), bob).refused("read_file", "path", filepath.Join(s.dir, "alice", "sum.txt")); !strings.Contains(got, "out of the workspace") {
		t.Errorf("bob reads %s", got)
	}
}

// A tenant that replaces its workspace by a link reaches the files of no other tenant: not over HTTP,
// by the tools or by an export. The server says so, and opens a new workspace by SIGHUP.
func TestWorkspaceReplacedByALink(t *testing.T) {
	notApart(t, "no job moves its workspace, which is mounted")
	t.Parallel()
	file := newTokens(t, "alice", "bob")
	s := serveWith(t, "-listen", "127.0.0.1:0", "-tokens", file.path, "-trusted-tenants", "-toolsets", "all", "-log-level", "info")
	url, alice, bob := filesOf(s.url()), file.tokens["alice"], file.tokens["bob"]
	if status, body := put(url+"secret", bob, "bob's").answer(t); status != http.StatusCreated {
		t.Fatal(status, body)
	}
	c := newerClient(t, s.url(), alice)
	if r := c.do("execute_python", "code", "import os\nw = os.getcwd()\nos.rename(w, w + '.old')\nos.symlink('bob', w)", "wait_seconds", 60); r.Header("Status") != "completed" {
		t.Fatal(r)
	}
	const why = "moved, replaced or deleted"
	for name, r := range map[string]request{"get": get(url+"secret", alice), "put": put(url+"owned", alice, "x")} {
		if status, body := r.answer(t); status != http.StatusConflict || !strings.Contains(body, why) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	for tool, args := range map[string][]any{
		"read_file": {"path", "secret"}, "write_file": {"path", "owned", "content", "x"}, "list_files": nil, "export_session": {"path", "owned.py"},
	} {
		if got := newerClient(t, s.url(), alice).refused(tool, args...); !strings.Contains(got, why) {
			t.Errorf("%s: %s", tool, got)
		}
	}
	if list, err := os.ReadDir(filepath.Join(s.dir, "bob")); err != nil || len(list) != 1 {
		t.Errorf("bob has %v, %v", list, err)
	}
	workspace := filepath.Join(s.dir, "alice")
	if err := os.Remove(workspace); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(workspace, 0o700); err != nil {
		t.Fatal(err)
	}
	s.hangUp("tokens reread")
	polltest.Until(t, "the new workspace", func() bool {
		status, _ := put(url+"mine", alice, "x").answer(t)
		return status == http.StatusCreated
	})
}

// /files is there only with its toolset.
func TestFilesNeedTheirToolset(t *testing.T) {
	s := serveWith(t, "-listen", "127.0.0.1:0")
	if status, _ := put(filesOf(s.url())+"f", "", "x").answer(t); status != http.StatusNotFound {
		t.Error(status)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "f")); !os.IsNotExist(err) {
		t.Errorf("the file: %v", err)
	}
}

// A token that is removed ends what is being sent up, which leaves nothing.
func TestRemovedTokenEndsAnUpload(t *testing.T) {
	file := newTokens(t, "alice")
	s := serveWith(t, "-listen", "127.0.0.1:0", "-tokens", file.path, "-toolsets", "files", "-log-level", "info")
	body, send := io.Pipe()
	defer send.Close()
	upload := put(filesOf(s.url())+"f", file.tokens["alice"], "")
	upload.body = body
	status := make(chan int, 1)
	go func() { // ends with the answer
		res, err := upload.send(t)
		if err != nil {
			status <- 0
			return
		}
		res.Body.Close()
		status <- res.StatusCode
	}()
	if _, err := send.Write([]byte("half")); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(s.dir, "alice")
	alice := *s
	alice.dir = dir
	polltest.Until(t, "the file to be written", func() bool { return alice.hasOpen(t, dir) })
	file.write(t, newTokens(t, "alice").lines(t)...)
	s.hangUp("tokens reread")
	if got := <-status; got > 0 && got < 400 {
		t.Error("the upload is answered with", got)
	}
	polltest.Until(t, "the file to be given up", func() bool { return !alice.hasOpen(t, dir) })
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("left: %v, %v", list, err)
	}
}

// hasOpen reports whether the server has a file below dir open, with a name or without.
func (s *started) hasOpen(t *testing.T, dir string) bool {
	fds := fmt.Sprintf("/proc/%d/fd", s.inner())
	list, err := os.ReadDir(fds)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(list, func(e os.DirEntry) bool {
		link, _ := os.Readlink(filepath.Join(fds, e.Name())) // an error: it has been closed
		return strings.HasPrefix(link, dir+"/")
	})
}

// A full disk is an error that says so, and leaves nothing.
func TestFilesOnAFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("mounts a disk")
	}
	dir := filepath.Join(t.TempDir(), "full")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s := prepare(t, "REPL_WORKDIR="+dir, "REPL_TRANSPORT=http", "REPL_PORT=0", "REPL_TOOLSETS=files")
	s.onDisk(dir, "size=64k")
	s.begin()
	url := s.url()
	large := strings.Repeat("x", 100_000)
	if status, body := put(filesOf(url)+"new/f", "", large).answer(t); status != http.StatusInsufficientStorage || !strings.Contains(body, "the disk or the quota is full") {
		t.Errorf("%d %s", status, body)
	}
	c := newerClient(t, url, "")
	if got := c.refused("write_file", "path", "new/f", "content", large); !strings.Contains(got, "Writing new/f: the disk or the quota is full") {
		t.Error(got)
	}
	if got := c.do("list_files", "recursive", true); !strings.Contains(string(got), "Entries: 0") {
		t.Error(got)
	}
	if status, body := put(filesOf(url)+"f", "", "little").answer(t); status != http.StatusCreated {
		t.Errorf("a file that fits: %d %s", status, body)
	}
}
