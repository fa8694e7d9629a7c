package fileserver

import (
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/files"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs/jobstest"
)

// serving returns the URL of a server of the files of a directory.
func serving(t testing.TB) (url, workspace string) {
	t.Helper()
	workspace = t.TempDir()
	s := httptest.NewServer(http.StripPrefix("/files/", New(new(files.Store).Dir(workspace))))
	t.Cleanup(s.Close)
	return s.URL + "/files/", workspace
}

// A request is what a test sends. Its headers are pairs.
type request struct {
	method, url string
	body        io.Reader
	header      []string
}

// send returns the answer and its body.
func (r request) send(t testing.TB) (*http.Response, string) {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), r.method, r.url, r.body))(t)
	for i := 0; i < len(r.header); i += 2 {
		req.Header.Set(r.header[i], r.header[i+1])
	}
	res := must.Get(http.DefaultClient.Do(req))(t)
	defer res.Body.Close()
	body := must.Get(io.ReadAll(res.Body))(t)
	return res, string(body)
}

// status returns the status of the answer.
func (r request) status(t testing.TB) int {
	t.Helper()
	res, _ := r.send(t)
	return res.StatusCode
}

func sendUp(url, content string, header ...string) request {
	return request{http.MethodPut, url, strings.NewReader(content), header}
}

func fetch(url string, header ...string) request { return request{http.MethodGet, url, nil, header} }

func TestFileIsSentUpAndFetchedBack(t *testing.T) {
	url, workspace := serving(t)
	if res, body := sendUp(url+"dir/a%20file", "one").send(t); res.StatusCode != http.StatusCreated || body != "" || res.Header.Get("ETag") == "" {
		t.Errorf("%s %q %v", res.Status, body, res.Header)
	}
	if b, err := os.ReadFile(filepath.Join(workspace, "dir", "a file")); err != nil || string(b) != "one" {
		t.Errorf("%q, %v", b, err)
	}
	replaced, _ := sendUp(url+"dir/a%20file", "two two").send(t)
	if replaced.StatusCode != http.StatusNoContent {
		t.Error(replaced.Status)
	}
	res, body := fetch(url + "dir/a%20file").send(t)
	if res.StatusCode != http.StatusOK || body != "two two" || res.Header.Get("ETag") != replaced.Header.Get("ETag") || res.ContentLength != 7 {
		t.Errorf("%s %q %v", res.Status, body, res.Header)
	}
	if res, body := (request{http.MethodHead, url + "dir/a%20file", nil, nil}).send(t); res.StatusCode != http.StatusOK || body != "" || res.ContentLength != 7 {
		t.Errorf("HEAD: %s %q %d", res.Status, body, res.ContentLength)
	}
}

