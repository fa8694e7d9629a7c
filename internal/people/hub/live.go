//go:build unix

package hub

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

	"asyncrepl/internal/page"
)

const (
	listTime  = 2 * time.Second      // how long the list waits for the engines that there are at first
	listPause = 5 * time.Millisecond // changes of the list in this time are sent together
	listPart  = 200                  // jobs in a message
	maxOrders = 256                  // messages that wait for an engine that does not read
)

// A tab is the stream of a page. Its fields belong to the goroutine of [Hub.live].
type tab struct {
	hub     *Hub
	ctx     context.Context
	end     context.CancelFunc
	conn    *websocket.Conn
	running sync.WaitGroup

	servers []place                // what the page shows; nil: nothing yet
	shown   map[string]*page.Brief // the jobs that it shows
	seen    int                    // the number of changes of jobs that it has seen; -1: it is new
	late    bool                   // the list waits for no engine any more
	listed  bool                   // the page has the full list

	job    string // the open job; empty: none is
	cursor int64  // its output that comes next, if there is no link
	gone   bool   // the page knows that no engine has it
	link   *link  // to the engine that has it; the zero link is none
}

// A place is an engine on the page.
type place struct {
	ID        string `json:"id"`
	Workspace string `json:"workspace"`
	Version   string `json:"version"`
	Lost      bool   `json:"lost"`
}

// A link is the stream of the open job. It passes on what the engine says of it.
type link struct {
	to     *server
	stop   context.CancelFunc
	orders chan page.Request
	ended  chan struct{} // closed when it has ended, and the next one can begin
	cursor int64         // the output that comes next, to be read when it has ended
}

// live joins the lists of all engines, and the open job, for one tab.
func (h *Hub) live(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // it has answered
	}
	defer conn.CloseNow()
	conn.SetReadLimit(maxMessage)
	t := &tab{hub: h, conn: conn, link: new(link), shown: make(map[string]*page.Brief), seen: -1}
	t.ctx, t.end = context.WithCancel(r.Context())
	defer t.running.Wait()
	defer t.end()
	orders := make(chan page.Request)
	t.running.Go(func() { // joined by live; ends with the connection
		defer t.end()
		for {
			_, text, err := conn.Read(t.ctx)
			if err != nil {
				return
			}
			o, err := page.ReadRequest(text)
			if err != nil {
				o.Op = "" // which is refused
			}
			select {
			case orders <- o:
			case <-t.ctx.Done():
			}
		}
	})
	late := time.After(listTime)
	t.write(page.Update{Jobs: []page.Brief{}, First: true})
	for changed := t.show(); t.ctx.Err() == nil; {
		t.route()
		select {
		case o := <-orders:
			t.obey(o)
		case <-t.link.ended:
			keys := false
			for len(t.link.orders) > 0 {
				keys = (<-t.link.orders).Op == "keys" || keys
			}
			if keys {
				t.write(page.Update{Error: notTyped})
			}
			t.cursor, t.link = t.link.cursor, new(link)
		case <-changed:
			time.Sleep(listPause)
			changed = t.show()
		case <-late:
			t.late = true
			changed = t.show()
		case <-t.ctx.Done():
		}
	}
}

// write sends the page a message. If it takes none, the tab ends.
func (t *tab) write(m any) {
	if write(t.ctx, t.conn, m) != nil {
		t.end()
	}
}

