package relay_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/files"
	"asyncrepl/internal/files/fileserver"
	"asyncrepl/internal/mcp/httpserver"
	"asyncrepl/internal/serve/metrics"
	"asyncrepl/internal/serve/relay"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/internal/test/racetest"
	"asyncrepl/jobs/jobstest"
)

// playProcess has the test binary play a tenant's process. Its value is the workspace.
const playProcess = "RELAY_TEST_PROCESS"

func TestMain(m *testing.M) {
	if dir := os.Getenv(playProcess); dir != "" {
		l, err := net.FileListener(os.NewFile(3, "socket"))
		if err == nil {
			err = newProcess(dir).Serve(l)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// newProcess returns the server of a tenant's process, with a few tools and the files of dir.
func newProcess(dir string) *httpserver.Server {
	store := new(files.Store)
	return httpserver.New(httpserver.Config{
		New: func(leave context.Context, _ httpserver.Caller) *httpserver.MCPServer {
			s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "0"}, nil)
			for name, f := range map[string]func(context.Context, *mcp.CallToolRequest) string{
				"echo": func(_ context.Context, req *mcp.CallToolRequest) string { return string(req.Params.Arguments) },
				"wait": func(ctx context.Context, _ *mcp.CallToolRequest) string {
					select {
					case <-ctx.Done():
					case <-leave.Done():
					}
					return "waited"
				},
			} {
				s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: f(ctx, req)}}}, nil
				})
			}
			return s
		},
		Find: func(token string) (httpserver.Caller, bool) {
			return httpserver.Caller{Tenant: "t", Token: token}, true
		},
		Files:  func(httpserver.Caller) httpserver.Handler { return fileserver.New(store.Dir(dir)) },
		Counts: func() metrics.Counts { return metrics.Counts{} },
	})
}

// A process is a tenant's process in the test: a child, which a connection starts if there is none.
type process struct {
	dir string // the workspace

	mu    sync.Mutex
	cmd   *exec.Cmd     // nil: none runs
	ended chan struct{} // closed when cmd has been reaped
}

const lost = "the jobs are lost"

func (p *process) Lost(error) string { return lost }

func (p *process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd != nil
}

func (p *process) socket() string { return filepath.Join(p.dir, "..", "socket") }

func (p *process) Dial(ctx context.Context) (net.Conn, error) {
	for {
		p.mu.Lock()
		if p.cmd == nil {
			if err := p.start(); err != nil {
				p.mu.Unlock()
				return nil, err
			}
		}
		ended := p.ended
		p.mu.Unlock()
		c, err := net.Dial("unix", p.socket())
		if err == nil {
			return c, nil
		}
		select {
		case <-ended: // another one is started
		case <-time.After(time.Minute):
			return nil, err
		}
	}
}

func (p *process) start() error {
	os.Remove(p.socket())
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: p.socket(), Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	defer l.Close()
	file, err := l.File()
	if err != nil {
		return err
	}
	defer file.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), playProcess+"="+p.dir)
	cmd.Stderr, cmd.ExtraFiles = os.Stderr, []*os.File{file}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	p.cmd, p.ended = cmd, ended
	go func() { // owned by the test, which kills the child and waits
		cmd.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.cmd = nil
		close(ended)
	}()
	return nil
}

// kill kills the process and waits for its end.
func (p *process) kill() {
	p.mu.Lock()
	cmd, ended := p.cmd, p.ended
	p.mu.Unlock()
	if cmd != nil {
		cmd.Process.Kill()
		<-ended
	}
}

// A local is a process that is none: a server of the test.
type local string

func (l local) Dial(context.Context) (net.Conn, error) { return net.Dial("unix", string(l)) }
func (l local) Running() bool                          { return true }
func (l local) Lost(err error) string                  { return lost + ": " + err.Error() }

// serveLocal serves at a socket until the end of the test.
func serveLocal(t testing.TB, h http.Handler) local {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	go s.Serve(l) // owned by the test, whose end closes it
	t.Cleanup(func() { s.Close() })
	return local(path)
}

// localProcess serves what a process does, in the test.
func localProcess(t testing.TB, dir string) local {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := newProcess(dir)
	go s.Serve(l) // owned by the test, whose end closes it
	t.Cleanup(func() { s.Shutdown(context.Background()) })
	return local(path)
}

