//go:build unix

package people

import (
	"bufio"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A page at an address that others can reach, or no browser, is refused, and nothing listens there.
func TestPageForOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := filepath.Join(t.TempDir(), "page")
	for at, want := range map[string]string{
		"0.0.0.0:0":     "~can be reached by others",
		"unix:" + path:  "~can be reached by others, or not by a browser",
		"nowhere":       `~"nowhere" is neither HOST:PORT nor unix:PATH`,
		"127.0.0.1:1x":  "~a port is a number",
		"192.0.2.1:800": "~listening at 192.0.2.1:800",
	} {
		w.run("page", "--no-browser", "-listen", at).expect(t, "", want, 1)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket is left")
	}
	if _, err := os.Lstat(w.place); err == nil {
		t.Error("the command has made the directory of the sockets")
	}
}

// The browser gets the address that is printed. If there is none, the page is served all the same.
func TestPageWithoutBrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	opened := make(chan string, 1) // buffered: it is read later
	w.browse = func(address string) error {
		opened <- address
		return errors.New("there is none")
	}
	out, done := w.begin(ctx, "page")
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != <-opened+"\n" || !strings.HasPrefix(line, "http://127.0.0.1:") {
		t.Errorf("it prints %q, %v", line, err)
	}
	end()
	if code := <-done; code != 0 {
		t.Errorf("exit status %d", code)
	}
}
