package waiting

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/kernel/threads"
	"asyncrepl/internal/terminal/tty"
)

// A process outside the job can read its terminal: gpg-agent, for example, starts a pinentry on the
// terminal of the gpg that asks it. To find such a process, the open files of all processes of the
// system are read. That is done only if no process of the job reads, if one in the foreground waits
// for an answer over a Unix socket from outside the job, and if there was output or input since the
// last search: a program that asks a question prints it.

// outside are the processes outside one job that have its terminal open.
type outside struct {
	found    []procfs.Process // the result of the last search
	searched time.Time        // the newest traffic before it
	due      time.Time        // the earliest time of a search that was put off; zero: none was
}

// pids returns the processes found that have not ended.
func (o *outside) pids() (pids []int) {
	for _, p := range o.found {
		if s, err := procfs.Inspect(p.PID); err == nil && s.Start == p.Start && !s.Ended() {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// pending returns when to search again, or the zero time.
func (o *outside) pending() time.Time { return o.due }

// search searches after p has found no reader, and reports whether there are processes to scan.
// traffic returns the time of the newest output or input.
func (o *outside) search(p *probe, traffic func() time.Time) bool {
	o.due = time.Time{}
	terminal, is := p.input.(terminalInput)
	if !is || len(p.sockets) == 0 {
		return false
	}
	newest := traffic()
	if !newest.After(o.searched) || !p.awaitsOutside() {
		return false
	}
	all, due := terminals.since(newest)
	if o.due = due; !due.IsZero() {
		return false
	}
	o.searched, o.found = newest, all.others(terminal.pty, p.pids)
	return len(o.found) > 0
}

// awaitsOutside reports whether one of the sockets that the job's foreground waits for is connected
// to a process outside the job of the same machine.
func (p *probe) awaitsOutside() bool {
	for _, inode := range p.sockets {
		peer, connected := threads.UnixPeer(inode)
		if !connected {
			continue
		}
		held, more, err := newEnds(p, 0).holders(fmt.Sprintf("socket:[%d]", peer), func(holder) bool { return true })
		if err == nil && !more && len(held) == 0 {
			return true
		}
	}
	return false
}

// ReadOutside reports whether a program outside a job reads its terminal, if one of the job's
// programs waits for a process outside. tree lists the job's processes. If some process of the
// system can't be inspected, it may be one that reads, and unknown is true. That is so, too, if ctx
// leaves less than censusTime.
func ReadOutside(ctx context.Context, pty *tty.PTY, tree func() ([]int, error)) (reads, unknown bool) {
	pids, _ := tree() // an error: those that could be read
	p := newProbe(pty, pids)
	if _, v := p.scan(); v != busy || !p.awaitsOutside() {
		return false, false
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) < censusTime {
		return false, true
	}
	all := takeCensus()
	p = newProbe(pty, nil)
	for _, other := range all.others(pty, pids) {
		p.pids = append(p.pids, other.PID)
	}
	p.outside = p.pids
	_, v := p.scan()
	return v >= accepts, v < accepts && all.hidden
}

// censusTime is more than a census takes.
const censusTime = 500 * time.Millisecond

// A census says which processes of the system have which terminals open.
type census struct {
	at      time.Time // its beginning: a file that was opened later can be missing
	holders map[string][]procfs.Process
	hidden  bool // some process hides its open files
}

func takeCensus() census {
	c := census{at: time.Now(), holders: make(map[string][]procfs.Process)}
	all, err := procfs.All()
	c.hidden = err != nil
	for _, s := range all {
		t := threads.Thread{PID: s.PID, TID: s.PID}
		fds, err := procfs.Descriptors(s.PID, s.PID)
		c.hidden = c.hidden || err != nil && !s.Ended()
		for _, fd := range fds {
			// An error means that it has been closed, or the process has ended.
			link, _ := t.LinkOf(threads.Member{FD: fd})
			if strings.HasPrefix(link, "/dev/pts/") && !slices.Contains(c.holders[link], s.Process) {
				c.holders[link] = append(c.holders[link], s.Process)
			}
		}
	}
	return c
}

// others returns the processes that have a terminal open, apart from the server and pids.
func (c census) others(pty *tty.PTY, pids []int) []procfs.Process {
	return slices.DeleteFunc(slices.Clone(c.holders[pty.Slave().Name()]), func(p procfs.Process) bool {
		return p.PID == os.Getpid() || slices.Contains(pids, p.PID)
	})
}

// terminals is the newest census, which serves all jobs.
var terminals = censuses{rest: censusRest}

type censuses struct {
	mu   sync.Mutex
	rest time.Duration // censusRest; a test sets less
	last census
	next time.Time // the earliest time of the next one
}

// A census takes some 50 µs a process. Between two that watchers ask for there is censusRest, and
// at least censusShare times as long as the last one took.
const (
	censusRest  = time.Second
	censusShare = 20
)

// since returns a census that was begun after t, or when one can be made.
func (c *censuses) since(t time.Time) (all census, due time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last.at.After(t) {
		return c.last, due
	}
	if time.Now().Before(c.next) {
		return c.last, c.next
	}
	c.last = takeCensus()
	end := time.Now()
	c.next = end.Add(max(c.rest, censusShare*end.Sub(c.last.at)))
	return c.last, due
}
