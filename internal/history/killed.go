//go:build unix

package history

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"asyncrepl/internal/process"
	"asyncrepl/jobs"
)

// A Killed is a run of the workspace whose engine was killed.
type Killed struct {
	Jobs      []jobs.Record    // its jobs without an end, the newest first
	Ended     []process.Marked // processes that it had left, which have been ended now
	Variables []Variables      // its sessions had them, by the receipts of their jobs; sorted by session
}

// Variables are the variables of one session.
type Variables struct {
	Session string
	Names   []string // the order is that in which jobs made them
	More    int      // the number of others, which no receipt names
}

// settledMost bounds the runs that Settle checks, the newest first. Each engine settles those
// before it, so a run that is further back has been settled.
const settledMost = 32

// Settle accounts for the runs of the workspace whose engines were killed: it ends the processes
// that they have left, and the receipts of their jobs name them. It returns these runs, the newest
// first. Each engine returns a run until one has called [Store.Said]: an engine that is killed
// before a reply has said it leaves that to the next one. If complete is false, another process
// works on them.
func (s *Store) Settle() (runs []Killed, complete bool) {
	s.sweepScratch()
	complete = true
	if s.config.Off {
		return nil, complete
	}
	var unsaid []string
	all, err := openDir(s.dir())
	if err != nil {
		return nil, complete // there are no runs
	}
	defer all.root.Close()
	names := runNames(all, 0)
	slices.Reverse(names) // a name begins with the time
	for _, name := range names[:min(len(names), settledMost)] {
		run := all.at(name)
		if isSettled(run) {
			continue
		}
		if _, err := readEnded(run); err != nil {
			continue
		}
		err := s.locked(s.dir(), func(dir) error {
			k, err := s.settle(run)
			if len(k.Jobs)+len(k.Variables)+len(k.Ended) == 0 {
				return errors.Join(err, appendTo(run.String(), closedLine(run.String())))
			}
			runs, unsaid = append(runs, k), append(unsaid, run.String())
			return err
		})
		if err == errBusy {
			complete = false
		} else if err != nil {
			s.config.Log.Warn("settling the records of a server that was killed", "err", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsaid = unsaid
	return runs, complete
}

// Said notes that a reply has named the runs that Settle has returned.
func (s *Store) Said() {
	s.mu.Lock()
	unsaid := s.unsaid
	s.unsaid = nil
	s.mu.Unlock()
	for _, run := range unsaid {
		if err := s.locked(s.dir(), func(dir) error { return appendTo(run, closedLine(run)) }); err != nil && err != errBusy {
			s.config.Log.Warn("noting that a reply has named a server that was killed", "err", err)
		}
	}
}

// closedLine returns the line that is added to the journal of a run that was accounted for.
func closedLine(run string) []byte {
	return fmt.Appendf(nil, `{"event":%q,"id":%q}`+"\n", closed, filepath.Base(run))
}

// isSettled reports whether the last line of a journal says that all jobs of the run have ends. A
// journal that can't be read needs no more.
func isSettled(run dir) bool {
	file, st, err := openJournal(run)
	if err != nil {
		return true
	}
	defer file.Close()
	last := make([]byte, min(st.Size(), 256))
	if _, err := file.ReadAt(last, st.Size()-int64(len(last))); err != nil && err != io.EOF {
		return true
	}
	event, _, _ := split(last[bytes.LastIndexByte(bytes.TrimRight(last, "\n"), '\n')+1:])
	return event == closed
}

// settle accounts for one run. The caller holds the lock on the directory of the workspace.
func (s *Store) settle(run dir) (k Killed, err error) {
	r, err := openRun(run)
	if err != nil {
		return k, err
	}
	defer r.file.Close()
	k.Ended, err = s.config.Kill(r.Mark)
	var amended []byte
	var python []jobs.Record // the newest first
	for r.advance() {
		saved, savedErr := r.head.saved()
		if savedErr != nil {
			continue
		}
		record := &saved.Record
		if record.Place != "" {
			continue // it has not ended with its server
		}
		if record.Receipt.End == jobs.ServerEnded && !r.closing {
			k.Jobs = append(k.Jobs, *record)
		}
		if record.Kind == jobs.Python && record.Session != "" && !r.reset[record.Session] {
			python = append(python, *record)
		}
		before := len(record.Receipt.Notes)
		for _, p := range k.Ended {
			if p.Job == record.ID {
				left := jobs.Process{PID: p.PID, Program: p.Program}
				record.Receipt.Notes = append(record.Receipt.Notes, left.String()+" outlived its server, and the next one ended it")
			}
		}
		if len(record.Receipt.Notes) > before {
			saved.Short = nil
			line, encodeErr := encode(amend, saved)
			amended, err = append(amended, line...), errors.Join(err, encodeErr)
		}
	}
	if !r.closing {
		k.Variables = variables(python)
	}
	return k, errors.Join(err, appendTo(run.String(), amended), r.removeRest())
}

// appendTo appends lines to the journal of a run whose engine was killed. The journal keeps the
// time at which its run ended.
func appendTo(run string, lines []byte) error {
	path := filepath.Join(run, journalName)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil || len(lines) == 0 {
		return err
	}
	_, err = file.Write(append([]byte("\n"), lines...))
	return errors.Join(err, os.Chtimes(path, time.Time{}, st.ModTime()))
}

// removeRest removes what the run has left and no job needs: directories of programs that its jobs
// ran, and a journal that was being rewritten.
func (r *reader) removeRest() error {
	os.Remove(r.dir.at(journalName + unnamed).String()) // an error: there is none
	all, err := os.ReadDir(r.dir.String())
	for _, each := range all {
		if each.IsDir() && len(each.Name()) != idLength {
			err = errors.Join(err, os.RemoveAll(r.dir.at(each.Name()).String()))
		}
	}
	return err
}

// variables returns the variables that sessions had, by the receipts of their jobs, the newest
// first.
func variables(python []jobs.Record) (list []Variables) {
	bySession := make(map[string]*Variables)
	for _, record := range slices.Backward(python) {
		receipt := record.Receipt
		v := bySession[record.Session]
		lost := receipt.State == jobs.Lost && receipt.End != jobs.ServerEnded
		if v == nil || lost {
			v = &Variables{Session: record.Session}
			bySession[record.Session] = v
		}
		if lost {
			continue
		}
		v.Names = slices.DeleteFunc(v.Names, func(name string) bool { return slices.Contains(receipt.Names.Gone, name) })
		for _, name := range receipt.Names.New {
			if !slices.Contains(v.Names, name) {
				v.Names = append(v.Names, name)
			}
		}
		made, gone := receipt.Names.NewCount-len(receipt.Names.New), receipt.Names.GoneCount-len(receipt.Names.Gone)
		v.More = max(0, v.More+made-gone)
	}
	for _, v := range bySession {
		if len(v.Names)+v.More > 0 {
			list = append(list, *v)
		}
	}
	slices.SortFunc(list, func(a, b Variables) int { return strings.Compare(a.Session, b.Session) })
	return list
}

// sweepScratch removes the scratch of engines that were killed, and ends the processes that they
// have left.
func (s *Store) sweepScratch() {
	all, err := openDir(s.scratchDir())
	if err != nil {
		return // there is none
	}
	defer all.root.Close()
	for _, name := range runNames(all, 0) {
		run := all.at(name)
		about, err := readEnded(run)
		switch err {
		case nil:
			if _, err = s.config.Kill(about.Mark); err == nil {
				err = removeRun(run.String())
			}
		case errUnnamed:
			err = removeOlder(run.String(), unnamedAge)
		}
		if err != nil && err != errLives {
			s.config.Log.Warn("ending what a killed server has left", "err", err)
		}
	}
}
