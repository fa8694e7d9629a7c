package place

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"asyncrepl/internal/place/stream"
	"asyncrepl/jobs"
)

// watch follows the job over one link. It returns its record once the job has ended and all of its output is
// here. With amend it follows the ended job, and gives each record to amend; it returns at the end.
func (m *mirror) watch(l *link, era context.Context, amend func(*jobs.Record)) (*jobs.Record, error) {
	life, cancel := context.WithCancelCause(era)
	defer cancel(nil)
	parent := m.run
	if amend != nil {
		parent = m.host.ctx
	}
	defer context.AfterFunc(parent, func() { cancel(context.Cause(parent)) })()
	frames, body, err := m.open(life, l, era)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	for {
		f, err := frames.Next()
		if err != nil {
			return nil, err
		}
		switch {
		case f.Record != nil && amend != nil:
			m.move(f)
			amend(f.Record)
		case f.Record != nil:
			if record, err := m.apply(f); record != nil || err != nil {
				return record, err
			}
		case f.Display != nil:
			if err := m.port.MirrorDisplay(*f.Display, f.Forms); err != nil {
				return nil, &impossible{err}
			}
			m.pos.Displays = f.Display.Number
		case f.Skip != nil:
			if err := m.port.Skip(f.Skip.To, f.Skip.Why); err != nil {
				return nil, &impossible{err}
			}
			m.pos.Cursor = f.Skip.To
		case len(f.Data) > 0:
			m.port.Write(f.Stream, f.Data)
			m.pos.Cursor += int64(len(f.Data))
		}
	}
}

// open asks the engine for the life of the job from where it is here. The first time it starts the job, and then
// again as long as that is not answered, but only in the same engine: code must not run twice. The next engine can
// have the records of a lost one.
func (m *mirror) open(ctx context.Context, l *link, era context.Context) (*stream.Reader, io.Closer, error) {
	if err := m.turn.beforeIt(ctx); err != nil {
		return nil, nil, err
	}
	m.mu.Lock()
	known := m.known
	if !known && m.run.Err() != nil {
		m.mu.Unlock()
		return nil, nil, context.Cause(m.run)
	}
	if m.era == nil {
		m.era = era
	}
	m.sent = true
	follow := known || m.era != era
	m.mu.Unlock()
	if !follow {
		m.enters()
	}
	var frames *stream.Reader
	var body io.Closer
	var err error
	if follow {
		frames, body, err = l.client.Follow(ctx, m.port.ID(), m.pos)
	} else {
		frames, body, err = l.client.Start(ctx, m.port.ID(), m.start.Tool, m.start.Arguments, m.start.Keep, m.pos)
	}
	if err == nil {
		m.mu.Lock()
		m.known = true
		m.mu.Unlock()
		m.turn.pass(true)
		m.port.Changed()
	}
	return frames, body, err
}

// enters notes that the session of the job lives at the host, and says that the job makes it again if it was lost there.
func (m *mirror) enters() {
	r := roomOf(m.start.Kind, m.start.Session)
	again, why := m.host.takes(m, r)
	if again && m.start.MadeAgain != nil {
		m.start.MadeAgain()
	}
	if why != "" && r.kind == jobs.Python {
		m.again = fmt.Sprintf("session %s is new: the last one has ended (%s); variables lost", r.name, why)
	}
}

// move moves the times of a record to our clock. A zero time stays zero.
func (m *mirror) move(f stream.Frame) {
	r, d := f.Record, m.host.shift(f.Now)
	for _, t := range []*time.Time{&r.Created, &r.Started, &r.Ended, &r.Answered, &r.Accepts.Since, &r.Output.Last} {
		if !t.IsZero() {
			*t = t.Add(d)
		}
	}
}

// apply records what the engine says of the job. It returns the record if the job has ended, and all of its
// output is here.
func (m *mirror) apply(f stream.Frame) (*jobs.Record, error) {
	m.move(f)
	record := f.Record
	if record.Status.Final() {
		m.mu.Lock()
		m.behind = f.Behind
		m.mu.Unlock()
		if f.Behind == 0 {
			return record, nil
		}
		m.port.Changed()
		return nil, nil
	}
	m.questions.Lock()
	defer m.questions.Unlock()
	if record.Status == jobs.WaitingInput && record.Asked <= m.answered { // it was made before the answer, and a later one follows
		return nil, nil
	}
	if err := m.port.Mirror(*record); err != nil {
		return nil, &impossible{err}
	}
	return nil, nil
}

// An impossible error says what the engine reports that no job can do.
type impossible struct{ error }

// isLie reports whether an engine has sent what can't be true.
func isLie(err error) bool {
	_, frame := errors.AsType[*stream.Error](err)
	_, record := errors.AsType[*impossible](err)
	return frame || record
}