// relaying starts a server that passes requests on, and returns its URL.
func relaying(t testing.TB, b relay.Backend) (url string) {
	t.Helper()
	tenant := relay.New(b, func(string) bool { return true }, slog.New(slog.DiscardHandler))
	s := httpserver.New(httpserver.Config{Relay: func(httpserver.Caller) *relay.Tenant { return tenant }})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- s.Serve(l) }() // owned by the test, which waits for it
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s.Shutdown(ctx)
		if err := <-served; err != nil {
			t.Error(err)
		}
		tenant.Close()
	})
	return "http://" + l.Addr().String()
}

// childProcess returns a process that ends with the test.
func childProcess(t testing.TB) *process {
	t.Helper()
	top := t.TempDir()
	dir := filepath.Join(top, "w")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p := &process{dir: dir}
	t.Cleanup(p.kill)
	return p
}

// newClient returns a client with connections of its own.
func newClient(t testing.TB) *http.Client {
	tr := &http.Transport{MaxIdleConnsPerHost: 100, DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// lastID is the id of the last call.
var lastID atomic.Int64

// post sends a message of the newer era, or of a session of the older one, and returns the answer.
func post(ctx context.Context, c *http.Client, url, session, tool, arguments string) (string, error) {
	id := lastID.Add(1)
	meta := `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	if session != "" {
		meta = ""
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s%s}}`, id, tool, arguments, meta)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/mcp", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Idempotency-Key", "x") // net/http sends such a request again
	r.GetBody = nil                      // except this client
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
		r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	} else {
		r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		r.Header.Set("Mcp-Method", "tools/call")
		r.Header.Set("Mcp-Name", tool)
	}
	res, err := c.Do(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, answer)
	}
	return string(answer), err
}

// begin begins a session of the older era.
func begin(t testing.TB, c *http.Client, url string) (session string) {
	t.Helper()
	hello := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	r, err := http.NewRequest(http.MethodPost, url+"/mcp", strings.NewReader(hello))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	io.Copy(io.Discard, res.Body)
	return res.Header.Get("Mcp-Session-Id")
}

// TestNoAnswerIsCut: of many calls, of both eras and on many connections, each gets its own answer,
// complete. .ci/long makes 100,000.
func TestNoAnswerIsCut(t *testing.T) {
	t.Parallel()
	const clients = 16
	calls := jobstest.Rounds(t, 2000)
	url := relaying(t, localProcess(t, t.TempDir()))
	c := newClient(t)
	sessions := []string{"", begin(t, c, url)}
	var group sync.WaitGroup
	var made atomic.Int64
	for i := range clients {
		group.Go(func() {
			for n := made.Add(1); n <= int64(calls); n = made.Add(1) {
				// Some arguments and answers take several reads.
				arguments := fmt.Sprintf(`{"n":"%d %s"}`, n, strings.Repeat("x", map[bool]int{true: 100_000, false: 10}[n%50 == 0]))
				answer, err := post(t.Context(), c, url, sessions[i%2], "echo", arguments)
				if err != nil || !strings.Contains(answer, fmt.Sprintf(`{\"n\":\"%d x`, n)) || !strings.HasSuffix(answer, "\n\n") {
					t.Errorf("call %d: %v %.200s", n, err, answer)
					return
				}
			}
		})
	}
	group.Wait()
}

