package place

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"asyncrepl/internal/place/far"
	"asyncrepl/jobs"
)

// What replies say of an input whose link was lost on its way.
const (
	notDelivered = "not delivered"
	notKnown     = "not known to be delivered"
)

// takeInput sends input to the job, once. If the answer is lost with the link, it is not sent again: the
// person would type twice. The input has an id, by which the engine is asked later what became of it.
func (m *mirror) takeInput(ctx context.Context, in jobs.Input) (jobs.Delivery, error) {
	l := m.host.current()
	if l == nil {
		m.noteInput("", notDelivered)
		return jobs.Delivery{}, fmt.Errorf("%s: %s is out of reach; nothing was sent", notDelivered, m.host.place.Name)
	}
	id := rand.Text()
	asked, waits := m.port.Asked(), m.port.Waits()
	d, err := l.client.Input(ctx, m.port.ID(), id, in)
	refused, _ := errors.AsType[*far.Refused](err)
	switch {
	case refused != nil:
		m.noteInput("", "")
		refused.Text = line(refused.Text)
		return jobs.Delivery{}, refused
	case err != nil:
		m.noteInput(id, notKnown)
		m.do(func() { m.settleInput(id) })
		return jobs.Delivery{}, fmt.Errorf("%s: the link to %s was lost or slow; the next status says whether it arrived", notKnown, m.host.place.Name)
	}
	m.noteInput("", "")
	if waits && in.Types() {
		d.Closed = max(d.Closed, asked)
	}
	m.answers(d.Closed)
	return d, nil
}

// answers notes that the questions up to a number are answered. The job runs then, unless the engine has said of
// another one meanwhile.
func (m *mirror) answers(closed int) {
	m.questions.Lock()
	defer m.questions.Unlock()
	if m.answered = max(m.answered, closed); m.port.Asked() <= m.answered {
		m.port.SetRunning()
	}
}

func (m *mirror) noteInput(unsure, input string) {
	m.mu.Lock()
	m.unsure, m.input = unsure, input
	m.mu.Unlock()
	m.port.Changed()
}

// settleInput asks what became of an input whose answer was lost, until it is known, the engine is lost, or the job
// ends.
func (m *mirror) settleInput(id string) {
	for {
		l, era, err := m.host.await(m.run, false, true)
		if err != nil || m.engineLost() != nil {
			return
		}
		asking, cancel := context.WithCancel(m.run)
		stop := context.AfterFunc(era, cancel)
		_, err = l.client.InputState(asking, id)
		stop()
		cancel()
		switch {
		case err == nil:
			m.settled(id, "delivered, although the link was lost then")
			return
		case isRefused(err):
			m.settled(id, notDelivered)
			return
		}
		l.awaitRetry(m.run)
	}
}

// settled notes what has become of an input, unless another one came later.
func (m *mirror) settled(id, input string) {
	m.mu.Lock()
	last := m.unsure == id
	m.mu.Unlock()
	if last {
		m.noteInput("", input)
	}
}

// isRefused reports whether an engine has answered with a refusal.
func isRefused(err error) bool {
	_, refused := errors.AsType[*far.Refused](err)
	return refused
}