// No browser takes a file for a page of the server.
func TestFileIsNoPage(t *testing.T) {
	url, _ := serving(t)
	sendUp(url+"a%20file", "<script>").send(t)
	res, _ := fetch(url + "a%20file").send(t)
	for name, want := range map[string]string{
		"Content-Type": "application/octet-stream", "Content-Disposition": `attachment; filename="a file"`, "X-Content-Type-Options": "nosniff",
		"Cross-Origin-Resource-Policy": "same-origin", "Content-Security-Policy": "sandbox", "Accept-Ranges": "bytes",
	} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestRanges(t *testing.T) {
	url, _ := serving(t)
	res, _ := sendUp(url+"f", "0123456789").send(t)
	tag := res.Header.Get("ETag")
	for name, tt := range map[string]struct {
		header []string
		status int
		want   string
	}{
		"middle":                {[]string{"Range", "bytes=2-4"}, 206, "234"},
		"end":                   {[]string{"Range", "bytes=-3"}, 206, "789"},
		"beyond":                {[]string{"Range", "bytes=10-"}, 416, "invalid range: failed to overlap\n"},
		"of this file":          {[]string{"Range", "bytes=8-", "If-Range", tag}, 206, "89"},
		"of another file":       {[]string{"Range", "bytes=8-", "If-Range", `"x"`}, 200, "0123456789"},
		"this file":             {[]string{"If-Match", tag}, 200, "0123456789"},
		"another file":          {[]string{"If-Match", `"x"`}, 412, ""},
		"only if it is another": {[]string{"If-None-Match", tag}, 304, ""},
	} {
		if res, body := fetch(url+"f", tt.header...).send(t); res.StatusCode != tt.status || body != tt.want {
			t.Errorf("%s: %s %q", name, res.Status, body)
		}
	}
}

func TestPreconditionsOfPut(t *testing.T) {
	url, workspace := serving(t)
	file := filepath.Join(workspace, "f")
	long, soon := time.Unix(1e9, 0).UTC().Format(http.TimeFormat), time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	for name, tt := range map[string]struct {
		header     []string // %s is the tag of the file
		there, not int      // the status if there is a file, and if not
	}{
		"none":              {nil, 204, 201},
		"this file":         {[]string{"If-Match", "%s"}, 204, 412},
		"one of some":       {[]string{"If-Match", `"x", %s`}, 204, 412},
		"a weak tag":        {[]string{"If-Match", "W/%s"}, 412, 412},
		"another file":      {[]string{"If-Match", `"x"`}, 412, 412},
		"any file":          {[]string{"If-Match", "*"}, 204, 412},
		"no file":           {[]string{"If-None-Match", "*"}, 412, 201},
		"not this file":     {[]string{"If-None-Match", "W/%s"}, 412, 201},
		"changed since":     {[]string{"If-Unmodified-Since", long}, 412, 412},
		"not changed since": {[]string{"If-Unmodified-Since", soon}, 204, 412},
		"both":              {[]string{"If-Match", "%s", "If-Unmodified-Since", long}, 204, 412},
	} {
		for exists, want := range map[bool]int{true: tt.there, false: tt.not} {
			os.Remove(file)
			tag := `"-"`
			if exists {
				res, _ := sendUp(url+"f", "before").send(t)
				tag = res.Header.Get("ETag")
			}
			header := make([]string, len(tt.header))
			for i, h := range tt.header {
				header[i] = strings.ReplaceAll(h, "%s", tag)
			}
			if got := sendUp(url+"f", "after", header...).status(t); got != want {
				t.Errorf("%s, with a file: %t: %d, want %d", name, exists, got, want)
			}
		}
	}
}

// Of many clients that replace the same version, one succeeds.
func TestIfMatchLetsOneWin(t *testing.T) {
	url, _ := serving(t)
	res, _ := sendUp(url+"f", "before").send(t)
	tag := res.Header.Get("ETag")
	results := make(chan int)
	const clients = 20
	for i := range clients {
		go func() { results <- sendUp(url+"f", fmt.Sprint(i), "If-Match", tag).status(t) }() // awaited below
	}
	count := map[int]int{}
	for range clients {
		count[<-results]++
	}
	if count[http.StatusNoContent] != 1 || count[http.StatusPreconditionFailed] != clients-1 {
		t.Errorf("statuses %v", count)
	}
}

// hostile puts into a workspace what must not be served, and returns the path of a file outside
// that links in it lead to.
func hostile(t *testing.T, workspace string) (outside string) {
	t.Helper()
	outside = filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(outside, []byte("classified"), 0o644))
	for name, to := range map[string]string{"out": outside, "winding": "../../.." + outside} {
		must.Do(t, os.Symlink(to, filepath.Join(workspace, name)))
	}
	must.Do(t, os.Mkdir(filepath.Join(workspace, "dir"), 0o755))
	must.Do(t, syscall.Mkfifo(filepath.Join(workspace, "fifo"), 0o644))
	return outside
}

func TestRequestsThatAreRefused(t *testing.T) {
	url, workspace := serving(t)
	outside := hostile(t, workspace)
	sendUp(url+"f", "x").send(t)
	for name, tt := range map[string]struct {
		method, path string
		header       []string
		want         int
	}{
		"missing":               {"GET", "missing", nil, 404},
		"nothing":               {"GET", "", nil, 400},
		"a directory":           {"GET", "dir", nil, 409},
		"a directory, put":      {"PUT", "dir", nil, 409},
		"a new directory":       {"PUT", "new/", nil, 409},
		"below a file":          {"PUT", "f/x", nil, 400},
		"FIFO":                  {"GET", "fifo", nil, 409},
		"FIFO, put":             {"PUT", "fifo", nil, 409},
		"parent":                {"GET", "%2e%2e/secret", nil, 403},
		"parent, put":           {"PUT", "dir/%2e%2e/..%2f%2e./secret", nil, 403},
		"absolute":              {"GET", outside, nil, 400},
		"absolute, put":         {"PUT", "%2ftmp/x", nil, 400},
		"a link that leads out": {"GET", "out", nil, 403},
		"a winding link":        {"PUT", "winding", nil, 403},
		"NUL":                   {"GET", "f%00", nil, 400},
		"NUL, put":              {"PUT", "f%00x", nil, 400},
		"long":                  {"PUT", strings.Repeat("x", 256), nil, 400},
		"delete":                {"DELETE", "f", nil, 405},
		"post":                  {"POST", "f", nil, 405},
		"another site":          {"GET", "f", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"another port":          {"PUT", "f", []string{"Sec-Fetch-Site", "same-site"}, 403},
		"a part":                {"PUT", "f", []string{"Content-Range", "bytes 0-0/9"}, 400},
		"compressed":            {"PUT", "f", []string{"Content-Encoding", "gzip"}, 415},
		"by hand":               {"GET", "f", []string{"Sec-Fetch-Site", "none"}, 200},
		"its own page":          {"GET", "f", []string{"Sec-Fetch-Site", "same-origin"}, 200},
	} {
		r := request{tt.method, url + tt.path, nil, tt.header}
		if tt.method == http.MethodPut {
			r.body = strings.NewReader("evil")
		}
		res, body := r.send(t)
		if res.StatusCode != tt.want || tt.want != 200 && (body == "" || strings.Contains(body, "classified")) {
			t.Errorf("%s: %s %q, want %d", name, res.Status, body, tt.want)
		}
		if res.Header.Get("Content-Security-Policy") != "sandbox" || !strings.HasPrefix(res.Header.Get("Content-Disposition"), "attachment") {
			t.Errorf("%s: headers %v", name, res.Header)
		}
	}
	for path, want := range map[string]string{outside: "classified", filepath.Join(workspace, "f"): "x"} {
		if b, err := os.ReadFile(path); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", path, b, err)
		}
	}
}

