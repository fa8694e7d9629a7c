//go:build unix

package page_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// BenchmarkOutputSeen takes the time from a write of a job until a page has it and, in turn, as its floor, of a
// message of the same length over a bare WebSocket, which keeps no log. Each comes when both have been still for
// a while: a message just after another one takes a third of the time. Aim: 2x at the 95th percentile, and less
// than 100 ms.
func BenchmarkOutputSeen(b *testing.B) {
	w := newWorld(b)
	lines := make(chan []byte)
	j := w.job("lines", func(_ context.Context, port *jobs.Port) {
		for line := range lines {
			port.Write(output.TTY, line)
		}
	})
	defer close(lines)
	messages := make(chan []byte)
	bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		must.Do(b, err)
		defer conn.CloseNow()
		for message := range messages {
			must.Do(b, conn.Write(r.Context(), websocket.MessageText, message))
		}
	}))
	defer bare.Close()
	defer close(messages)
	p, floor := dialRaw(b, w.server), dialRaw(b, bare)
	p.send(textFrame, `{"op":"open","job":"`+j.ID()+`"}`)
	line := bytes.Repeat([]byte("x"), 80)
	var at int64
	seen := func() time.Duration {
		begun := time.Now()
		lines <- line
		for to := at + 80; at != to; {
			_, message, err := p.frame()
			must.Do(b, err)
			if next, found := nextOf(message); found {
				at = next
			}
		}
		took := time.Since(begun)
		p.drawn(j.ID(), at)
		return took
	}
	message := bytes.Repeat([]byte("x"), 200) // as long as one with a line
	bareSeen := func() time.Duration {
		begun := time.Now()
		messages <- message
		_, _, err := floor.frame()
		must.Do(b, err)
		return time.Since(begun)
	}
	var ours, theirs []time.Duration
	for b.Loop() {
		for range 200 {
			time.Sleep(20 * time.Millisecond)
			ours = append(ours, seen())
			time.Sleep(20 * time.Millisecond)
			theirs = append(theirs, bareSeen())
		}
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	p95, half := len(ours)*95/100, len(ours)/2
	b.ReportMetric(float64(ours[p95].Microseconds())/1e3, "ms-p95")
	b.ReportMetric(float64(ours[half].Microseconds())/1e3, "ms-median")
	b.ReportMetric(float64(ours[p95])/float64(theirs[p95]), "x-floor-p95")
	b.ReportMetric(float64(ours[half])/float64(theirs[half]), "x-floor-median")
}

// BenchmarkPrintsWithWatchers runs a command that prints 100 MB on a terminal: alone, as its floor, with 50 pages
// that show it, and with 50 pages that read nothing. Aim: 0.9 and 0.95 of the speed of alone, by the lower
// quartiles of many rounds (-benchtime 10x). On a machine with other work only the cores say much: how much of
// one this process takes more, with what the pages take here.
func BenchmarkPrintsWithWatchers(b *testing.B) {
	w := newWorld(b)
	run := func(watchers int, read bool) (took, cpu time.Duration) {
		j := w.shell("read x; yes 0123456789012345678901234567890123456789012345678901234567890123456789012345678 | head -c 100000000")
		jobstest.Asks(b, j)
		c := w.watch(watchers, j.ID(), read)
		if r := w.do("POST", "/api/jobs/"+j.ID()+"/input", `{"text":"\n"}`); r.status != http.StatusNoContent {
			b.Fatal(r.body)
		}
		begun, used := time.Now(), cpuTime()
		jobstest.End(b, j)
		took, cpu = time.Since(begun), cpuTime()-used
		if c.end.Store(j.Log().Stat().End); read {
			c.reading.Wait()
		}
		c.leave()
		return took, cpu
	}
	rounds := []struct {
		name     string
		watchers int
		read     bool
		took     []time.Duration
		all, cpu time.Duration
	}{{name: "alone"}, {name: "50-read", watchers: 50, read: true}, {name: "50-read-nothing", watchers: 50}}
	for b.Loop() {
		for i := range rounds {
			r := &rounds[i]
			took, cpu := run(r.watchers, r.read)
			r.took, r.all, r.cpu = append(r.took, took), r.all+took, r.cpu+cpu
		}
	}
	for _, r := range rounds {
		slices.Sort(r.took)
		b.ReportMetric(r.took[len(r.took)/4].Seconds(), "s-"+r.name)
	}
	for _, r := range rounds[1:] {
		alone := rounds[0].took
		b.ReportMetric(float64(alone[len(alone)/4])/float64(r.took[len(r.took)/4]), "x-alone-"+r.name)
		b.ReportMetric((r.cpu-rounds[0].cpu).Seconds()/r.all.Seconds(), "cores-"+r.name)
	}
}

// cpuTime returns the time that this process has computed.
func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkWatcher takes the memory of a page, on the server and in this test: of one that shows the list, one
// that follows a job, and one that reads nothing. Aim: 100 KiB.
func BenchmarkWatcher(b *testing.B) {
	const many = 300
	for b.Loop() {
		for name, read := range map[string]bool{"list": true, "job": true, "reads-nothing": false} {
			w := newWorld(b)
			w.done(300)
			j, write, _ := w.flood(1 << 20)
			open := j.ID()
			if name == "list" {
				open = "none"
			}
			before := memory()
			c := w.watch(many, open, read)
			for range 20 {
				write(64 << 10)
				time.Sleep(50 * time.Millisecond)
			}
			b.ReportMetric(float64(memory()-before)/many/1024, "KiB/"+name)
			c.leave()
		}
	}
}

// memory returns the bytes of this process that are in use.
func memory() int64 {
	runtime.GC()
	runtime.GC() // what a pool has
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
