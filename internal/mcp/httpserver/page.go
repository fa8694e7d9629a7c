package httpserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"asyncrepl/internal/serve/relay"
)

// People with a browser watch jobs on a page, and answer them. This file decides what a browser can ask;
// the handlers of [Page] answer.
//
// A browser shows its token once, and has a cookie from then on. It also sends the cookie with requests
// that pages of other ports of this machine make. So a request by cookie that can change something, and
// one for a WebSocket, must have our own Origin. Only requests below /api/ can have the cookie in place of
// a token.

// A Page is what browsers are served.
type Page struct {
	// API returns the handler of the requests below /api/ of a caller, or nil if there can be none. What
	// does not end by itself ends with the context of its request. With Config.Relay it is not used.
	API func(c Caller) Handler
	// Static serves a file of the page, and reports whether there is one. If login is true, the browser has
	// logged in by the form, so the page can offer to log out. If Static is nil, only /api/ is served, to a
	// relay.
	Static func(w http.ResponseWriter, r *http.Request, login bool) bool
	// LogsIn says that the page itself logs in, by a token that is behind the # of its address. No form is
	// served then.
	LogsIn bool
	// Protect sets the headers that all answers have.
	Protect func(h http.Header)
	// Display sets the headers of an answer that is a display of some type, or with type "" any bytes. It
	// is used for what a process behind Config.Relay has answered.
	Display func(h http.Header, kind, name string)
}

const (
	apiPath    = "/api/"
	loginPath  = "/login"
	logoutPath = "/logout"

	loginTime = 12 * time.Hour // ends a login
	loginSize = 4 << 10        // bounds the body of a request to log in
	maxLogins = 1000           // one token has no more; the oldest gives way to one more
	maxTabs   = 50             // WebSockets of one login, or of one token without a login
)

// A login is a browser that has shown a token.
type login struct {
	Caller
	since time.Time
	ctx   context.Context // done when the login has ended
	end   context.CancelFunc
	tabs  *semaphore.Weighted // its WebSockets
}

// login adds a login of a caller whose token was found after revoked revocations, and returns its cookie.
// The error is that of enter. The login ends with ctx, too.
func (cs *callers) login(ctx context.Context, who Caller, revoked int) (cookie string, err error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if revoked != cs.revoked {
		return "", errRevoked
	}
	var oldest *login
	n := 0
	for _, l := range cs.logins {
		if l.Caller != who || l.ctx.Err() != nil {
			continue
		}
		if n++; oldest == nil || l.since.Before(oldest.since) {
			oldest = l
		}
	}
	if n >= maxLogins {
		oldest.end()
	}
	if cs.logins == nil {
		cs.logins = make(map[string]*login)
	}
	cookie = rand.Text()
	l := &login{Caller: who, since: time.Now(), tabs: semaphore.NewWeighted(maxTabs)}
	l.ctx, l.end = context.WithTimeout(ctx, loginTime)
	context.AfterFunc(l.ctx, func() {
		cs.mu.Lock()
		defer cs.mu.Unlock()
		delete(cs.logins, cookie)
	})
	cs.logins[cookie] = l
	return cookie, nil
}

// loginOf returns the login of a request, or nil, and whether it has a cookie of ours. A page of another
// port can add cookies of the same name.
func (s *Server) loginOf(r *http.Request) (l *login, has bool) {
	cookies := r.CookiesNamed(cookieName(r))
	s.callers.mu.Lock()
	defer s.callers.mu.Unlock()
	for _, c := range cookies {
		if l := s.callers.logins[c.Value]; l != nil && l.ctx.Err() == nil {
			return l, true
		}
	}
	return nil, len(cookies) > 0
}

// cookieName returns the name of our cookie. It has the port, because cookies of one host have none.
func cookieName(r *http.Request) string {
	port := "unix"
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		port = fmt.Sprint(local.Port)
	}
	return "async-repl-" + port
}

// isOwn reports whether a request has the Origin of our own page.
func (s *Server) isOwn(r *http.Request) bool {
	origin := r.Header["Origin"]
	return len(origin) == 1 && (sameHost(origin[0], r.Host) || sameOrigin(s.config.PublicURL, origin[0]))
}

// isPage reports whether a path shows the page itself: its scripts find out what of it.
func isPage(path string) bool {
	return path == "/" || strings.HasPrefix(path, "/jobs/") || strings.HasPrefix(path, "/sessions/")
}

