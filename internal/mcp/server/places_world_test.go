package server

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/reply/overview"
	"asyncrepl/jobs"
)

// A testPlaces has a world for each place: another engine with a registry of its own. Jobs are mirrored and
// calls are answered without a link, which a test can say is lost.
type testPlaces struct {
	near  *world
	keeps bool // what Keeps says
	vars  int  // the variables that sessions have, as List says

	mu      sync.Mutex
	far     map[string]*world
	lives   map[jobs.Kind]map[string]string // the places of sessions
	left    map[string]string               // the places of sessions that have ended
	started []Start
	called  []string      // tools and arguments
	hold    chan struct{} // if set, Call answers once it is closed
	answer  string        // if set, what Call answers
	refused error         // if set, the error of Runner and Call
	link    jobs.Link
	lose    bool // input is lost on its way
	gone    bool // the engines have lost their sessions before the next job
}

// withPlaces gives a world places with these names.
func (w *world) withPlaces(names ...string) *testPlaces {
	ps := &testPlaces{near: w, far: map[string]*world{}, lives: map[jobs.Kind]map[string]string{jobs.Python: {}, jobs.Shell: {}}}
	for _, name := range names {
		far := newWorld(w.t)
		far.grace = w.grace
		far.sessions = map[string]engine.SessionSpec{}
		far.config.Toolsets, far.config.Keep = toolsets, KeepLonger
		ps.far[name] = far
	}
	w.config.Places = ps
	return ps
}

// in changes what the places do, or reads what they have done.
func (ps *testPlaces) in(f func()) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	f()
}

func (ps *testPlaces) Names() []string { return slices.Sorted(maps.Keys(ps.far)) }

func (ps *testPlaces) Keeps(string) bool { return ps.keeps }

func (ps *testPlaces) Of(kind jobs.Kind, session string) string {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.lives[kind][session]
}

func (ps *testPlaces) Left(_ jobs.Kind, session string) string {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.left[session]
}

func (ps *testPlaces) Runner(place string, s Start) (jobs.Runner, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.refused != nil {
		return nil, ps.refused
	}
	ps.started = append(ps.started, s)
	kind := s.Kind
	if kind == jobs.Package {
		kind = jobs.Python
	}
	if s.Session != "" {
		ps.lives[kind][s.Session] = place
	}
	return &mirror{ps: ps, far: ps.far[place], start: s}, nil
}

func (ps *testPlaces) Call(ctx context.Context, place, tool string, args json.RawMessage) (text string, isError bool, err error) {
	ps.mu.Lock()
	ps.called = append(ps.called, tool+" "+string(args))
	answer, refused, hold := ps.answer, ps.refused, ps.hold
	ps.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return "", false, errors.New(place + " has not answered")
		}
	}
	if answer != "" || refused != nil {
		return answer, false, refused
	}
	far := ps.far[place]
	text, isError = CallTool(ctx, far.config, far.scope(engine.Scope{}), tool, args, func() {})
	var named struct{ Name, Session string }
	if err := json.Unmarshal(args, &named); err != nil {
		return "", false, err
	}
	ps.in(func() {
		switch {
		case isError:
		case tool == "create_session":
			ps.lives[jobs.Python][named.Name] = place
		case tool == "delete_session":
			delete(ps.lives[jobs.Python], named.Session)
		}
	})
	return text, isError, nil
}

func (ps *testPlaces) List(context.Context) (list []overview.Place) {
	for _, name := range ps.Names() {
		sessions, _ := ps.far[name].Sessions()
		for i := range sessions {
			sessions[i].Variables = ps.vars
		}
		list = append(list, overview.Place{Name: name, Kind: "test", Reachable: true, Version: "test", Sessions: sessions})
	}
	return list
}

func (ps *testPlaces) Find(_ context.Context, id string) *jobs.Job {
	for name, far := range ps.far {
		j := far.jobs.Lookup(id)
		if j == nil {
			continue
		}
		spec := j.Record().Spec
		spec.Place = name
		adopted, err := ps.near.jobs.StartAs(id, spec, &mirror{ps: ps, far: far})
		if err != nil {
			ps.near.t.Error(err)
		}
		return adopted
	}
	return nil
}

// A mirror is the runner of a job that runs in the world of a place.
type mirror struct {
	ps    *testPlaces
	far   *world
	start Start // zero: the job runs already

	mu       sync.Mutex
	displays int  // passed on
	began    bool // the job does not wait for its turn any more
}

func (m *mirror) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	p.SetLink(func() (link jobs.Link) {
		m.ps.in(func() { link = m.ps.link })
		return link
	})
	if m.start.Tool != "" {
		gone := false
		m.ps.in(func() { gone = m.ps.gone })
		if gone {
			m.start.MadeAgain()
		}
		err := StartAs(context.WithoutCancel(ctx), m.far.config, m.far.scope(engine.Scope{}), p.ID(), m.start.Tool, m.start.Arguments, m.start.Keep)
		if err != nil {
			return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.NotStarted, Detail: err.Error()}}
		}
	}
	j := m.far.jobs.Lookup(p.ID())
	p.SetInput(func(ctx context.Context, in jobs.Input) (d jobs.Delivery, err error) {
		lose := false
		m.ps.in(func() { lose = m.ps.lose })
		if lose {
			m.ps.in(func() { m.ps.link.Input = "not known to be delivered" })
			return d, errors.New("the link was lost")
		}
		defer m.pass(p, j) // the reply shows what the input has done
		return j.Send(ctx, in)
	})
	go func() { // owned by the job; ends with it
		for {
			from, raised := p.Wanted()
			if from != "" {
				j.Stop(*p.Stop())
			}
			select {
			case <-raised:
			case <-p.Ended():
				return
			}
		}
	}()
	for {
		changed, more := j.Changed(), j.Log().More(p.Output().Stat().End)
		if record := m.pass(p, j); record.Status.Final() {
			if record.Receipt.Left != nil {
				p.SetCleanup(func(ctx context.Context, st jobs.Stop) jobs.Remains {
					remains, _ := j.Cleanup(ctx, st)
					return remains
				})
			}
			return jobs.Outcome{Far: &record}
		}
		select {
		case <-changed:
		case <-more:
		case <-j.Done():
		}
	}
}

// pass passes on the displays, the output and the record of a job.
func (m *mirror) pass(p *jobs.Port, j *jobs.Job) jobs.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	record := j.Record()
	for _, d := range j.Displays()[m.displays:] {
		var data [][]byte
		for _, form := range d.Forms {
			b, err := j.Data(form)
			m.report(err)
			data = append(data, b)
		}
		m.report(p.MirrorDisplay(d, data))
		m.displays++
	}
	if !m.began && record.Status != jobs.Queued {
		m.began = true
		p.Begin() // a job that has written anything runs
	}
	for from := p.Output().Stat().End; from < record.Output.End; from = p.Output().Stat().End {
		for _, s := range j.Log().Read(from, int(record.Output.End-from)).Spans {
			p.Write(s.Stream, s.Data)
		}
	}
	if record.Status.Final() {
		p.SetRunning() // the old question is answered
	} else {
		m.report(p.Mirror(record))
	}
	return record
}

// report fails the test after an error.
func (m *mirror) report(err error) {
	if err != nil {
		m.ps.near.t.Errorf("mirroring: %v", err)
	}
}

// dialPlaces connects to a world with the place gpu.
func dialPlaces(t *testing.T) (*world, *testPlaces, *client) {
	t.Helper()
	w := newWorld(t)
	w.config.Toolsets = toolsets
	ps := w.withPlaces("cluster", "gpu")
	return w, ps, w.dial(engine.Scope{})
}
