package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"asyncrepl/internal/client/channel"
	"asyncrepl/internal/engine"
	"asyncrepl/internal/files"
	"asyncrepl/internal/mcp/httpserver"
	"asyncrepl/internal/mcp/server"
	"asyncrepl/internal/serve/metrics"
	"asyncrepl/internal/serve/relay"
	"asyncrepl/internal/serve/tokens"
	"asyncrepl/jobs"
)

// An innerTenant is the tenant of a server over HTTP that this process serves, in a sandbox. The process outside
// has checked the requests and passes them on.
type innerTenant struct {
	name    string
	set     *settings
	tenants *engine.Tenants
	engine  *engine.Engine
	files   *files.Store
}

// newInnerTenant makes the engine of the tenant.
func newInnerTenant(set *settings) (*innerTenant, error) {
	t := &innerTenant{cmp.Or(set.inside.Tenant, defaultTenant), set, engine.NewTenants(set.Config), nil, new(files.Store)}
	dir := ""
	if set.inside.Tenant != "" {
		dir = set.Workspace
	}
	var err error
	if t.engine, err = t.tenants.Tenant(t.name, dir); err == nil && dir != "" {
		err = t.files.Keep(t.engine.Workspace(), false)
	}
	return t, err
}

// serve serves the tenant until a signal, or until nothing of a tenant without a token is left.
func (t *innerTenant) serve(ctx context.Context, signals caughtSignals) error {
	set := t.set
	set.inside.noteDenials(t.engine)
	doors := newDoors(ctx, set)
	defer doors.close()
	doors.open(t.engine, t.name)
	own := func(string) (*engine.Engine, error) { return t.engine, nil }
	var web *httpserver.Server
	config := httpserver.Config{
		New: set.newConnection(own, t.files), Files: set.filesOver(own, t.files), Ready: t.tenants.Ready, Tools: server.ToolNames(), Log: set.Log,
		Find: func(token string) (httpserver.Caller, bool) {
			return httpserver.Caller{Tenant: t.name, Token: token}, true
		},
		Counts: func() metrics.Counts { return countsOf(t.tenants.Totals(), web.Load()) },
	}
	if set.page == "on" {
		config.Page = set.servedPage(own)
		config.Page.Static = nil // served outside
	}
	web = httpserver.New(config)
	<-signals.caught
	served := make(chan error, 1) // buffered: it can come after the end
	go func() {                   // owned by serve; ends with the listener
		served <- web.Serve(set.inside.Relayed())
	}()
	var err error
	for going := true; going; {
		select {
		case leaves := <-set.inside.Leaving():
			names := []string{t.name}
			if leaves {
				names = nil
			}
			t.tenants.Keep(names)
		case <-t.engine.Ending(): // nothing of a tenant without a token was left
			going = false
		case err = <-served:
			going = false
		case <-signals.ends:
			going = false
		}
	}
	answers, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer cancel()
	web.Shutdown(answers)
	doors.close()
	endWithin(endTime, set.Log, t.tenants.Close)
	return err
}

// apart are the tenants of a server over HTTP, each of which is served in a sandbox of its own.
type apart struct {
	set    *settings
	stderr io.Writer
	tokens *tokens.File // nil: there are none, and all callers are one tenant

	// Guarded by mu.
	mu     sync.Mutex
	all    map[string]*tenantApart // the keys are names
	closed bool
}

// A tenantApart is a tenant with its process. It is a [relay.Backend].
type tenantApart struct {
	of      *apart
	name    string // "" if the server has only one tenant
	another bool   // the server had another tenant before
	set     settings
	relay   *relay.Tenant

	giving  sync.Mutex    // held while the process is given a connection
	changed chan struct{} // holds one if the process must read what is guarded by mu again
	running sync.WaitGroup

	// Guarded by mu, which is not held while anything waits for a process: its jobs can stop it.
	mu     sync.Mutex
	last   *tenantProcess // nil: none was started
	leaves bool           // the tenant has no token
	closed bool
}

// A tenantProcess is one process of a tenant.
type tenantProcess struct {
	*confined
	failure   error         // why the process could not be started; nil: it was, or is being started
	failed    time.Time     // when the start failed
	workspace os.FileInfo   // the workspace that the process has mounted
	started   chan struct{} // closed when it runs, or could not be started
	gone      chan struct{} // closed when nothing of it is left
}

func newApart(set *settings, file *tokens.File, stderr io.Writer) processes {
	return &apart{set: set, stderr: stderr, tokens: file, all: make(map[string]*tenantApart)}
}

