package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/client/channel"
	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/process/child"
	"asyncrepl/internal/sandbox"
	"asyncrepl/internal/sandbox/proxy"
)

// sandboxTime bounds the start of a sandbox: bubblewrap takes milliseconds, or hangs.
const sandboxTime = 5 * time.Second

// A confined is a sandbox with an engine.
type confined struct {
	*channel.Outer
	proxy  *proxy.Proxy // serves the list of hosts; nil if no host or every host can be reached
	box    *sandbox.Box
	stderr *sandboxLog
	group  int // the process group of bubblewrap and the engine; jobs have their own
	kill   func()
	evict  *time.Timer   // removes what other sandboxes have left
	exited chan struct{} // closed when the sandbox has ended
	err    error         // how it has ended; set before exited is closed
	served chan struct{} // closed when the engine asks for nothing any more
}

// confine starts a sandbox with an engine, and returns when the engine runs. The engine inherits files
// after its end of the channel.
func (s *settings) confine(mode string, std standardStreams, files ...*os.File) (*confined, error) {
	return s.confineTenant("", mode, false, std, files...)
}

// confineTenant is confine for a tenant of several. A file that is to be hidden can be replaced before it is
// mounted, as passwd replaces those of /etc, so a sandbox that ends at once is planned again.
func (s *settings) confineTenant(tenant, mode string, again bool, std standardStreams, files ...*os.File) (*confined, error) {
	config, bwrap, err := s.sandboxConfig()
	if err != nil {
		return nil, err
	}
	around := s.surroundings()
	around.Identity = func() (string, error) { return s.identityOf(s.Workspace, tenant) }
	self, err := around.Self()
	if err != nil {
		return nil, err
	}
	box, err := sandbox.New(config)
	if err != nil {
		return nil, sandboxError(err)
	}
	if bwrap == "" {
		box.Close()
		return nil, errors.New(sandbox.Missing)
	}
	c := &confined{box: box, stderr: &sandboxLog{to: newLogWriter(std.err)}, exited: make(chan struct{}), served: make(chan struct{})}
	birth := channel.Birth{Self: self, Tenant: tenant}
	if err := c.start(s, bwrap, config.Programs[0], birth, around, mode, std, files); err != nil {
		box.Close()
		return nil, err
	}
	select {
	case <-c.Born():
		c.stderr.pass()
		c.openProxy(s)
		c.evict = time.AfterFunc(evictDelay, func() { // owned by c, which stops it; ends with the sandbox
			err := sandbox.Evict(config.State, pastAge, s.MaxState/pastShare, func() bool { return closed(c.exited) })
			if err != nil {
				s.Log.Warn("removing what sandboxes have left", "error", err)
			}
		})
		return c, nil
	case <-c.exited:
		if !again {
			c.end()
			return s.confineTenant(tenant, mode, true, std, files...)
		}
		err = startError(c.stderr.String(), c.err)
	case <-time.After(sandboxTime):
		err = fmt.Errorf("bubblewrap did not start the engine within %v%s", sandboxTime, after(": ", c.stderr.String()))
	}
	c.end()
	return nil, err
}

const (
	// evictDelay keeps the removal of what others have left away from the first calls.
	evictDelay = 5 * time.Second
	// pastAge and pastShare bound what sandboxes have left as they bound the records of past jobs: by their
	// age, and by a tenth of what all output may take.
	pastAge   = 7 * 24 * time.Hour
	pastShare = 10
)

// closed reports whether a channel is closed that nothing sends on.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// start starts bubblewrap.
func (c *confined) start(s *settings, bwrap, program string, birth channel.Birth, around sockets.Surroundings, mode string, std standardStreams, files []*os.File) error {
	filter, err := filterFile()
	if err != nil {
		return err
	}
	defer filter.Close()
	outer, end, err := channel.New(around)
	if err != nil {
		return err
	}
	defer end.Close()
	c.Outer = outer
	env, removed := sandbox.Environment(s.GuardEnv, s.sandbox.Pass)
	inherited := append(append([]*os.File{end}, files...), filter)
	cmd := exec.Command(bwrap, c.box.Args("/", 2+len(inherited), program, innerCommand, mode)...)
	cmd.Dir, cmd.Env, cmd.ExtraFiles = "/", env, inherited
	cmd.Stderr = c.stderr
	if std.in != nil {
		cmd.Stdin, cmd.Stdout = std.in, std.out
	}
	cmd.WaitDelay = time.Second
	// bubblewrap itself asks to be killed with its parent. If it was killed earlier, its first process
	// inside would wait for it for ever.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	started := make(chan error)
	go func() { // owned by c; ends with the sandbox
		runtime.LockOSThread() // the sandbox ends with the thread that has started it
		err := cmd.Start()
		started <- err
		if err == nil {
			// The same process can be left if a signal kills bubblewrap. It is in its group, whose number
			// is taken until bubblewrap is waited for.
			for unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
			}
			unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
			c.err = cmd.Wait()
			close(c.exited)
		}
	}()
	if err := <-started; err != nil {
		c.Close()
		return fmt.Errorf("starting bubblewrap: %w", err)
	}
	c.group, c.kill = cmd.Process.Pid, func() { cmd.Process.Kill() }
	birth.Settings = s.innerSettings(c.box.State)
	birth.Version, birth.Summary, birth.Removed, birth.Seals = s.Version, s.sandbox.summary(c.box.Write), removed, c.box.Seals
	birth.Proxy, birth.Network = s.sandbox.Hosts != nil, s.sandbox.Network
	go func() { // owned by c; ends with the engine
		defer close(c.served)
		c.Serve(birth) // an error: the engine says that it received no birth
	}()
	return nil
}