// pageRoutes adds the routes of the page.
func (s *Server) pageRoutes(mux *http.ServeMux) {
	mux.HandleFunc(apiPath, s.serveAPI)
	if s.config.Page.Static != nil {
		mux.HandleFunc("POST "+loginPath, s.serveLogin)
		mux.HandleFunc("POST "+logoutPath, s.serveLogout)
		mux.HandleFunc("/", s.servePage)
	}
}

// servePage serves the files of the page, which say nothing of jobs, or the form for the token.
func (s *Server) servePage(w http.ResponseWriter, r *http.Request) {
	s.config.Page.Protect(w.Header())
	if why := s.whyForeign(r); why != "" {
		http.Error(w, why, http.StatusForbidden)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "the page can only be read", http.StatusMethodNotAllowed)
		return
	}
	l, _ := s.loginOf(r)
	if !s.config.Page.LogsIn && (isPage(r.URL.Path) || r.URL.Path == loginPath) {
		if _, known := s.identify(r); l == nil && !known {
			if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
				// A link of another site has led here, and browsers send the cookie only if we did. They
				// do when the form is loaded again.
				w.Header().Set("Refresh", "0")
			}
			s.writeForm(w, r.URL.Path, http.StatusOK, "")
			return
		}
	}
	if r.URL.Path == loginPath { // where a browser is after a token that was refused
		http.Redirect(w, r, "/", http.StatusSeeOther)
	} else if s.config.Page.Static(w, r, l != nil && !s.config.Page.LogsIn) {
		exchangeOf(r).update(func(s *state) { s.seen.Path = "/" })
	} else {
		http.Error(w, "there is no such page", http.StatusNotFound)
	}
}

