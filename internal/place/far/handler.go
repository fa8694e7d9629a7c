package far

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"asyncrepl/internal/place/stream"
	"asyncrepl/internal/reply/overview"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// A Config configures a [Handler].
type Config struct {
	Start string // names the start of this engine, see [Greeting]
	Jobs  *jobs.Registry

	// Run starts a job under an id, as a call of a tool does, and returns when it is in Jobs. The error says, for the
	// client of the tool, why it was not started.
	Run func(ctx context.Context, id, tool string, args json.RawMessage, keep bool) error
	// Call calls a tool that starts no job, and returns its reply. It calls begun once the call has taken effect, which
	// can be long before the reply: the next call for its session can be served then.
	Call func(ctx context.Context, tool string, args json.RawMessage, begun func()) (text string, isError bool)
	// State returns the state of the engine.
	State func() State
	// End ends what was not started to be kept, and the engine if nothing is kept. It must not wait for the requests
	// that are under way: it is called in one.
	End func()
	// Trim ends what was not started to be kept, and returns at once. The engine stays.
	Trim func(cause jobs.By)
	// Ended is closed when the engine has ended all its jobs. Requests that would last as long as the link end then.
	Ended <-chan struct{}
}

// A State is the state of an engine.
type State struct {
	Keeps  bool               `json:"keeps"`           // something was started to be kept
	Unused bool               `json:"unused"`          // no job, process, variable, session of create_session or shell session is there
	Since  time.Duration      `json:"since_ns"`        // how long it has been unused
	Jobs   int                `json:"jobs"`            // counts the jobs that have not ended
	Names  []string           `json:"names,omitempty"` // names the Python sessions and shell sessions
	Python []overview.Session `json:"python,omitempty"`
}

// The headers of requests and answers.
const (
	engineHeader = "Engine" // a request names the start of the engine that it is meant for
	reasonHeader = "Reason" // an answer says why input was refused, see reasons
)

// maxBody bounds the body of a request. Calls of tools are shorter.
const maxBody = 64 << 20

type startRequest struct {
	callRequest
	Keep bool `json:"keep,omitempty"`
}

type callRequest struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

type callAnswer struct {
	Text    string `json:"text"`
	IsError bool   `json:"is_error,omitempty"`
}

// remains is a [jobs.Remains] in JSON.
type remains struct {
	Ended, Survivors []jobs.Process `json:",omitempty"`
	Pending          bool           `json:",omitempty"`
	Error            string         `json:",omitempty"`
}

// Handler returns the handler of all requests of a link.
func Handler(c Config) http.Handler {
	s := &server{c, newOnce[error](), newOnce[inputAnswer]()}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /link/jobs/{id}", s.start)
	mux.HandleFunc("GET /link/jobs/{id}", s.follow)
	mux.HandleFunc("GET /link/jobs/{id}/record", func(w http.ResponseWriter, r *http.Request) {
		if j := s.job(w, r); j != nil {
			stream.WriteRecord(w, j) // an error: the client is gone
		}
	})
	mux.HandleFunc("POST /link/jobs/{id}/input", s.input)
	mux.HandleFunc("GET /link/inputs/{id}", s.inputState)
	mux.HandleFunc("POST /link/jobs/{id}/stop", s.stop)
	mux.HandleFunc("POST /link/jobs/{id}/cleanup", s.cleanup)
	mux.HandleFunc("GET /link/jobs/{id}/live", s.live)
	mux.HandleFunc("GET /link/late", s.late)
	mux.HandleFunc("POST /link/call", s.call)
	mux.HandleFunc("GET /link/state", func(w http.ResponseWriter, r *http.Request) { answerJSON(w, s.State()) })
	mux.HandleFunc("POST /link/end", s.end)
	mux.HandleFunc("POST /link/trim", func(w http.ResponseWriter, r *http.Request) {
		var st jobs.Stop
		if decodeStop(w, r, &st) {
			s.Trim(st.By)
			w.WriteHeader(http.StatusNoContent)
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if start := r.Header.Get(engineHeader); start != c.Start {
			refuse(w, http.StatusConflict, "This is engine %q, and the request is for %q: that one has ended.", c.Start, start)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		mux.ServeHTTP(w, r)
	})
}

type server struct {
	Config
	starts *once[error]       // under the ids of jobs
	inputs *once[inputAnswer] // under the ids of inputs
}

// start starts a job unless it exists, and answers with its life. The start continues if its link is lost meanwhile.
func (s *server) start(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if u, err := ulid.ParseStrict(id); err != nil || u.String() != id {
		refuse(w, http.StatusBadRequest, "The id of a job is a ULID, and %q is none.", id)
		return
	}
	var req startRequest
	if !decode(w, r, &req) {
		return
	}
	failed, err := s.starts.do(r.Context(), id, func() error {
		if s.Jobs.Lookup(id) != nil {
			return nil
		}
		return s.Run(context.WithoutCancel(r.Context()), id, req.Tool, req.Arguments, req.Keep)
	})
	switch j := s.Jobs.Lookup(id); {
	case err != nil: // the link is lost
	case j != nil:
		s.write(w, r, j)
	case failed != nil:
		refuse(w, http.StatusUnprocessableEntity, "%v", failed)
	default:
		refuse(w, http.StatusInternalServerError, "The job was started and is not there.")
	}
}

var errStopped = errors.New("the job was stopped before its start came")

// stop ends a job. The connection that its start was sent over can be slower than this one: a start that is under way
// is waited for, and one that comes later is refused.
func (s *server) stop(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if len(id) <= maxLine {
		s.starts.do(r.Context(), id, func() error {
			if s.Jobs.Lookup(id) == nil {
				return errStopped
			}
			return nil
		})
	}
	var st jobs.Stop
	if j := s.job(w, r); j != nil && decodeStop(w, r, &st) {
		j.Stop(st)
		w.WriteHeader(http.StatusNoContent)
	}
}

func (s *server) follow(w http.ResponseWriter, r *http.Request) {
	if j := s.job(w, r); j != nil {
		s.write(w, r, j)
	}
}

// job returns the job that a request is about, also one of an earlier engine. It returns nil if it has refused the
// request.
func (s *server) job(w http.ResponseWriter, r *http.Request) *jobs.Job {
	id := r.PathValue("id")
	j, err := s.Jobs.Get(id)
	if err != nil {
		refuse(w, http.StatusNotFound, "There is no job %q.", id)
		return nil
	}
	return j
}

// write answers with the life of a job.
func (s *server) write(w http.ResponseWriter, r *http.Request, j *jobs.Job) {
	var query [3]int64
	for i, name := range []string{"cursor", "displays", "quick"} {
		var err error
		if query[i], err = number(r, name); err != nil {
			refuse(w, http.StatusBadRequest, "%v", err)
			return
		}
	}
	from := stream.Position{Cursor: query[0], Displays: int(query[1]), Quick: time.Duration(min(query[2], quickMost)) * time.Millisecond}
	if end := j.Log().Stat().End; from.Cursor > end {
		refuse(w, http.StatusRequestedRangeNotSatisfiable, "The output of the job ends at cursor %d, before %d.", end, from.Cursor)
		return
	}
	stream.Write(r.Context(), w, j, from) // an error: the link is lost, and its client asks again
}

// quickMost bounds stream.Position.Quick, in milliseconds.
const quickMost = 100

// number returns a number of the query of a request, or 0 if it is not given.
func number(r *http.Request, name string) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 63)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s must be a number from 0 on, and is %q", name, text)
	}
	return n, nil
}