// openProxy serves the proxy at the listener that the engine has sent. Without one, no host is reached.
func (c *confined) openProxy(s *settings) {
	l := c.Outer.Proxy()
	if l == nil || s.sandbox.Hosts == nil {
		return
	}
	c.proxy = proxy.Start(proxy.Config{
		Hosts: s.sandbox.Hosts, Setting: "REPL_SANDBOX_NET", Log: s.Log,
		Refused: func(ctx context.Context, r proxy.Refusal) {
			// An error: the engine has ended, or does not answer in time.
			c.Denied(ctx, channel.Denial{Target: fmt.Sprintf("%s %s", r.Method, net.JoinHostPort(r.Host, strconv.Itoa(r.Port))), Port: r.Source})
		},
	}, l)
}

// follow returns the exit status of the engine when it has ended. A signal ends it; the end of the
// terminal does not, because the front decides what that means. Once the process that has started this one
// is gone, the engine does not stay stopped.
func (c *confined) follow(ctx context.Context, signals caughtSignals) int {
	var late, look <-chan time.Time
	ended, left, stopped := ctx.Done(), make(chan struct{}), false
	go func() { // serves the whole process; ends with the process that has started this one
		child.AwaitExit(os.Getppid())
		close(left)
	}()
	for {
		select {
		case <-c.exited:
			c.end()
			if exit := (*exec.ExitError)(nil); errors.As(c.err, &exit) {
				return exit.ExitCode()
			}
			return 0
		case <-signals.hangups:
			continue
		case <-left:
			left, look = nil, time.After(0)
			continue
		case <-look:
			pause := lookPause
			if c.stopped() {
				if pause = stoppedTime; stopped { // it was continued, and a job has stopped it again
					c.kill()
				}
				unix.Kill(-c.group, unix.SIGCONT) // it learns that its client has left
			}
			look, stopped = time.After(pause), pause == stoppedTime
			continue
		case <-signals.ends:
		case <-ended:
		case <-late: // the engine had as much time as endWithin gives
			c.end()
			return 0
		}
		ended, late = nil, time.After(exitTime+killTime)
		go c.End() // owned by c; ends with the engine, which can have stopped reading
	}
}

const (
	// lookPause is the time between two looks at an engine whose first client has gone, and stoppedTime that
	// after an engine was continued.
	lookPause   = time.Minute
	stoppedTime = 5 * time.Second
)

// stopped reports whether a signal has stopped the engine. A job can do that, and the engine would never
// learn that its client has left. An engine that is only slow is in no such state.
func (c *confined) stopped() bool {
	all, _ := procfs.All() // an error: the engine is looked at again later
	return slices.ContainsFunc(all, func(s procfs.Stat) bool { return s.Group == c.group && s.State == 'T' })
}

// end ends the sandbox, and removes what is its own.
func (c *confined) end() {
	if c.evict != nil {
		c.evict.Stop()
	}
	c.kill()
	<-c.exited
	c.Close()
	<-c.served
	if c.proxy != nil {
		c.proxy.Close()
	}
	c.box.Close() // an error: the next start removes the remaining files
}

// startError returns why a sandbox has not started, and what to do.
func startError(said string, err error) error {
	if cure := sandbox.Cure(said); cure != "" {
		return fmt.Errorf("%s: %s", said, cure)
	}
	if said == "" {
		return fmt.Errorf("the engine did not start in the sandbox: %v", err)
	}
	return errors.New(strings.TrimPrefix(said, "async-repl: "))
}

// after returns text after what separates it from something before, or nothing if text is empty.
func after(separator, text string) string {
	if text == "" {
		return ""
	}
	return separator + text
}

// filterFile returns a file that the filter of system calls can be read from.
func filterFile() (*os.File, error) {
	filter, err := sandbox.Filter()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	if _, err := w.Write(filter); err != nil { // a pipe has room for it
		r.Close()
		return nil, err
	}
	return r, nil
}

// A sandboxLog is the standard error of a sandbox. It keeps what is written before the engine runs,
// which says why it does not start.
type sandboxLog struct {
	to io.Writer

	mu     sync.Mutex
	passes bool
	kept   bytes.Buffer
}

// mostKept is the number of bytes that a sandboxLog keeps.
const mostKept = 4096

func (l *sandboxLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.passes {
		l.kept.Write(p[:min(len(p), mostKept-l.kept.Len())])
		return len(p), nil
	}
	l.to.Write(printable(p)) // an error: there is no reader any more, and the sandbox must not end of that
	return len(p), nil
}

// pass passes on what was written, and everything from then on.
func (l *sandboxLog) pass() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to.Write(printable(l.kept.Bytes()))
	l.kept.Reset()
	l.passes = true
}

// String returns what was kept.
func (l *sandboxLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(l.kept.String())
}