// below returns the paths of all that is below a directory.
func below(t *testing.T, dir string) string {
	var all []string
	must.Do(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, _ fs.DirEntry, err error) error {
		if path != "." {
			all = append(all, path)
		}
		return err
	}))
	return strings.Join(all, " ")
}

// While a file is sent up, readers see the old one, and nothing else.
func TestFileAppearsWhenItIsComplete(t *testing.T) {
	url, workspace := serving(t)
	sendUp(url+"f", "old").send(t)
	body, send := io.Pipe()
	answer := make(chan int)
	go func() { answer <- request{http.MethodPut, url + "f", body, nil}.status(t) }() // awaited below
	must.Get(send.Write([]byte("new")))(t)
	polltest.Until(t, "the file to be written", func() bool { return isWritten(t, workspace) })
	if got := below(t, workspace); got != "f" && hasNamelessFiles(workspace) {
		t.Errorf("in the middle there are %s, which a server that is killed would leave", got)
	}
	if _, got := fetch(url + "f").send(t); got != "old" {
		t.Errorf("in the middle: %q", got)
	}
	send.Close()
	if got := <-answer; got != http.StatusNoContent {
		t.Error(got)
	}
	if _, got := fetch(url + "f").send(t); got != "new" || below(t, workspace) != "f" {
		t.Errorf("at the end: %q, and there are %s", got, below(t, workspace))
	}
}

// A body of no known length is read up to the limit.
func TestLimitOfSize(t *testing.T) {
	const size = 100_000
	workspace := t.TempDir()
	s := httptest.NewServer(http.StripPrefix("/", &handler{new(files.Store).Dir(workspace), size, oneTime}))
	defer s.Close()
	for _, length := range []int64{size + 1, size} {
		body := struct{ io.Reader }{strings.NewReader(strings.Repeat("x", int(length)))} // of which no length is sent
		res, text := request{http.MethodPut, s.URL + "/f", body, nil}.send(t)
		if length > size && (res.StatusCode != http.StatusRequestEntityTooLarge || below(t, workspace) != "") {
			t.Errorf("a byte more: %s %s, and there are %s", res.Status, text, below(t, workspace))
		}
		if length == size && res.StatusCode != http.StatusCreated {
			t.Errorf("as large as allowed: %s %s", res.Status, text)
		}
	}
}

// Over HTTP/2 the time for one read or write is that of a stream.
func TestFilesOverHTTP2(t *testing.T) {
	workspace := t.TempDir()
	s := httptest.NewUnstartedServer(http.StripPrefix("/", New(new(files.Store).Dir(workspace))))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	text := strings.Repeat("0123456789", 500_000)
	for _, r := range []request{sendUp(s.URL+"/f", text), fetch(s.URL + "/f"), sendUp(s.URL+"/f", text), fetch(s.URL + "/f")} {
		req := must.Get(http.NewRequestWithContext(t.Context(), r.method, r.url, r.body))(t)
		res := must.Get(s.Client().Do(req))(t)
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.ProtoMajor != 2 || res.StatusCode >= 300 || r.method == http.MethodGet && string(body) != text {
			t.Errorf("%s: %s %s, %d bytes, %v", r.method, res.Proto, res.Status, len(body), err)
		}
	}
}

// Many requests, broken ones among them, leave neither a descriptor nor a goroutine nor a file.
func TestRequestsLeaveNothing(t *testing.T) {
	needtest.Linux(t, "a list of descriptors")
	url, workspace := serving(t)
	try := func() {
		for range jobstest.Rounds(t, 200) {
			sendUp(url+"f", "content").send(t)
			fetch(url+"f", "Range", "bytes=2-3").send(t)
			fetch(url + "missing").send(t)
			fetch(url + "%2e%2e/x").send(t)
			sendUp(url+"f", "content", "If-Match", `"x"`).send(t)
			raw(t, url, "PUT /files/f HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf", func(c net.Conn) { c.(*net.TCPConn).CloseWrite() })
		}
	}
	count := func() (descriptors, goroutines int) {
		return len(must.Get(os.ReadDir("/proc/self/fd"))(t)), runtime.NumGoroutine()
	}
	sendUp(url+"f", "content").send(t)
	descriptors, goroutines := count()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it would close forgotten files
	try()
	polltest.Check(t, func() error {
		if d, g := count(); d > descriptors || g > goroutines {
			return fmt.Errorf("%d descriptors and %d goroutines, before %d and %d", d, g, descriptors, goroutines)
		}
		return nil
	})
	if got := below(t, workspace); got != "f" {
		t.Errorf("there are %q", got)
	}
}

// A request for no file says so.
func TestNoPath(t *testing.T) {
	url, _ := serving(t)
	if _, got := fetch(url).send(t); got != "reading \"\": this can't be the path of a file\n" {
		t.Errorf("%q", got)
	}
}