func (s *server) cleanup(w http.ResponseWriter, r *http.Request) {
	var st jobs.Stop
	j := s.job(w, r)
	if j == nil || !decodeStop(w, r, &st) {
		return
	}
	left, _ := j.Cleanup(r.Context(), st) // false: it has left nothing, and left says so
	answerJSON(w, remains{Ended: left.Ended, Survivors: left.Survivors, Pending: left.Pending, Error: textOf(left.Err)})
}

func (s *server) call(w http.ResponseWriter, r *http.Request) {
	var req callRequest
	if !decode(w, r, &req) {
		return
	}
	b := &beginning{w: w}
	defer b.end()
	var a callAnswer
	a.Text, a.IsError = s.Call(r.Context(), req.Tool, req.Arguments, b.begun)
	b.end()
	answerJSON(w, a)
}

func (s *server) end(w http.ResponseWriter, _ *http.Request) {
	answerJSON(w, struct{}{})             // join would hold back an answer without a body
	http.NewResponseController(w).Flush() // an error: the client is gone, and the engine ends all the same
	s.End()
}

// refuse answers with a sentence that says why.
func refuse(w http.ResponseWriter, status int, format string, args ...any) {
	http.Error(w, fmt.Sprintf(format, args...), status)
}

// answerJSON answers with v as JSON.
// quickAnswer is how long the answer to a call has before its headers are sent alone. Through srun a second message
// costs 40 ms, and most answers come at once.
const quickAnswer = 20 * time.Millisecond

// A beginning sends the headers of an answer and a blank line, which say that the call has taken effect.
type beginning struct {
	w     http.ResponseWriter
	mu    sync.Mutex
	timer *time.Timer // sends them; nil: the call has not begun
	ended bool        // the answer is being written
}

// begun notes that the call has taken effect.
func (b *beginning) begun() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer == nil && !b.ended {
		b.timer = time.AfterFunc(quickAnswer, b.send) // owned by the request, which stops it at its end
	}
}

func (b *beginning) send() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		fmt.Fprintln(b.w)                       // join would hold back headers without a body
		http.NewResponseController(b.w).Flush() // an error: the client is gone
	}
}

// end notes that the answer says it from now on.
func (b *beginning) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	if b.timer != nil {
		b.timer.Stop()
	}
}

func answerJSON(w http.ResponseWriter, v any) {
	json.NewEncoder(w).Encode(v) // an error: the client is gone
}

// decode reads the body of a request. It reports false if it has refused the request.
func decode(w http.ResponseWriter, r *http.Request, to any) bool {
	err := json.NewDecoder(r.Body).Decode(to)
	switch {
	case err == nil:
		return true
	case errors.As(err, new(*http.MaxBytesError)):
		refuse(w, http.StatusRequestEntityTooLarge, "A request has at most %d bytes.", maxBody)
	default:
		refuse(w, http.StatusBadRequest, "The body can't be read: %s.", view.Line(err.Error(), maxLine))
	}
	return false
}

// decodeStop is decode for a stop, whose rung must be one of the ladder.
func decodeStop(w http.ResponseWriter, r *http.Request, st *jobs.Stop) bool {
	if !decode(w, r, st) {
		return false
	}
	if st.From != "" && !st.From.Above("") || st.Step < 0 {
		refuse(w, http.StatusBadRequest, "A stop can't begin with %q after %v.", st.From, st.Step)
		return false
	}
	return true
}

const maxLine = 500 // characters of what an error repeats
