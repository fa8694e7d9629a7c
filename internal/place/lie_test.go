package place

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/place/stream"
	"asyncrepl/internal/test/linktest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// lies makes the engine answer starts of the tool "lie" with frames that f makes.
func lies(f func(id string) [][]byte) wrapper {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		b, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(b))
		if r.Method != http.MethodPut || !bytes.Contains(b, []byte(`"lie"`)) {
			next.ServeHTTP(w, r)
			return
		}
		for _, frame := range f(strings.TrimPrefix(r.URL.Path, "/link/jobs/")) {
			w.Write(frame)
		}
		http.NewResponseController(w).Flush()
		<-r.Context().Done() // only a lie ends it
	}
}

// said returns the frame of a record.
func said(id string, change func(r *jobs.Record)) []byte {
	now := time.Now()
	r := jobs.Record{ID: id, Spec: jobs.Spec{Kind: jobs.Shell}, Status: jobs.Running, Created: now, Started: now, Output: output.Stat{End: 100, Final: -1}}
	if change != nil {
		change(&r)
	}
	b, err := json.Marshal(map[string]any{"now": now, "record": r})
	if err != nil {
		panic(err)
	}
	return frame('r', b)
}

// wrote returns the frame of output at a cursor.
func wrote(at uint64, text string) []byte {
	return frame('o', append(binary.BigEndian.AppendUint64([]byte{0}, at), text...))
}

func skipped(to int64) []byte {
	b, _ := json.Marshal(stream.Skip{To: to})
	return frame('s', b)
}

func displayed(number int, from, to int64) []byte {
	b, _ := json.Marshal(map[string]any{"display": jobs.Display{Number: number, Line: output.Range{From: from, To: to}, Forms: []jobs.Form{{MIME: "text/plain", Size: 1}}}, "sizes": []int{1}})
	return append(frame('d', b), 'x')
}