// TestFilesAreRelayed: 100 MB arrive as they were sent, in both directions, and through little memory.
func TestFilesAreRelayed(t *testing.T) { // not parallel: it measures memory
	size := int64(100_000_000)
	if racetest.Enabled {
		size = 20_000_000
	}
	url, c := relaying(t, localProcess(t, t.TempDir()))+"/files/f", newClient(t)
	for _, chunked := range []bool{false, true} {
		random := func() io.Reader { return io.LimitReader(rand.NewChaCha8([32]byte{1}), size) }
		sent, received := sha256.New(), sha256.New()
		r, err := http.NewRequest(http.MethodPut, url, io.TeeReader(random(), sent))
		if err != nil {
			t.Fatal(err)
		}
		if !chunked {
			r.ContentLength = size
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		res, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != map[bool]int{false: http.StatusCreated, true: http.StatusNoContent}[chunked] || res.Header.Get("ETag") == "" {
			t.Errorf("%s, %v", res.Status, res.Header)
		}
		if res, err = c.Get(url); err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(received, res.Body)
		res.Body.Close()
		if err != nil || n != size || !bytes.Equal(sent.Sum(nil), received.Sum(nil)) {
			t.Errorf("%d bytes, %v, the same: %v", n, err, bytes.Equal(sent.Sum(nil), received.Sum(nil)))
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > uint64(size)/4 {
			t.Errorf("%d bytes were allocated for %d", took, size)
		}
	}
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Range", "bytes=10-19")
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if part, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusPartialContent || len(part) != 10 {
		t.Errorf("%v, %s, %d bytes", err, res.Status, len(part))
	}
}

// TestBodyThatIsNotWanted: an answer that comes before the body has been sent arrives complete. Its
// connection is closed, although the client sends one more part of the body and then waits.
func TestBodyThatIsNotWanted(t *testing.T) {
	t.Parallel()
	address := strings.TrimPrefix(relaying(t, localProcess(t, t.TempDir())), "http://")
	for _, length := range []string{"Content-Length: 10000000", "Transfer-Encoding: chunked"} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(20 * time.Second)) // the server waits for a body for 30 s
		io.WriteString(c, "PUT /files/x HTTP/1.1\r\nHost: "+address+"\r\nContent-Range: bytes 0-1/2\r\n"+length+"\r\n\r\n")
		r := bufio.NewReader(c)
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(length, err)
		}
		io.WriteString(c, "5\r\nsome \r\n") // whatever its length
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), "without Content-Range") || !res.Close {
			t.Errorf("%s: %v, %s: %s, closing: %v", length, err, res.Status, text, res.Close)
		}
		if _, err := r.ReadByte(); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection stays open", length)
		}
	}
}

// TestWebSocketIsRelayed: a connection that the process switches to WebSocket is passed on in both
// directions, until one side ends it.
func TestWebSocketIsRelayed(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 2) // one for each connection
	b := serveLocal(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\nSet-Cookie: a=b\r\n\r\n")
		_, err = io.Copy(c, rw)
		ended <- err
	}))
	address := strings.TrimPrefix(relaying(t, b), "http://")
	for range 2 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, "GET /mcp HTTP/1.1\r\nHost: "+address+"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n")
		r := bufio.NewReader(c)
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != http.StatusSwitchingProtocols || res.Header.Get("Sec-Websocket-Accept") != "x" || res.Header.Get("Set-Cookie") != "" {
			t.Fatalf("%s, %v", res.Status, res.Header)
		}
		text := strings.Repeat("0123456789", 100_000)
		go io.WriteString(c, text) // ends when all is read
		got := make([]byte, len(text))
		if _, err := io.ReadFull(r, got); err != nil || string(got) != text {
			t.Errorf("%v, the same: %v", err, string(got) == text)
		}
		c.Close()
		if err := <-ended; err != nil && !errors.Is(err, net.ErrClosed) {
			t.Logf("the process reads %v", err)
		}
	}
}

// TestProcessesThatAreKilled: each call is answered, whether its process is killed before, in the
// middle or after, and the next one starts another process. .ci/long makes 200 rounds.
func TestProcessesThatAreKilled(t *testing.T) {
	t.Parallel()
	rounds, seed := jobstest.Storm(t, 10)
	random := rand.New(rand.NewPCG(seed, 0))
	p := childProcess(t)
	url, c := relaying(t, p), newClient(t)
	for round := range rounds {
		const calls = 8
		answers := make(chan string, 2*calls)
		for i := range calls {
			for _, tool := range []string{"echo", "wait"} {
				go func() { // owned by the test, which waits for the answer
					answer, err := post(t.Context(), c, url, "", tool, fmt.Sprintf(`{"n":%d}`, i))
					if err != nil {
						answer = err.Error()
					}
					answers <- answer
				}()
			}
		}
		polltest.Until(t, "a process", p.Running)
		time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond) // chance, not a wait
		for waiting := 2 * calls; waiting > 0; {
			p.kill()
			select {
			case a := <-answers:
				waiting--
				if !strings.Contains(a, `\"n\"`) && !strings.Contains(a, `"text":"`+lost+`"`) {
					t.Errorf("round %d: %s", round, a)
				}
			default:
			}
		}
		if a, err := post(t.Context(), c, url, "", "echo", `{"n":1}`); err != nil || !strings.Contains(a, `\"n\"`) {
			t.Errorf("round %d, after it: %v %s", round, err, a)
		}
	}
}