// tenant returns a tenant, without starting its process, or nil if the server ends.
func (a *apart) tenant(name string) *tenantApart {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.all[name]
	if t != nil || a.closed {
		return t
	}
	t = &tenantApart{of: a, another: len(a.all) > 0, set: *a.set, changed: make(chan struct{}, 1)}
	if a.tokens != nil {
		t.name, t.set.Workspace = name, a.tokens.Workspace(name)
	}
	isStatus := func(status string) bool { return slices.Contains(jobs.Statuses, jobs.Status(status)) }
	t.relay = relay.New(t, isStatus, a.set.Log)
	a.all[name] = t
	return t
}

// try starts the process of a tenant, so that a sandbox that does not start ends the start of the server.
func (a *apart) try() error {
	names := a.names()
	if len(names) > 1 {
		if err := a.set.CheckShared(); err != nil {
			return err
		}
	}
	if err := a.prepare(); err != nil || len(names) == 0 {
		return err
	}
	_, err := a.tenant(names[0]).process(context.Background())
	return err
}

// names returns the names of the tenants.
func (a *apart) names() []string {
	if a.tokens == nil {
		return []string{defaultTenant}
	}
	return a.tokens.Tenants()
}

// prepare makes the workspaces, and checks whether each can be that of a sandbox. If several can't, the error is
// the first one.
func (a *apart) prepare() (first error) {
	for _, name := range a.names() {
		if t := a.tenant(name); t != nil {
			first = cmp.Or(first, t.prepare(), t.set.checkWorkspace())
		}
	}
	return first
}

// relays returns the tenants that were used.
func (a *apart) relays() (list []*relay.Tenant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range a.all {
		list = append(list, t.relay)
	}
	return list
}

// relay returns what passes requests of a tenant on, or nil if the server ends.
func (a *apart) relay(name string) *relay.Tenant {
	if t := a.tenant(name); t != nil {
		return t.relay
	}
	return nil
}

// reread ends the tenants that have no token any more once nothing of them runs, and at once the processes whose
// workspaces were replaced: a sandbox keeps the directory that it was started with.
func (a *apart) reread() error {
	err := a.prepare()
	names := a.names()
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, t := range a.all {
		t.update(func() { t.leaves = !slices.Contains(names, name) })
	}
	return err
}

// ending has all processes answer their calls at once and end. None starts any more.
func (a *apart) ending() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for _, t := range a.all {
		t.update(func() { t.closed = true })
	}
}

// close ends all processes.
func (a *apart) close() {
	a.ending()
	for _, t := range a.all { // it does not change any more
		t.running.Wait()
		t.relay.Close()
	}
}

// errEnding refuses requests while the server ends.
var errEnding = errors.New("the server is ending")

const (
	// hangTime bounds the time that a process takes to read what it is sent. It is killed then.
	hangTime = 5 * time.Second
	// failTime is how long calls get the error of a start that has failed. No process is started meanwhile.
	failTime = time.Second
	// goneTime bounds the time between a connection that a process breaks off and its end, also if it ends in order.
	goneTime = answerTime + endTime
)

// Dial implements relay.Backend.
func (t *tenantApart) Dial(ctx context.Context) (c net.Conn, err error) {
	for range 3 { // it can be killed after each start
		p, err := t.process(ctx)
		if err != nil {
			return nil, err
		}
		if c, err = t.give(ctx, p); !errors.Is(err, channel.ErrGone) {
			return c, err
		}
		select {
		case <-p.gone:
		case <-time.After(goneTime): // it lives, and can't be reached
			return nil, err
		}
	}
	return nil, err
}

// give gives a process a connection. One call at a time waits, so that few descriptors are taken.
func (t *tenantApart) give(ctx context.Context, p *tenantProcess) (c net.Conn, err error) {
	t.giving.Lock()
	defer t.giving.Unlock()
	p.send(func() { c, err = p.Dial(ctx) })
	return c, scarce(err)
}

// scarce returns an error that also says what to do if there are too few descriptors.
func scarce(err error) error {
	if errors.Is(err, syscall.EMFILE) {
		err = fmt.Errorf("%w: the server has as many descriptors as it may have (ulimit -n): call again when other calls have ended, or start it with a higher limit", err)
	}
	return err
}