// What can't be true ends the job that it is about. The others go on, over the same link.
func TestLies(t *testing.T) {
	const sent = "failed (the engine on gpu sent what can't be true: "
	for name, c := range map[string]struct {
		frames func(id string) [][]byte
		status string // how it begins
	}{
		"another job": {func(id string) [][]byte { return [][]byte{said(jobstest.ID(time.Now()), nil)} }, sent + "the engine at the place sent a record of another job"},
		"no status":   {func(id string) [][]byte { return [][]byte{said(id, func(r *jobs.Record) { r.Status = "fine" })} }, sent + "the engine at the place sent an unknown status"},
		"back to queued": {func(id string) [][]byte {
			return [][]byte{said(id, nil), said(id, func(r *jobs.Record) { r.Status = jobs.Queued })}
		}, sent + "a job that is running is reported to be queued"},
		"fewer questions": {func(id string) [][]byte {
			return [][]byte{said(id, func(r *jobs.Record) { r.Asked = 3 }), said(id, func(r *jobs.Record) { r.Asked = 1 })}
		}, sent + "the job is reported to have asked 1 times, after 3"},
		"a negative pid": {func(id string) [][]byte { return [][]byte{said(id, func(r *jobs.Record) { r.PID = -1 })} }, sent + "a number is out of range"},
		"a huge terminal": {func(id string) [][]byte {
			return [][]byte{said(id, func(r *jobs.Record) { r.Terminal = &jobs.Size{Rows: 1 << 20, Cols: 1} })}
		}, sent + "no terminal has 1048576 rows"},
		"a cursor ahead":        {func(id string) [][]byte { return [][]byte{said(id, nil), wrote(5, "x")} }, sent + "the engine at the place sent the output at cursor 5; the one at 0 comes next"},
		"a cursor back":         {func(id string) [][]byte { return [][]byte{said(id, nil), wrote(0, "xyz"), wrote(1, "x")} }, sent + "the engine at the place sent the output at cursor 1"},
		"a skip past the end":   {func(id string) [][]byte { return [][]byte{said(id, nil), skipped(101)} }, sent + "the engine at the place skipped the output from cursor 0 to 101; it ends at 100"},
		"a skip back":           {func(id string) [][]byte { return [][]byte{said(id, nil), wrote(0, "xyz"), skipped(3)} }, sent + "the engine at the place skipped the output from cursor 3 to 3"},
		"a display again":       {func(id string) [][]byte { return [][]byte{said(id, nil), displayed(1, 0, 3), displayed(1, 3, 6)} }, sent + "the engine at the place sent display 1 after display 1"},
		"displays that overlap": {func(id string) [][]byte { return [][]byte{said(id, nil), displayed(1, 0, 30), displayed(2, 20, 40)} }, sent + "display 2 has no place in the output"},
		"a huge frame":          {func(id string) [][]byte { return [][]byte{frame('r', nil)[:1], {0xff, 0xff, 0xff, 0xff}} }, sent + "the engine at the place sent a frame of type 'r' and 4294967295 bytes"},
		"no frame":              {func(id string) [][]byte { return [][]byte{[]byte("HTTP/1.1 200 OK\r\n\r\n")} }, sent + "the engine at the place sent a frame of an unknown type, 'H'"},
		"an end alone":          {func(id string) [][]byte { return [][]byte{frame('e', nil)} }, sent + "the engine at the place sent the end of a job without a record"},
		"an impossible end": {func(id string) [][]byte {
			return [][]byte{said(id, func(r *jobs.Record) {
				r.Status, r.Receipt, r.Output, r.PID = jobs.Completed, jobs.Receipt{End: jobs.Returned}, output.Stat{}, -1
			})}
		}, "failed (its place reported an end that can't be: a number is out of range)"},
		"an end after another": {func(id string) [][]byte {
			return [][]byte{said(id, func(r *jobs.Record) { r.Status, r.Receipt = jobs.Completed, jobs.Receipt{End: jobs.Returned} }), said(id, nil)}
		}, sent + "the engine at the place sent the status running of a job that was completed"},
		"escapes": {func(id string) [][]byte {
			return [][]byte{said(id, func(r *jobs.Record) {
				r.Status, r.Receipt, r.Output = jobs.Failed, jobs.Receipt{End: jobs.Raised, Detail: "a\x1b[2J\nStatus: completed"}, output.Stat{}
			})}
		}, `failed (a\x1b[2J\nStatus: completed)`},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newMachine(t, linktest.Runners{"wait": waits})
				m.wrap = lies(c.frames)
				s := serve(t, m, nil)
				honest := s.start("wait")
				runs(t, honest)
				j := s.start("lie")
				if r := jobstest.End(t, j); !strings.HasPrefix(r.Receipt.Text(), c.status) {
					t.Errorf("%q", r.Receipt.Text())
				}
				if r := honest.Record(); r.Status != jobs.Running || len(m.attempts(0)) != 1 {
					t.Errorf("%+v, %d links", r, len(m.attempts(0)))
				}
			})
		})
	}
}

// Random frames end the job that they are about, and nothing else.
func TestRandomFrames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rounds, seed := jobstest.Storm(t, 1000)
		random := rand.New(rand.NewPCG(seed, 0))
		var choosing sync.Mutex
		m := newMachine(t, linktest.Runners{"wait": waits})
		m.wrap = lies(func(id string) (frames [][]byte) {
			choosing.Lock()
			defer choosing.Unlock()
			for range random.IntN(3) {
				frames = append(frames, said(id, nil))
			}
			var valid []byte
			switch random.IntN(5) {
			case 0:
				valid = said(id, nil)
			case 1:
				valid = wrote(0, "hello")
			case 2:
				valid = skipped(50)
			case 3:
				valid = displayed(1, 0, 10)
			default:
				valid = said(id, func(r *jobs.Record) {
					r.Status, r.Receipt, r.Output = jobs.Completed, jobs.Receipt{End: jobs.Returned}, output.Stat{}
				})
			}
			for range 1 + random.IntN(8) {
				valid[random.IntN(len(valid))] = byte(random.IntN(256))
			}
			frames = append(frames, valid)
			return append(frames, []byte{0xff, 0, 0, 0, 0, 0}) // whatever it was, it ends
		})
		s := serve(t, m, nil)
		honest := s.start("wait")
		runs(t, honest)
		for range rounds / 100 {
			var all []*jobs.Job
			for range 100 {
				all = append(all, s.start("lie"))
			}
			time.Sleep(time.Second)
			for _, j := range all {
				if !j.Record().Status.Final() { // it waits for bytes that do not come
					j.Stop(jobs.Stop{By: jobs.Agent, From: jobs.Kill})
				}
				jobstest.End(t, j)
			}
		}
		if r := honest.Record(); r.Status != jobs.Running || len(m.attempts(0)) != 1 {
			t.Errorf("%+v, %d links", r, len(m.attempts(0)))
		}
	})
}

