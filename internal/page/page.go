//go:build unix

// Package page serves the page on which people watch jobs and answer them: its files, and what it asks
// of an engine.
//
// [Static] serves the files, [API] answers the requests about one engine. Requests come from people: an
// answer and a cancel say so. A GET changes nothing. Errors are one sentence of plain text.
//
// The package knows no tokens, no cookies and no other servers. Its caller decides who can ask: it
// checks Host, Origin and who has logged in before it calls a handler.
//
// An open page has one WebSocket, /api/live, see live.go. The registry and the open job announce what
// changes, so a page on which nothing happens costs a ping every 30 seconds. Only what is known of the way to
// a job at another place is looked at again, every 2 seconds.
//
// Begin with [API], then live.go.
package page

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"time"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/reply/report"
	"asyncrepl/jobs"
)

// policy is the Content-Security-Policy of every answer except displays. xterm.js sets styles of elements:
// without unsafe-inline it is black on black.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"connect-src 'self'; frame-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; " +
	"require-trusted-types-for 'script'"

// Protect sets the headers of every answer: nothing runs but the page's own scripts, no other page shows it
// or reads it, and no address of it is sent elsewhere.
func Protect(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// API returns a handler of the requests below /api/ about one engine. A live connection ends with the
// context of its request.
func API(e *engine.Engine) http.Handler {
	return (&api{engine: e, jobs: e.Jobs(), reporter: &report.Reporter{Jobs: e.Jobs()}}).handler()
}

// An api answers the requests about one engine.
type api struct {
	engine   *engine.Engine
	jobs     *jobs.Registry
	reporter *report.Reporter
}

func (a *api) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/jobs", a.serveList)
	mux.HandleFunc("GET /api/jobs/{id}", a.aboutJob(a.serveJob))
	mux.HandleFunc("GET /api/jobs/{id}/output", a.aboutJob(a.serveOutput))
	mux.HandleFunc("GET /api/jobs/{id}/display/{n}", a.aboutJob(a.serveDisplay))
	mux.HandleFunc("POST /api/jobs/{id}/input", a.aboutJob(a.takeInput))
	mux.HandleFunc("POST /api/jobs/{id}/cancel", a.aboutJob(a.cancel))
	mux.HandleFunc("GET /api/sessions", a.serveSessions)
	mux.HandleFunc("GET /api/sessions/{name}", a.serveSession)
	mux.HandleFunc("GET /api/live", a.serveLive)
	return Bounded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Protect(w.Header())
		w.Header().Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	}))
}

// Bounded returns a handler that bounds what another one reads of a request, and the time that a client
// has to take each piece of the answer.
func Bounded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, bodyMax)
		h.ServeHTTP(steady{w}, r)
	})
}

// A client has writeTime to take each writeSize bytes of an answer.
const (
	writeTime = 30 * time.Second
	writeSize = 64 << 10
)

// A steady writer gives each piece of an answer its time, so that a client can take long for a long one,
// but holds nothing if it takes nothing.
type steady struct{ http.ResponseWriter }

func (w steady) Write(b []byte) (n int, err error) {
	for piece := range slices.Chunk(b, writeSize) {
		// An error: the connection has no deadlines. The server removes them after the answer.
		http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTime))
		written, err := w.ResponseWriter.Write(piece)
		if n += written; err != nil {
			return n, err
		}
	}
	return n, nil
}

// Unwrap is for http.ResponseController, and for WebSockets.
func (w steady) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// aboutJob returns a handler of requests about the job that their path names.
func (a *api) aboutJob(serve func(http.ResponseWriter, *http.Request, *jobs.Job)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		j, err := a.jobs.Get(r.PathValue("id"))
		if err != nil {
			refuse(w, http.StatusNotFound, "There is no job %s.", report.OneLine(r.PathValue("id")))
			return
		}
		serve(w, r, j)
	}
}

// refuse answers with a sentence that says why.
func refuse(w http.ResponseWriter, status int, format string, args ...any) {
	http.Error(w, fmt.Sprintf(format, args...), status)
}

// answer answers with v as JSON.
func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v) // an error: the caller is gone
}

// bodyMax bounds the body of a request, in bytes: each byte of an answer can take six in JSON.
const bodyMax = 6*answerMax + 1024

// decode reads the body of a request into the struct that to points to. It reports false if it has refused
// the request.
func decode(w http.ResponseWriter, r *http.Request, to any) bool {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, "The Content-Type must be application/json.")
		return false
	}
	err := strict(r.Body, to)
	if err == nil {
		return true
	}
	if errors.As(err, new(*http.MaxBytesError)) {
		refuse(w, http.StatusRequestEntityTooLarge, tooLong)
		return false
	}
	refuse(w, http.StatusBadRequest, "The body can't be read: %s.", report.OneLine(err.Error()))
	return false
}

// strict reads one JSON value with no other fields than those of the struct that to points to.
func strict(from io.Reader, to any) error {
	d := json.NewDecoder(from)
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if _, err := d.Token(); err == nil {
		return errors.New("more than one value")
	} else if err != io.EOF {
		return err
	}
	return nil
}