// show sends the page what it does not show yet. It returns a channel that is closed when there is more.
// An engine that has ended is shown to the pages that have seen it before.
func (t *tab) show() (changed <-chan struct{}) {
	h := t.hub
	h.mu.Lock()
	servers, complete := []place{}, true
	for _, s := range h.sorted() {
		if !s.ended || slices.ContainsFunc(t.servers, func(p place) bool { return p.ID == s.id() }) {
			servers = append(servers, place{s.id(), s.workspace, s.version, s.settled && !s.up})
			complete = complete && s.settled
		}
	}
	list, removed := t.compare()
	changed = h.changed
	h.mu.Unlock()
	if t.servers == nil || !slices.Equal(servers, t.servers) {
		t.servers = servers
		t.write(map[string]any{"servers": servers})
	}
	if removed != nil {
		t.write(page.Update{Removed: removed})
	}
	for part := range slices.Chunk(list, listPart) {
		t.write(page.Update{Jobs: part})
	}
	if !t.listed && (complete || t.late) {
		t.listed = true
		t.write(page.Update{Jobs: []page.Brief{}, Complete: true})
	}
	return changed
}

// compare returns what the page does not show yet of the list, and the jobs that are not in it any more. From then on
// the page shows that. The caller holds h.mu.
func (t *tab) compare() (list []page.Brief, removed []string) {
	h := t.hub
	see := func(id string) {
		j, before := h.jobs[id], t.shown[id]
		switch {
		case j.brief == nil && before != nil:
			delete(t.shown, id)
			removed = append(removed, id)
		case j.brief != nil && j.brief != before && (before != nil || !j.at.ended):
			t.shown[id] = j.brief
			list = append(list, *j.brief)
		}
	}
	if t.seen < h.dropped { // it is new, or the changes that it has not seen are too many
		for id := range h.jobs {
			see(id)
		}
		for id := range t.shown {
			see(id)
		}
	} else {
		for _, id := range h.changes[t.seen-h.dropped:] {
			see(id)
		}
	}
	t.seen = h.dropped + len(h.changes)
	return list, removed
}

const notTyped = "nothing was typed: the server of this job is not connected"

// obey does what the page asks for.
func (t *tab) obey(o page.Request) {
	l := t.link
	linked := l.to != nil && o.Job == t.job && t.hub.owner(o.Job) == l.to
	switch {
	case o.Op == "open" || o.Op == "close":
		if l.to != nil {
			l.stop()
			<-l.ended
		}
		if t.job, t.cursor, t.gone, t.link = "", o.Cursor, false, new(link); o.Op == "open" {
			t.job = o.Job
		}
	case linked && (o.Op == "keys" || o.Op == "drawn"):
		select {
		case l.orders <- o:
		default:
			l.stop()
		}
	case o.Op == "keys":
		t.write(page.Update{Error: notTyped})
	case o.Op == "drawn": // it is about a job that is open no longer
	default:
		t.write(page.Update{Error: "this version knows no such message"})
	}
}

// route links the open job to the engine that has it. What the page has got of an engine that has ended stays.
func (t *tab) route() {
	if t.job == "" || t.link.to != nil {
		return
	}
	s, id := t.hub.owner(t.job), t.job
	if s == nil {
		if t.listed && !t.gone && t.shown[id] == nil {
			t.gone = true
			t.write(page.Update{Gone: id})
		}
		return
	}
	l := &link{to: s, cursor: t.cursor, orders: make(chan page.Request, maxOrders), ended: make(chan struct{})}
	l.orders <- page.Request{Op: "open", Job: id, Cursor: t.cursor}
	ctx, stop := context.WithCancel(t.ctx)
	t.link, l.stop, t.gone = l, stop, false
	t.running.Go(func() { // joined by live; ends with the stream, the tab or the link
		defer close(l.ended)
		defer stop()
		pause := t.hub.stream(ctx, s, "/api/live?list=no", l.orders, func(m page.Update) {
			switch {
			case m.Job != nil && m.Job.ID == id:
				t.write(page.Update{Job: m.Job})
			case m.Output != nil && m.Output.Job == id:
				l.cursor = m.Output.Next
				t.write(page.Update{Output: m.Output})
			case m.Gone == id:
				t.write(page.Update{Gone: id})
			case m.Error != "":
				t.write(page.Update{Error: m.Error})
			}
		})
		sleep(ctx, pause)
	})
}
