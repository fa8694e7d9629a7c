//go:build unix

package hub

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"golang.org/x/sys/unix"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/page"
)

// A server is an engine.
type server struct {
	name  sockets.Name
	place string          // the directory of its socket
	ctx   context.Context // done when the engine has ended
	stop  context.CancelFunc
	http  *http.Transport

	// Guarded by the Hub's mu.
	met                bool      // it has said who it is
	again              time.Time // when to ask it again, if it has not
	workspace, version string
	up                 bool // its list is followed
	settled            bool // its list has come, or could not
	ended              bool // it has no socket any more
	round              int  // counts its lists
	jobs               int  // how many it owns
	said               int  // the lines about it
}

func newServer(ctx context.Context, name sockets.Name, place string) *server {
	s := &server{name: name, place: place}
	s.ctx, s.stop = context.WithCancel(ctx)
	s.http = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, _, err := s.connect(ctx)
			if err != nil {
				return nil, err
			}
			return c, nil
		},
		DisableCompression: true, // little can be much
		MaxIdleConns:       2, IdleConnTimeout: 10 * time.Second,
		MaxResponseHeaderBytes: 16 << 10, ResponseHeaderTimeout: answerTime,
	}
	return s
}

// id returns the name of the engine on the page.
func (s *server) id() string { return s.name.String() }

func (s *server) String() string { return fmt.Sprintf("the engine of process %d", s.name.PID) }

// connect connects to the engine in the role of a page. The error is ErrGone if it has ended.
func (s *server) connect(ctx context.Context) (*sockets.Conn, sockets.Welcome, error) {
	dirs, errs := sockets.OpenAll([]string{s.place})
	switch {
	case len(errs) > 0:
		return nil, sockets.Welcome{}, errs[0]
	case len(dirs) == 0:
		return nil, sockets.Welcome{}, sockets.ErrGone
	}
	defer dirs[0].Close()
	return dirs[0].Dial(ctx, s.name, sockets.Hello{Role: sockets.Page})
}

// A refusal is an answer that is an error, for the page.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

// refusals are the errors that an engine answers with.
var refusals = []int{
	http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusGone, http.StatusRequestEntityTooLarge,
	http.StatusUnsupportedMediaType, http.StatusServiceUnavailable,
}

const (
	// answerTime bounds an answer: the variables of a busy session take as long as its worker.
	answerTime = 30 * time.Second
	// maxAnswer bounds a value that an engine answers with, in bytes.
	maxAnswer = 16 << 20
)

// ask makes a request, and returns the answer if it is no error. The caller closes its body.
func (s *server) ask(ctx context.Context, method, path, kind string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://async-repl"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", kind)
	answer, err := s.http.RoundTrip(r) // a RoundTripper follows no redirect
	if err != nil {
		return nil, fmt.Errorf("%s can't be asked: %v", s, oneLine(err.Error()))
	}
	switch answer.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		return answer, nil
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxLine))
	if !slices.Contains(refusals, answer.StatusCode) {
		err = fmt.Errorf("status %d", answer.StatusCode)
	}
	if err != nil {
		return nil, s.broken(err)
	}
	return nil, &refusal{answer.StatusCode, oneLine(string(bytes.TrimSpace(text)))}
}

// broken returns the error of an answer that is none of the protocol.
func (s *server) broken(err error) error {
	return fmt.Errorf("%s does not answer as one: %s", s, oneLine(err.Error()))
}

// get asks for a value, and decodes it.
func (s *server) get(ctx context.Context, path string, to any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	answer, err := s.ask(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer)) // a longer one is cut, and no JSON then
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		return s.broken(err)
	}
	return nil
}

const (
	maxMessage  = 1 << 20          // bytes of a message, in both directions
	dialTime    = 5 * time.Second  // bounds the begin of a stream
	silenceTime = 75 * time.Second // bounds the time between two signs of life: an engine pings every 30 s
	writeTime   = 30 * time.Second // bounds one write
	streamPause = time.Second      // the time between two streams that have ended at once
	steadyRate  = 16 << 20         // bytes that are taken in a second
	steadyPause = time.Millisecond // the time between two messages
)

// stream speaks with an engine, says why that has ended, unless it was in order or with the engine, and
// returns how long to wait before the next time.
func (h *Hub) stream(ctx context.Context, s *server, path string, orders <-chan page.Request, take func(page.Update)) (pause time.Duration) {
	began := time.Now()
	err := h.speak(ctx, s, path, orders, take)
	if ctx.Err() == nil && websocket.CloseStatus(err) == -1 && !errors.Is(err, io.EOF) && !errors.Is(err, sockets.ErrGone) &&
		!errors.Is(err, unix.ECONNRESET) && !errors.Is(err, unix.EPIPE) {
		h.warn(s, fmt.Errorf("the connection to %s is lost: %w", s, err))
	}
	return max(streamPause-time.Since(began), streamPause/10)
}

// speak opens a stream at a path of an engine. It sends orders, and calls take with each message, until the
// stream ends.
func (h *Hub) speak(ctx context.Context, s *server, path string, orders <-chan page.Request, take func(page.Update)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(dialTime, func() { cancel(errors.New("it does not answer")) }) // owned by speak, which stops it
	defer silence.Stop()
	conn, _, err := websocket.Dial(ctx, "ws://async-repl"+path, &websocket.DialOptions{
		HTTPClient:     &http.Client{Transport: s.http, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		OnPingReceived: func(context.Context, []byte) bool { silence.Reset(silenceTime); return true },
	})
	if err != nil {
		return err
	}
	defer conn.CloseNow()
	conn.SetReadLimit(maxMessage)
	var writing sync.WaitGroup
	defer writing.Wait()
	defer cancel(nil)
	writing.Go(func() { // joined by speak; ends with it
		for ctx.Err() == nil {
			select {
			case o := <-orders:
				if write(ctx, conn, o) != nil {
					cancel(errors.New("it reads nothing"))
				}
			case <-ctx.Done():
			}
		}
	})
	for {
		silence.Reset(silenceTime)
		kind, text, err := conn.Read(ctx)
		if err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		if m, err := parse(kind, text, s.id()); err == nil {
			take(m)
		} else {
			h.warn(s, fmt.Errorf("a message of %s is left out: %w", s, err))
		}
		// One engine must not keep the page from showing the others.
		time.Sleep(steadyPause + time.Duration(len(text))*time.Second/steadyRate)
	}
}

// write sends a message.
func write(ctx context.Context, to *websocket.Conn, m any) error {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	return wsjson.Write(ctx, to, m)
}
