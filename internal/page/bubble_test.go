//go:build unix

package page_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/page"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
	"asyncrepl/jobs/display"
	"asyncrepl/jobs/jobstest"
)

// A bubble is a registry whose page is served in a bubble of time. Its connections are pipes, which hold
// nothing: a write takes until the other side has read it.
type bubble struct {
	t testing.TB
	*jobs.Registry
	client *http.Client
	conns  chan net.Conn
	closed chan struct{}
	left   chan struct{} // gets one for each request that has been served
}

func inBubble(t *testing.T, test func(t *testing.T, b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{
			t: t, Registry: jobstest.Registry(t), conns: make(chan net.Conn), closed: make(chan struct{}),
			left: make(chan struct{}, 1000), // more than a test has requests
		}
		b.client = &http.Client{Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext:       func(context.Context, string, string) (net.Conn, error) { return b.dial(), nil },
		}}
		ctx, end := context.WithCancel(t.Context())
		api := page.JobsAPI(b.Registry)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			api.ServeHTTP(w, r.WithContext(ctx))
			b.left <- struct{}{}
		})}
		var serving sync.WaitGroup
		serving.Go(func() { server.Serve(b) }) // joined by the cleanup
		t.Cleanup(func() {
			end()
			server.Close()
			serving.Wait()
		})
		test(t, b)
	})
}

func (b *bubble) dial() net.Conn {
	ours, theirs := net.Pipe()
	b.conns <- theirs
	return ours
}

func (b *bubble) Close() error {
	close(b.closed)
	return nil
}

func (b *bubble) Accept() (net.Conn, error) {
	select {
	case c := <-b.conns:
		return c, nil
	case <-b.closed:
		return nil, net.ErrClosed
	}
}

func (b *bubble) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// tab opens a page.
func (b *bubble) tab() *tab {
	b.t.Helper()
	return openTab(b.t, "http://page/api/live", b.client)
}

// idles opens a page on which no job is open, and which reads all that it is sent.
func (b *bubble) idles() {
	b.t.Helper()
	p := b.tab().listed()
	go func() { // ends with the connection
		for p.step(context.Background()) == nil {
		}
	}()
}

// raw opens a page that speaks WebSocket itself.
func (b *bubble) raw() *raw {
	b.t.Helper()
	return upgrade(b.t, b.dial())
}

// schedulings returns how many goroutines the runtime has run so far: those of which it measures the wait.
func schedulings() (n uint64) {
	s := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	metrics.Read(s)
	for _, each := range s[0].Value.Float64Histogram().Counts {
		n += each
	}
	return n
}

// A page on which nothing happens, and whose open job does nothing, is asked every 30 seconds whether it is
// there. Nothing else wakes the server.
func TestIdlePageCostsAPing(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		stop := make(chan struct{})
		defer close(stop)
		j := startJob(t, b.Registry, "idle", func(context.Context, *jobs.Port) { <-stop })
		j.AwaitStart(t.Context())
		p, begun := b.raw(), time.Now()
		p.send(textFrame, `{"op":"open","job":"`+j.ID()+`"}`)
		var frames []string
		go func() { // ends with the connection
			for {
				kind, payload, err := p.frame()
				if err != nil {
					return
				}
				frames = append(frames, fmt.Sprintf("%x %v", kind, time.Since(begun).Round(time.Second)))
				if kind == pingFrame {
					p.send(pongFrame, string(payload))
				}
			}
		}()
		time.Sleep(time.Second)
		before := schedulings()
		const pings = 1000
		time.Sleep(pings * 30 * time.Second)
		if n := schedulings() - before; n > 10*pings {
			t.Errorf("%d goroutines were run for %d pings", n, pings)
		}
		synctest.Wait()
		if got, want := strings.Join(frames[:min(len(frames), 4)], ", "), "81 0s, 81 0s, 89 30s, 89 1m0s"; got != want || len(frames) != pings+2 {
			t.Errorf("%d frames: %s, want %d: %s", len(frames), got, pings+2, want)
		}
	})
}