// loginForm asks for a token.
const loginForm = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>async-repl: log in</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/style.css">
<main style="width: min(22rem, 90vw); margin: 15vh auto 0">
<h1>async-repl</h1>
<form method="post" action="/login" style="display: grid; gap: .75rem; margin-top: 1rem">
<input type="hidden" name="to" value="%s">
<label for="token">Token</label>
<input type="password" id="token" name="token" autocomplete="current-password" required autofocus>
<button class="primary" style="justify-content: center">Log in</button>
<p role="alert">%s</p>
</form>
</main>
</html>
`

// writeForm answers with the form. The browser goes to a path after it.
func (s *Server) writeForm(w http.ResponseWriter, to string, status int, says string) {
	h := w.Header()
	// Without a Referer for our own pages, a browser would send no Origin with the form, but "null":
	// https://fetch.spec.whatwg.org/#append-a-request-origin-header.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintf(w, loginForm, html.EscapeString(to), says)
}

// entering reports whether a request to log in or out may do that. If not, it has answered it.
func (s *Server) entering(w http.ResponseWriter, r *http.Request) bool {
	s.config.Page.Protect(w.Header())
	w.Header().Set("Cache-Control", "no-store")
	why := s.whyForeign(r)
	if why == "" && !s.isOwn(r) {
		why = notOwn
	}
	if why != "" {
		http.Error(w, why, http.StatusForbidden)
	}
	return why == ""
}

const notOwn = "only the page of this server can ask this without a token: its Origin is missing, or is another one"

func (s *Server) serveLogin(w http.ResponseWriter, r *http.Request) {
	if !s.entering(w, r) {
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, loginSize)
	if err := r.ParseForm(); err != nil {
		refuseBody(w, err)
		return
	}
	to := r.PostForm.Get("to")
	if !isPage(to) {
		to = "/"
	}
	if s.config.Find != nil {
		cookie := ""
		for {
			revoked := s.callers.revocations()
			who, ok := s.config.Find(strings.TrimSpace(r.PostForm.Get("token")))
			if !ok {
				s.writeForm(w, to, http.StatusUnauthorized, "This token is not known. Ask whoever runs the server for one.")
				return
			}
			var err error
			if cookie, err = s.callers.login(s.waits, who, revoked); err == nil {
				exchangeOf(r).by(who, "")
				break
			}
		}
		if before, _ := s.loginOf(r); before != nil {
			before.end()
		}
		s.setCookie(w, r, cookie, loginTime)
	}
	http.Redirect(w, r, (&url.URL{Path: to}).String(), http.StatusSeeOther)
}

func (s *Server) serveLogout(w http.ResponseWriter, r *http.Request) {
	if !s.entering(w, r) {
		return
	}
	if l, _ := s.loginOf(r); l != nil {
		exchangeOf(r).by(l.Caller, "")
		l.end()
	}
	s.setCookie(w, r, "", -time.Second)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// setCookie sets the cookie of a browser, whose page can be secured by a proxy.
func (s *Server) setCookie(w http.ResponseWriter, r *http.Request, value string, age time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r), Value: value, Path: "/", MaxAge: int(age.Seconds()), HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || strings.HasPrefix(r.Header.Get("Origin"), "https:"),
	})
}

// serveAPI serves a request of the page, or of a script.
func (s *Server) serveAPI(w http.ResponseWriter, r *http.Request) {
	s.config.Page.Protect(w.Header())
	w.Header().Set("Cache-Control", "no-store")
	// A page requests scripts and images without an Origin.
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" && !s.listed(r) {
		http.Error(w, "requests of pages of other sites are not allowed", http.StatusForbidden)
		return
	}
	live := r.Header.Get("Upgrade") != ""
	identify, l := s.identify, (*login)(nil)
	if s.config.Find != nil && len(r.Header["Authorization"]) == 0 {
		var has bool
		switch l, has = s.loginOf(r); {
		case l != nil && (live || r.Method != http.MethodGet && r.Method != http.MethodHead) && !s.isOwn(r):
			http.Error(w, notOwn, http.StatusForbidden)
			return
		case l != nil:
			identify = func(*http.Request) (Caller, bool) { return l.Caller, l.ctx.Err() == nil }
		case has:
			http.Error(w, "this login has ended: load the page again to log in", http.StatusUnauthorized)
			return
		}
	}
	s.authenticated(identify, func(w http.ResponseWriter, r *http.Request, c *caller) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(c.ctx, cancel)()
		tabs := c.tabs
		if l != nil {
			defer context.AfterFunc(l.ctx, cancel)()
			tabs = l.tabs
		}
		if live {
			defer context.AfterFunc(s.waits, cancel)()
			if s.config.Counts == nil { // or else the relay has counted it
				if !tabs.TryAcquire(1) {
					http.Error(w, fmt.Sprintf("%d tabs are open with this login: close one", maxTabs), http.StatusTooManyRequests)
					return
				}
				defer tabs.Release(1)
			}
		}
		r = r.Clone(ctx)
		for _, checked := range []string{"Cookie", "Origin", "Sec-Fetch-Site"} {
			r.Header.Del(checked)
		}
		if s.config.Relay != nil {
			s.relayAPI(w, r, c)
		} else if h := s.config.Page.API(c.Caller); h != nil {
			http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime)) // a short answer needs no other
			h.ServeHTTP(w, r)
		} else {
			unavailable(w)
		}
	})(w, r)
}

// relayAPI passes a request on to the process of a tenant. That is in the hands of its jobs, so it
// chooses nothing of how a browser takes its answer.
func (s *Server) relayAPI(w http.ResponseWriter, r *http.Request, c *caller) {
	to := s.config.Relay(c.Caller)
	if to == nil {
		unavailable(w)
		return
	}
	for _, offered := range []string{"Sec-Websocket-Extensions", "Sec-Websocket-Protocol"} {
		r.Header.Del(offered)
	}
	p := &relayed{s: s, r: r, x: exchangeOf(r)}
	to.Pass(w, r, relay.Request{
		Token: cmp.Or(c.Token, defaultTenant), Refuse: p.refuse, Broken: p.broken, Seen: func(relay.Note) {},
		Head: func(h http.Header, from *http.Response) int {
			if from.StatusCode == http.StatusSwitchingProtocols {
				h["Sec-Websocket-Accept"] = from.Header["Sec-Websocket-Accept"]
				p.x.update(func(s *state) { s.seen.Status = from.StatusCode })
				return from.StatusCode
			}
			return s.foreign(h, r, from)
		},
	})
}

// foreign sets the headers of an answer below /api/ that the process of a tenant has given, and returns
// its status. What it has set is not passed on: not even that a login is over, which would have the page
// load itself again and again.
func (s *Server) foreign(h http.Header, r *http.Request, from *http.Response) (status int) {
	status = from.StatusCode
	good := status == http.StatusOK || status == http.StatusAccepted || status == http.StatusNoContent
	job, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, apiPath+"jobs/"), "/")
	number, isDisplay := strings.CutPrefix(rest, "display/")
	switch {
	case !good:
		h.Set("Content-Type", "text/plain; charset=utf-8")
		if status < 400 || status == http.StatusUnauthorized {
			return http.StatusBadGateway
		}
	case rest == "output":
		s.config.Page.Display(h, "", job+".log")
	case isDisplay && r.URL.Query().Has("download"):
		s.config.Page.Display(h, "", job+"-"+number)
	case isDisplay:
		s.config.Page.Display(h, from.Header.Get("Content-Type"), job+"-"+number)
	case status != http.StatusNoContent:
		h.Set("Content-Type", "application/json")
	}
	return status
}