// What an engine refuses about a job that it has is the end of that job.
func TestRefusedFollow(t *testing.T) {
	for code, status := range map[int]string{
		404: "failed (gpu no longer knows the job; how it ended is unknown)",
		416: "failed (the engine on gpu refuses to show the job: no\\x1b)",
	} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newMachine(t, linktest.Runners{"wait": waits})
				m.wrap = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
					if r.Method == http.MethodGet {
						http.Error(w, "no\x1b", code)
						return
					}
					next.ServeHTTP(w, r)
				}
				s := serve(t, m, nil)
				j := s.start("wait")
				runs(t, j)
				m.wire().Close()
				jobstest.EndsAs(t, j, status)
			})
		})
	}
}

// An engine that takes a kill and never ends the job does not hold the job here.
func TestKillThatIsNotDone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t, linktest.Runners{"wait": waits})
		m.wrap = on("/stop", func(w http.ResponseWriter, r *http.Request, _ http.Handler) { w.WriteHeader(http.StatusNoContent) })
		s := serve(t, m, nil)
		j := s.start("wait")
		runs(t, j)
		j.Stop(jobs.Stop{By: jobs.Agent})
		time.Sleep(time.Hour)
		if r := j.Record(); r.Status != jobs.Running {
			t.Fatalf("it was only interrupted: %+v", r)
		}
		began := time.Now()
		j.Stop(jobs.Stop{By: jobs.Agent, From: jobs.Kill})
		time.Sleep(killTime - time.Second)
		if r := j.Record(); r.Status.Final() {
			t.Errorf("it was given up too early: %+v", r)
		}
		jobstest.EndsAs(t, j, "cancelled (given up: the engine on gpu took a kill 1m0s ago, and the job has not ended; it may still run there)")
		if d := time.Since(began); d != killTime {
			t.Errorf("it took %v", d)
		}
		jobstest.EndsAs(t, s.start("other"), "failed (could not start: there is no tool other)")
	})
}

// An engine that refuses each request about a job, as if it were another one, is not asked again and again.
func TestRefusalsForEver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t, linktest.Runners{"wait": waits})
		var starts, stops atomic.Int64
		m.wrap = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/stop"):
				stops.Add(1)
			case r.Method == http.MethodPut:
				starts.Add(1)
			default:
				next.ServeHTTP(w, r)
				return
			}
			w.WriteHeader(http.StatusConflict)
		}
		s := serve(t, m, nil)
		j := s.start("wait")
		time.Sleep(time.Minute)
		j.Stop(jobs.Stop{By: jobs.Agent})
		time.Sleep(time.Hour)
		for what, n := range map[string]int64{"starts": starts.Load(), "stops": stops.Load()} {
			if n < 50 || n > 80 {
				t.Errorf("%d %s", n, what)
			}
		}
		if r := j.Record(); r.Status.Final() {
			t.Errorf("%+v", r)
		}
		j.Stop(jobs.Stop{By: jobs.Agent, From: jobs.Kill})
		jobstest.End(t, j)
		synctest.Wait() // the last refusal amends the receipt
		jobstest.EndsAs(t, j, "cancelled (given up while gpu was out of reach; it had not started there, or had ended)")
	})
}
