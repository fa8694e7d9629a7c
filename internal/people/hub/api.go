//go:build unix

package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"asyncrepl/internal/page"
)

// API answers the requests below /api/ about the jobs of all engines. A stream ends with the context of its
// request.
func (h *Hub) API() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/jobs", h.serveJobs)
	mux.HandleFunc("GET /api/jobs/{id}", h.serveJob)
	mux.HandleFunc("GET /api/jobs/{id}/output", h.pass)
	mux.HandleFunc("GET /api/jobs/{id}/display/{n}", h.pass)
	mux.HandleFunc("POST /api/jobs/{id}/input", h.pass)
	mux.HandleFunc("POST /api/jobs/{id}/cancel", h.pass)
	mux.HandleFunc("GET /api/sessions", h.serveSessions)
	mux.HandleFunc("GET /api/sessions/{name}", h.serveSession)
	mux.HandleFunc("GET /api/live", h.live)
	return page.Bounded(mux)
}

// answer answers with a value, or with an error.
func answer(w http.ResponseWriter, v any, err error) {
	if err == nil {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(v) // an error: the page is gone
		return
	}
	status := http.StatusBadGateway
	if r := (*refusal)(nil); errors.As(err, &r) {
		status = r.status
	}
	http.Error(w, err.Error(), status)
}

// allTime bounds a question to all engines: one that hangs is left out.
const allTime = 10 * time.Second

// all asks all engines at once, and calls take, with h.mu held, for each in turn that has answered. It returns
// an error if none has.
func all[T any](ctx context.Context, h *Hub, path string, take func(*server, T)) error {
	ctx, cancel := context.WithTimeout(ctx, allTime)
	defer cancel()
	servers := h.list()
	answers, errs := make([]T, len(servers)), make([]error, len(servers))
	var asking sync.WaitGroup
	for i, s := range servers {
		asking.Go(func() { errs[i] = s.get(ctx, path, &answers[i]) }) // joined below; ends with the answer, or within allTime
	}
	asking.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, s := range servers {
		if errs[i] == nil {
			take(s, answers[i])
		}
	}
	if len(errs) > 0 && !slices.Contains(errs, nil) {
		return errs[0]
	}
	return nil
}

// find returns the engine that has a job.
func (h *Hub) find(ctx context.Context, id string) (*server, error) {
	s := h.owner(id)
	if s == nil && isID(id) {
		all(ctx, h, "/api/jobs/"+id, func(s *server, j page.Document) { // an error: none has it
			if j.Document != nil && j.ID == id {
				h.claim(id, s, nil)
			}
		})
		s = h.owner(id)
	}
	if s == nil {
		return nil, &refusal{http.StatusNotFound, "no server has this job"}
	}
	return s, nil
}

// listMax is the number of jobs of an answer.
const listMax = 1000

// serveJobs answers with the jobs of all engines, the newest first.
func (h *Hub) serveJobs(w http.ResponseWriter, r *http.Request) {
	list, most := []*page.Brief{}, listMax
	if n, err := strconv.Atoi(r.URL.Query().Get("limit")); err == nil && n > 0 {
		most = n // engines refuse any other limit
	}
	type briefs struct{ Jobs []page.Brief }
	err := all(r.Context(), h, "/api/jobs?"+r.URL.Query().Encode(), func(s *server, a briefs) {
		for _, b := range a.Jobs {
			if clean(&b, s.id()) == nil && h.claim(b.ID, s, nil) {
				list = append(list, &b)
			}
		}
	})
	slices.SortFunc(list, func(a, b *page.Brief) int { return cmp.Or(b.Created.Compare(a.Created), strings.Compare(b.ID, a.ID)) })
	answer(w, map[string]any{"jobs": list[:min(len(list), most)]}, err)
}

// serveJob answers with the record of a job.
func (h *Hub) serveJob(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	var j page.Document
	s, err := h.find(r.Context(), id)
	if err == nil {
		err = s.get(r.Context(), "/api/jobs/"+id, &j)
		if err == nil && (j.Document == nil || j.ID != id) {
			err = s.broken(errors.New("it is another job"))
		}
		j.Server = s.id()
	}
	answer(w, j, err)
}

// pass passes on what a person does about a job, or the bytes of its output or of a display, whose type and
// name the page chooses.
func (h *Hub) pass(w http.ResponseWriter, r *http.Request) {
	id, n := r.PathValue("id"), r.PathValue("n")
	if _, err := strconv.Atoi(cmp.Or(n, "0")); err != nil {
		http.Error(w, "a display has a number", http.StatusNotFound)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "An answer can have 64 KiB at most; nothing was sent.", http.StatusRequestEntityTooLarge)
		return
	}
	s, err := h.find(r.Context(), id)
	var from *http.Response
	if err == nil {
		from, err = s.ask(r.Context(), r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"), body)
	}
	if err != nil {
		answer(w, nil, err)
		return
	}
	defer from.Body.Close()
	switch {
	case r.Method == http.MethodPost:
		w.WriteHeader(from.StatusCode) // it has no body
		return
	case n == "":
		page.Display(w.Header(), "", id+".log")
	default:
		page.Display(w.Header(), from.Header.Get("Content-Type"), id+"-"+n)
	}
	if _, err := io.Copy(w, from.Body); err != nil {
		panic(http.ErrAbortHandler) // a download must not look complete
	}
}

// serveSessions answers with the sessions of all engines.
func (h *Hub) serveSessions(w http.ResponseWriter, r *http.Request) {
	list := []page.Session{}
	type sessions struct{ Sessions []page.Session }
	err := all(r.Context(), h, "/api/sessions", func(s *server, a sessions) {
		for _, one := range a.Sessions {
			one.Server = s.id()
			list = append(list, one)
		}
	})
	answer(w, map[string]any{"sessions": list}, err)
}

// serveSession answers with the variables of a session of the server that the request names. If it names
// none there must be only one server.
func (h *Hub) serveSession(w http.ResponseWriter, r *http.Request) {
	name, servers := r.URL.Query().Get("server"), h.list()
	i := slices.IndexFunc(servers, func(s *server) bool { return s.id() == name || name == "" && len(servers) == 1 })
	if i < 0 {
		http.Error(w, "no such server: add ?server= with the id of one", http.StatusNotFound)
		return
	}
	var n page.Namespace
	err := servers[i].get(r.Context(), "/api/sessions/"+url.PathEscape(r.PathValue("name")), &n)
	if n.Variables == nil {
		n.Variables = []page.Variable{}
	}
	answer(w, n, err)
}