// A page that takes nothing for 30 seconds is closed, and so is one that has not answered a ping by then: one
// that says nothing, and one that has sent half a frame. A page that only listens stays.
func TestPageThatIsNotThereIsClosed(t *testing.T) {
	for name, c := range map[string]struct {
		sends string
		reads bool
		after time.Duration
	}{
		"reads nothing": {after: 30 * time.Second},
		"says nothing":  {reads: true, after: 60 * time.Second},
		"half a frame":  {sends: "\x81\xfe\x00", reads: true, after: 60 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				b.idles()
				p, begun := b.raw(), time.Now()
				fmt.Fprint(p, c.sends)
				if c.reads {
					go io.Copy(io.Discard, p) // ends with the connection
				}
				<-b.left
				if took := time.Since(begun); took != c.after {
					t.Errorf("closed after %v, want %v", took, c.after)
				}
				select {
				case <-b.left:
					t.Error("the page that only listens was closed, too")
				case <-time.After(time.Hour):
				}
			})
		})
	}
}

// A page is sent what changes also before it has answered a ping, which can be behind much output.
func TestPingDelaysNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		p := b.raw()
		next := func() (byte, []byte) {
			kind, payload, err := p.frame()
			must.Do(t, err)
			return kind, payload
		}
		next()
		kind, payload := next()
		asked := string(payload)
		if kind != pingFrame {
			t.Fatalf("got a frame %x", kind)
		}
		begun := time.Now()
		j := startJob(t, b.Registry, "job", func(context.Context, *jobs.Port) {})
		if kind, got := next(); kind != textFrame || !bytes.Contains(got, []byte(j.ID())) || time.Since(begun) > time.Second {
			t.Errorf("after %v got %x %s", time.Since(begun), kind, got)
		}
		go io.Copy(io.Discard, p) // ends with the connection
		p.send(pongFrame, asked)
	})
}

// The state of a job that prints is a second old at most, also when it prints no more.
func TestStateOfAJobFollowsItsOutput(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		j, write, _ := flood(t, b.Registry, 1)
		p := b.tab().listed()
		p.opens(j, 0)
		p.until("the output", func() bool { return p.at == 1 })
		for range 3 {
			write(1)
		}
		begun := time.Now()
		p.until("the state", func() bool { return p.job.Output.Cursor == 4 })
		if took := time.Since(begun); took > time.Second {
			t.Errorf("after %v", took)
		}
		p.until("the output", func() bool { return p.at == 4 })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := p.step(ctx); err == nil {
			t.Errorf("got another message: %+v", p.job)
		}
	})
}

// What a page says late of a job that it has closed does not hide what it says of the open one.
func TestLateDrawnOfAnotherJob(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		j, _, _ := flood(t, b.Registry, page.Lag)
		p := b.tab().listed()
		p.lazy = true
		p.opens(j, 0)
		p.until("the window", func() bool { return p.at == page.Window })
		p.draws()
		p.says(map[string]any{"op": "drawn", "job": "another", "cursor": 1})
		p.until("more", func() bool { return p.at == 2*page.Window })
	})
}

// Pages on which nothing happens slow no other one.
func TestIdlePagesSlowNoOther(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		j, _, _ := flood(t, b.Registry, page.Lag)
		for range 100 {
			b.idles()
		}
		p := b.tab().listed()
		time.Sleep(time.Second) // they rest from what they were sent
		begun := time.Now()
		p.opens(j, 0)
		p.until("all", func() bool { return p.at == page.Lag })
		if took := time.Since(begun); took > 200*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

// All pages together are sent 16 MiB a second. One that gets little waits little.
func TestPagesTogetherAreSentABoundedNumberOfBytes(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		j, _, _ := flood(t, b.Registry, page.Lag)
		quiet, write, _ := flood(t, b.Registry, 1)
		var pages sync.WaitGroup
		begun := time.Now()
		const many = 16
		for range many {
			p := b.tab()
			p.opens(j, 0)
			pages.Go(func() { p.until("all", func() bool { return p.at == page.Lag }) }) // joined below
		}
		p := b.tab().listed()
		p.opens(quiet, 0)
		p.until("the output", func() bool { return p.at == 1 })
		for n := range int64(10) {
			written := time.Now()
			write(1)
			p.until("more", func() bool { return p.at == n+2 })
			if took := time.Since(written); took > 100*time.Millisecond {
				t.Errorf("a byte came after %v", took)
			}
		}
		pages.Wait()
		// Each page is sent its first window before it knows of the others.
		const sent, first = many * page.Lag * 4 / 3, many * page.Window * 4 / 3
		long := time.Since(begun).Seconds()
		if most, least := (sent-first)/long, sent/long; most > 16<<20 || least < 10<<20 {
			t.Errorf("%.1f to %.1f MiB were sent a second", most/(1<<20), least/(1<<20))
		}
	})
}

