//go:build unix

package history

import (
	"cmp"
	"encoding/json"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/jobs"
	"github.com/oklog/ulid/v2"
)

// Past returns the jobs of the runs of the workspace that have ended, the newest first. Those that
// are too many or too old are left out.
func (s *Store) Past(prefix string) iter.Seq[jobs.Past] {
	return func(yield func(jobs.Past) bool) {
		dirs := []string{s.dir()}
		if s.config.Everywhere && prefix != "" {
			dirs = append(dirs, slices.DeleteFunc(s.workspaces(), func(dir string) bool { return dir == s.dir() })...)
		}
		found := false
		for i, dir := range dirs {
			if i == 1 && found {
				return // the workspace has it
			}
			for e := range s.entries(dir) {
				if !strings.HasPrefix(e.id, prefix) {
					continue
				}
				p, err := e.past()
				if err != nil || time.Since(p.Record.Ended) > s.config.MaxAge {
					continue // it is no line of ours, or forgotten
				}
				if found = true; !yield(p) {
					return
				}
			}
		}
	}
}

// coarse is how much earlier than the change the time of a changed file can be: some file systems
// store times in units of 2 s.
const coarse = 2 * time.Second

// entries returns the past jobs of a workspace that are not too many, the newest first. It opens a
// run only when a job of it can be next: usually the newest jobs are those of the last run.
func (s *Store) entries(dir string) iter.Seq[entry] {
	return func(yield func(entry) bool) {
		var heads []*reader // readers with a next job; the newest one is first
		var unread error
		defer func() {
			for _, r := range heads {
				r.file.Close()
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.unread = unread
		}()
		advance := func(r *reader) {
			if !r.advance() {
				unread = cmp.Or(r.err, unread)
				r.file.Close()
				return
			}
			i, _ := slices.BinarySearchFunc(heads, r, func(a, b *reader) int { return strings.Compare(b.head.id, a.head.id) })
			heads = slices.Insert(heads, i, r)
		}
		runs := pastRuns(dir)
		for n := 0; n < s.config.Keep; n++ {
			for len(runs) > 0 && (len(heads) == 0 || !runs[0].changed.Add(coarse).Before(heads[0].head.started())) {
				r, err := openRun(runs[0].dir)
				runs = runs[1:]
				if err == nil {
					advance(r)
				} else if err != errLives && err != errUnnamed {
					unread = err
				}
			}
			if len(heads) == 0 {
				return
			}
			r := heads[0]
			e := r.head
			heads = heads[1:]
			advance(r)
			if !yield(e) {
				return
			}
		}
	}
}

// A pastRun is a run that may have ended.
type pastRun struct {
	dir     string
	changed time.Time // when its journal was changed last: no job of it is newer
}

// pastRuns returns the runs of a workspace, the ones that were changed last first.
func pastRuns(dir string) (runs []pastRun) {
	for _, name := range runNames(dir) {
		st, err := os.Lstat(filepath.Join(dir, name, journalName))
		if err != nil {
			continue // another engine has removed it
		}
		runs = append(runs, pastRun{filepath.Join(dir, name), st.ModTime()})
	}
	slices.SortFunc(runs, func(a, b pastRun) int { return b.changed.Compare(a.changed) })
	return runs
}

// runNames returns the names of the runs in the directory of a workspace.
func runNames(dir string) (names []string) {
	all, _ := os.ReadDir(dir) // an error: there are none
	for _, each := range all {
		if _, err := ulid.ParseStrict(each.Name()); err == nil {
			names = append(names, each.Name())
		}
	}
	return names
}

// A reader reads the jobs of a run, the one that began last first.
type reader struct {
	about
	dir     string
	file    *os.File
	changed time.Time
	tail    tail
	closing bool              // the engine has begun to end its jobs
	reset   map[string]bool   // the sessions that have lost their variables after what was read last
	open    map[string]*entry // the jobs whose end was read and whose start was not
	rest    []*entry          // after the last line: the jobs without a start
	head    entry             // the job that advance has found
	err     error             // why no more can be read; nil: all was
}

// An entry is what a journal has about a job.
type entry struct {
	id    string
	run   *reader
	begin []byte
	end   []byte
	amend []byte // the last one
}

// started returns when the job was started, from its id.
func (e entry) started() time.Time {
	id, err := ulid.ParseStrict(e.id)
	if err != nil {
		return time.Time{}
	}
	return ulid.Time(id.Time())
}

// openRun opens a run for reading. The error is that of readEnded, or a sentence.
func openRun(dir string) (_ *reader, err error) {
	r := &reader{dir: dir, reset: make(map[string]bool), open: make(map[string]*entry)}
	if r.about, err = readEnded(dir); err != nil {
		return nil, err
	}
	file, st, err := openJournal(dir)
	if err != nil {
		return nil, err
	}
	r.file, r.changed, r.tail = file, st.ModTime(), tail{file: file, at: st.Size()}
	return r, nil
}

// advance makes the next job the head, and reports whether there is one.
func (r *reader) advance() bool {
	for r.err == nil && r.open != nil {
		b, err := r.tail.previous()
		if err != nil {
			if err != io.EOF {
				r.err = err
			}
			r.rest = slices.SortedFunc(maps.Values(r.open), func(a, b *entry) int { return strings.Compare(b.id, a.id) })
			r.open = nil
			break
		}
		event, id, ok := split(b)
		if !ok {
			continue
		}
		switch event {
		case closing:
			r.closing = true
		case reset:
			var n note
			if json.Unmarshal(b, &n) == nil {
				r.reset[n.Session] = true
			}
		case begin:
			e := r.entry(id)
			delete(r.open, id)
			e.begin = b
			r.head = *e
			return true
		case end:
			if e := r.entry(id); e.end == nil {
				e.end = b
			}
		case amend:
			if e := r.entry(id); e.amend == nil {
				e.amend = b
			}
		}
	}
	if len(r.rest) == 0 {
		return false
	}
	r.head, r.rest = *r.rest[0], r.rest[1:]
	return true
}

// entry returns the entry of a job.
func (r *reader) entry(id string) *entry {
	e := r.open[id]
	if e == nil {
		e = &entry{id: id, run: r}
		r.open[id] = e
	}
	return e
}

// past returns the job of an entry. The error means that it has no line that this version reads.
func (e entry) past() (jobs.Past, error) {
	saved, err := e.saved()
	if err != nil {
		return jobs.Past{}, err
	}
	receipt := &saved.Record.Receipt
	for _, p := range slices.Concat(receipt.Left, receipt.Unclaimed) {
		receipt.Notes = append(receipt.Notes, p.String()+", which it had left running, ended with its server")
	}
	receipt.Left, receipt.Unclaimed = nil, nil
	dir := filepath.Join(e.run.dir, e.id)
	if saved.Short != nil {
		if info, err := os.Lstat(filepath.Join(dir, "output.log")); err == nil && info.Size() > 0 {
			saved.Short = nil // late output was shown: the files have that, too
		}
	}
	return jobs.Past{Saved: saved, Log: output.OpenPast(dir, saved.Record.Output, saved.Short)}, nil
}

// saved returns the last state of the job. If its end was not recorded, its server has ended it.
// The error is errVersion, or means that no line about the job is complete.
func (e entry) saved() (saved jobs.Saved, err error) {
	ended, endErr := decode(e.end)
	amended, amendErr := decode(e.amend)
	switch {
	case endErr == errVersion || amendErr == errVersion:
		return saved, errVersion
	case amendErr == nil:
		amended.Short = ended.Short
		return amended, nil
	case endErr == nil:
		return ended, nil
	}
	if saved, err = decode(e.begin); err != nil {
		return saved, err
	}
	record := &saved.Record
	record.Status, record.Ended = jobs.Failed, e.run.changed
	record.Receipt = jobs.Receipt{End: jobs.ServerEnded, By: jobs.Unknown}
	if record.Kind == jobs.Python {
		record.Receipt.State = jobs.Lost
	}
	if e.run.closing {
		record.Receipt.Stop, record.Receipt.By = &jobs.Stop{By: jobs.Shutdown, From: jobs.Terminate}, jobs.Shutdown
		record.Status = jobs.Cancelled
	}
	record.Output.Final = -1 // the files say how much there is
	return saved, nil
}