// process returns the process of the tenant, and starts it if none runs. Calls that come meanwhile wait for
// the same start.
func (t *tenantApart) process(ctx context.Context) (*tenantProcess, error) {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil, errEnding
	}
	p := t.last
	if p == nil || p.over() {
		before := p
		p = &tenantProcess{started: make(chan struct{}), gone: make(chan struct{})}
		t.last = p
		t.running.Go(func() { // joined by close; ends with the process
			defer close(p.gone)
			if before != nil {
				<-before.gone // they have the same records
			}
			t.run(p)
		})
	}
	t.mu.Unlock()
	select {
	case <-p.started:
		return p, p.failure
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run runs a process until it ends.
func (t *tenantApart) run(p *tenantProcess) {
	err := t.start(p)
	if err != nil {
		p.failure, p.failed = fmt.Errorf("the server of this tenant could not be started: %w", scarce(err)), time.Now()
	}
	close(p.started)
	if err != nil {
		t.of.set.Log.Error("the server of a tenant could not be started", "tenant", cmp.Or(t.name, defaultTenant), "error", err)
		return
	}
	defer p.end()
	leaves, ending := false, false
	for {
		t.mu.Lock()
		left, end := t.leaves, t.closed
		t.mu.Unlock()
		if left != leaves {
			leaves = left
			p.send(func() { p.Leave(left) })
		}
		if !ending && (end || !t.inPlace(p)) {
			ending = true
			defer time.AfterFunc(answerTime+endTime, p.kill).Stop()
			p.send(func() { p.End() })
		}
		select {
		case <-t.changed:
			continue
		case <-p.exited:
		case <-p.Done():
		}
		late := time.AfterFunc(hangTime, p.kill) // stopped below
		<-p.exited
		late.Stop()
		<-p.Done() // no process is left inside that could write the records
		if p.err != nil && !ending {
			t.of.set.Log.Warn("the server of a tenant has died; the next call starts another", "tenant", cmp.Or(t.name, defaultTenant), "error", p.err)
		}
		return
	}
}

// start starts a process.
func (t *tenantApart) start(p *tenantProcess) (err error) {
	if t.another {
		if err := t.set.CheckShared(); err != nil {
			return err
		}
	}
	if err := t.prepare(); err != nil {
		return err
	}
	if p.workspace, err = os.Stat(t.set.Workspace); err == nil {
		p.confined, err = t.set.confineTenant(t.name, inTenant, false, standardStreams{nil, nil, t.of.stderr})
	}
	return err
}

// prepare makes the workspace of the tenant.
func (t *tenantApart) prepare() error {
	if t.name == "" {
		return nil
	}
	if err := os.MkdirAll(t.set.Workspace, 0o700); err != nil {
		return fmt.Errorf("making the workspace of tenant %s: %w", t.name, err)
	}
	return t.of.tokens.Apart() // links can have been made since the file was read
}

// inPlace reports whether the workspace is the directory that the process has.
func (t *tenantApart) inPlace(p *tenantProcess) bool {
	now, err := os.Stat(t.set.Workspace)
	return err == nil && os.SameFile(now, p.workspace)
}

// send calls a function that sends the process something. It kills a process that reads nothing.
func (p *tenantProcess) send(f func()) {
	late := time.AfterFunc(hangTime, p.kill) // owned by send, which stops it
	defer late.Stop()
	f()
}

// over reports whether the next call must start another process.
func (p *tenantProcess) over() bool {
	if !closed(p.started) {
		return false
	}
	if p.failure != nil {
		return time.Since(p.failed) > failTime
	}
	return p.ended()
}

// ended reports whether a process that was started has ended.
func (p *tenantProcess) ended() bool {
	return closed(p.exited) || closed(p.Done())
}

// Running implements relay.Backend.
func (t *tenantApart) Running() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last != nil && closed(t.last.started) && t.last.failure == nil && !t.last.ended()
}

// Lost implements relay.Backend. It returns when the process is gone, with all connections to it: otherwise the
// next call of the client could meet one of them. A call can also meet the end of a process whose tenant gets a
// token back.
func (t *tenantApart) Lost(error) string {
	t.mu.Lock()
	p := t.last
	t.mu.Unlock()
	select {
	case <-p.gone:
		if p.failure == nil && p.err == nil {
			t.relay.Close()
			return "The server of this tenant has ended in order, because the tenant had no token and nothing to do, or its workspace was replaced. Call again: the next call starts another."
		}
	case <-time.After(goneTime):
	}
	t.relay.Close()
	return "The server of this tenant died during this call, with its running jobs and its variables. The next call starts it again; list_jobs then shows what became of the jobs."
}

// update changes what is guarded by mu, and has the process read it.
func (t *tenantApart) update(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
	select {
	case t.changed <- struct{}{}:
	default: // it reads it anyway
	}
}
