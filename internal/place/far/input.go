package far

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"asyncrepl/internal/terminal/keys"
	"asyncrepl/internal/terminal/tty"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// Input is delivered once. Its sender gives it an id and can ask later what became of it. It does not wait for the
// link: once the request has come, the delivery continues without it.

// An inputRequest gives input to a job.
type inputRequest struct {
	ID    string        `json:"id"`
	Wait  time.Duration `json:"wait_ns"` // how long the delivery may take; then it is refused, or what is typed continues
	Input jobs.Input    `json:"input"`
}

// An inputAnswer says what became of input: it was delivered, or it was refused with a text and perhaps a reason.
type inputAnswer struct {
	Delivered *delivery `json:"delivered,omitempty"`

	refusal string
	reason  string
	absent  bool // it had not come when its sender asked, and is refused if it comes
}

// A delivery is a [jobs.Delivery] whose Typing can be JSON.
type delivery struct {
	jobs.Delivery
	Typing *typing `json:",omitempty"`
}

// A typing has the progress of a [jobs.Typing] at the time of the answer, and implements it.
type typing struct {
	Typed int    `json:"typed"`
	Keys  int    `json:"keys"`
	Error string `json:"error,omitempty"`
	Ended bool   `json:"ended,omitempty"`
	After bool   `json:"after,omitempty"` // earlier input is not typed yet
}

func (t *typing) Done() <-chan struct{} {
	done := make(chan struct{})
	if t.Ended {
		close(done)
	}
	return done
}

func (t *typing) Behind() bool { return t.After }

func (t *typing) Progress() (typed, keys int, err error) { return t.Typed, t.Keys, errorOf(t.Error) }

// typingOf returns how far t is.
func typingOf(t jobs.Typing) *typing {
	now := typing{After: t.Behind()}
	select {
	case <-t.Done():
		now.Ended = true
	default:
	}
	var err error
	now.Typed, now.Keys, err = t.Progress()
	now.Error = textOf(err)
	return &now
}

// reasons are the errors that a sender can act on, by the words for them in an answer.
var reasons = map[string]error{
	"ended": jobs.ErrEnded, "not reading": jobs.ErrNotReading, "no terminal": jobs.ErrNoTerminal,
	"shutting down": jobs.ErrShutdown, "too late": context.DeadlineExceeded,
	"line too long": tty.ErrLineTooLong, "control": tty.ErrControl, "raw end": tty.ErrRawEOF, "echo": tty.ErrEcho,
	"control in a paste": keys.ErrPasteControl,
}

// inputTime bounds the time of a delivery.
const inputTime = time.Minute

func (s *server) input(w http.ResponseWriter, r *http.Request) {
	var req inputRequest
	j := s.job(w, r)
	if j == nil || !decode(w, r, &req) {
		return
	}
	if req.ID == "" || len(req.ID) > maxLine {
		refuse(w, http.StatusBadRequest, "Input needs an id of at most %d bytes.", maxLine)
		return
	}
	s.answerInput(w, r, req.ID, func() inputAnswer {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), min(max(0, req.Wait), inputTime))
		defer cancel()
		return deliver(ctx, j, req.Input)
	})
}

// deliver gives input to a job.
func deliver(ctx context.Context, j *jobs.Job, in jobs.Input) (a inputAnswer) {
	d, err := j.Send(ctx, in)
	if err != nil {
		a.refusal = err.Error()
		for word, reason := range reasons {
			if errors.Is(err, reason) {
				a.reason = word
			}
		}
		return a
	}
	a.Delivered = &delivery{Delivery: d}
	if d.Typing != nil {
		a.Delivered.Typing = typingOf(d.Typing)
	}
	return a
}

func (s *server) inputState(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if len(id) > maxLine {
		refuse(w, http.StatusNotFound, absent)
		return
	}
	// The connection that the input was sent over can be slower than this one: input that comes later is refused.
	s.answerInput(w, r, id, func() inputAnswer { return inputAnswer{refusal: absent, absent: true} })
}

const absent = "No such input had come."

// answerInput answers with what became of the input with that id, once that is known. If this request is the first
// about it, f decides.
func (s *server) answerInput(w http.ResponseWriter, r *http.Request, id string, f func() inputAnswer) {
	a, err := s.inputs.do(r.Context(), id, f)
	if err != nil {
		return // the link is lost
	}
	if a.Delivered != nil {
		answerJSON(w, a)
		return
	}
	if a.reason != "" {
		w.Header().Set(reasonHeader, a.reason)
	}
	status := http.StatusUnprocessableEntity
	if a.absent {
		status = http.StatusNotFound
	}
	refuse(w, status, "%s", a.refusal)
}

// Input gives input to a job, under an id that no other input has. The caller's deadline bounds how long the engine
// there tries; it gets a little less, so that its answer comes in time. The error of input that was refused is a
// *[Refused] in which [errors.Is] finds the errors of package jobs. After any other error it is not known whether the
// input was delivered: [Client.InputState] says that later.
func (c *Client) Input(ctx context.Context, job, id string, in jobs.Input) (jobs.Delivery, error) {
	wait := inputTime
	if deadline, ok := ctx.Deadline(); ok {
		wait = time.Until(deadline) * 3 / 4
	}
	return c.delivered(ctx, http.MethodPost, jobPath(job)+"/input", inputRequest{id, wait, in})
}

// InputState says what became of input: its delivery, or the error of [Client.Input]. A *[Refused] with the code 404
// means that the input has not come, or that it is not among the newest 1,000. It is not delivered later either.
func (c *Client) InputState(ctx context.Context, id string) (jobs.Delivery, error) {
	return c.delivered(ctx, http.MethodGet, "/link/inputs/"+url.PathEscape(id), nil)
}

func (c *Client) delivered(ctx context.Context, method, path string, body any) (jobs.Delivery, error) {
	var a inputAnswer
	if err := c.ask(ctx, method, path, body, &a); err != nil {
		return jobs.Delivery{}, err
	}
	if a.Delivered == nil {
		return jobs.Delivery{}, fmt.Errorf("the engine at the place has answered input with nothing")
	}
	d := a.Delivered.Delivery
	d.Note, d.Signalled, d.Made = view.Line(d.Note, maxLine), view.Line(d.Signalled, maxLine), view.Line(d.Made, maxLine)
	if t := a.Delivered.Typing; t != nil {
		t.Error = view.Line(t.Error, maxLine)
		t.Keys = max(0, t.Keys)
		t.Typed = min(max(0, t.Typed), t.Keys)
		d.Typing = t
	}
	return d, nil
}