// Output that changes between streams at each byte is sent in messages of a bounded size.
func TestOutputOfManyPartsIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		const n = 3000
		j := startJob(t, b.Registry, "stripes", func(_ context.Context, port *jobs.Port) {
			for i := range n {
				port.Write([]output.Stream{output.Stdout, output.Stderr}[i%2], []byte("x"))
			}
		})
		jobstest.End(t, j)
		p := b.tab().listed()
		p.opens(j, 0)
		p.until("all", func() bool { return p.at == n })
	})
}

// A long answer has no limit of time, but each part of it has: a client that takes nothing for 30 seconds is
// closed.
func TestAnswersOverHTTPHaveTime(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		const size = 1 << 20
		j := startJob(t, b.Registry, "much", func(_ context.Context, p *jobs.Port) {
			p.Write(output.Stdout, bytes.Repeat([]byte("x"), size))
			display.NewSink(p).Add("much", "", []display.Form{{MIME: "text/plain", Data: bytes.Repeat([]byte("y"), size)}})
		})
		jobstest.End(t, j)
		for _, path := range []string{"/output", "/display/1"} {
			begin := func() net.Conn {
				c := b.dial()
				fmt.Fprintf(c, "GET /api/jobs/%s%s HTTP/1.1\r\nHost: page\r\n\r\n", j.ID(), path)
				return c
			}
			c, begun := begin(), time.Now()
			<-b.left
			if took := time.Since(begun); took != 30*time.Second {
				t.Errorf("%s: a client that reads nothing was served for %v", path, took)
			}
			c.Close()
			c = begin()
			res := must.Get(http.ReadResponse(bufio.NewReader(c), nil))(t)
			n, part := int64(0), make([]byte, 64<<10)
			for n < size {
				time.Sleep(20 * time.Second)
				got, err := io.ReadFull(res.Body, part)
				if n += int64(got); err != nil {
					break
				}
			}
			if n < size {
				t.Errorf("%s: a client that reads slowly got %d bytes", path, n)
			}
			c.Close()
			<-b.left
		}
	})
}

// A page shows that the link to the place of a job is lost, for how long, and that it is back, also if nothing
// announces it. Once no such job is running, nothing wakes the server for that.
func TestLostLinkOnAPage(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		var link atomic.Pointer[jobs.Link]
		link.Store(&jobs.Link{Queued: "Slurm job 812, Priority"})
		stop := make(chan struct{})
		j := jobstest.Start(t, b.Registry, jobs.Spec{Kind: jobs.Shell, Title: "train", Place: "gpu"}, runs(func(_ context.Context, p *jobs.Port) {
			p.SetLink(func() jobs.Link { return *link.Load() })
			p.Changed()
			<-stop
		}))
		p := b.tab().listed()
		p.opens(j, 0)
		shows := func(want string) {
			t.Helper()
			begun := time.Now()
			p.until(want, func() bool {
				r := p.rows[j.ID()]
				return p.job != nil && fmt.Sprint(p.job.Place, p.job.Away) == want && fmt.Sprint(r.Place, r.Away) == want
			})
			if took := time.Since(begun); took > 2500*time.Millisecond {
				t.Errorf("%s is shown after %v", want, took)
			}
		}
		shows("gpu{  Slurm job 812, Priority}")
		link.Store(&jobs.Link{Where: "Slurm job 812"})
		shows("gpu{Slurm job 812  }")
		lost := time.Now()
		link.Store(&jobs.Link{Where: "Slurm job 812", Lost: lost, Why: "cut", AsOf: lost})
		words := func(d int) string {
			return fmt.Sprintf("gpu{Slurm job 812 lost for %ds (cut); as of %s }", d, lost.Local().Format(time.TimeOnly))
		}
		p.until("the loss", func() bool { return p.rows[j.ID()].Link != "" })
		first := int(time.Since(lost).Seconds())
		shows(words(first))
		shows(words(first + 2))
		shows(words(first + 4))
		link.Store(&jobs.Link{Where: "Slurm job 812"})
		shows("gpu{Slurm job 812  }")
		close(stop)
		p.until("the end", func() bool { return p.rows[j.ID()].Status == "completed" })
		go func() { // ends with the connection
			for p.step(context.Background()) == nil {
			}
		}()
		time.Sleep(time.Minute)
		before := schedulings()
		const pings = 100
		time.Sleep(pings * 30 * time.Second)
		if n := schedulings() - before; n > 10*pings {
			t.Errorf("%d goroutines were run for %d pings", n, pings)
		}
	})
}