// TestReusedConnectionsOfAKilledProcess: a call that finds its connection closed is made on another
// one, of the next process, and never twice.
func TestReusedConnectionsOfAKilledProcess(t *testing.T) {
	t.Parallel()
	p := childProcess(t)
	url, c := relaying(t, p), newClient(t)
	for range jobstest.Rounds(t, 10) {
		for range 3 {
			if a, err := post(t.Context(), c, url, "", "echo", `{"n":1}`); err != nil || !strings.Contains(a, `\"n\"`) {
				t.Fatalf("%v %s", err, a)
			}
		}
		p.kill()
	}
}

// TestCallsAreNotMadeTwice: a call that a process has received, and whose connection ends without an
// answer, is not sent to it again. A file is asked for again.
func TestCallsAreNotMadeTwice(t *testing.T) {
	t.Parallel()
	var calls, reads atomic.Int64
	b := serveLocal(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		n := &calls
		if r.Method == http.MethodGet {
			n = &reads
		}
		if n.Add(1) == 2 { // on a connection that was used before
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			c.Close()
			return
		}
		io.WriteString(w, "done")
	}))
	url, c := relaying(t, b), newClient(t)
	var answers []string
	for range 3 {
		a, err := post(t.Context(), c, url, "", "echo", `{}`)
		answers = append(answers, fmt.Sprint(a, err))
	}
	if calls.Load() != 3 || !strings.Contains(answers[1], lost) || answers[0] != "done<nil>" || answers[2] != "done<nil>" {
		t.Errorf("%d calls, answers %q", calls.Load(), answers)
	}
	for range 2 {
		res, err := c.Get(url + "/files/x")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || string(text) != "done" {
			t.Errorf("%v, %s", err, text)
		}
	}
	if reads.Load() != 3 {
		t.Errorf("%d reads", reads.Load())
	}
}

// plainProxy returns the URL of a reverse proxy that does nothing else but read the body first. If it
// passed bodies on as they come, it would cut some answers.
func plainProxy(t testing.TB, b local) (url string) {
	transport := &http.Transport{
		MaxIdleConnsPerHost: 100, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return b.Dial(ctx) },
	}
	t.Cleanup(transport.CloseIdleConnections)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "tenant"
			r.Out.Header.Set("Authorization", "Bearer x")
		},
		Transport: transport, FlushInterval: -1, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo),
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	})}
	go s.Serve(l) // owned by the test, whose end closes it
	t.Cleanup(func() { s.Close() })
	return "http://" + l.Addr().String()
}

// Aim: 1.3x the same call through a reverse proxy that does nothing else but read the body first.
func BenchmarkRelay(b *testing.B) {
	process := childProcess(b)
	if c, err := process.Dial(b.Context()); err != nil {
		b.Fatal(err)
	} else {
		c.Close()
	}
	for _, era := range []string{"newer", "older"} {
		b.Run(era, func(b *testing.B) {
			urls := []string{relaying(b, process), plainProxy(b, local(process.socket()))}
			c, sessions := newClient(b), []string{"", ""}
			if era == "older" {
				sessions = []string{begin(b, c, urls[0]), begin(b, c, urls[1])}
			}
			block := func(which int) time.Duration {
				took := make([]time.Duration, 100)
				for i := range took {
					begun := time.Now()
					if _, err := post(b.Context(), c, urls[which], sessions[which], "echo", `{"n":1}`); err != nil {
						b.Fatal(err)
					}
					took[i] = time.Since(begun)
				}
				slices.Sort(took)
				return took[len(took)/2]
			}
			var ratios []float64
			var ours time.Duration
			for b.Loop() {
				for range 20 {
					ours = block(0)
					ratios = append(ratios, float64(ours)/float64(block(1)))
				}
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/4], "x-floor-lower-quartile")
			b.ReportMetric(ratios[len(ratios)/2], "x-floor-median")
			b.ReportMetric(float64(ours.Microseconds()), "µs")
		})
	}
}
