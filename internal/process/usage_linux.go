package process

import (
	"bytes"
	"strconv"
	"time"
)

// usageSpan is how long Busiest watches: long enough for the kernel's clock,
// short enough for a call that is to answer at once.
const usageSpan = 20 * time.Millisecond

// Busiest returns the process of the tree that uses most CPU time now, and its share of one CPU in percent. It takes
// 20 ms. The error is ErrGone if no process of the tree is left.
func (h *Handle) Busiest() (p Process, percent float64, err error) {
	err = ErrGone
	begin := time.Now()
	before := make(map[Process]time.Duration)
	for _, e := range h.Tree() {
		before[e] = used(e.PID)
	}
	time.Sleep(usageSpan)
	for q, then := range before {
		share := 100 * float64(used(q.PID)-then) / float64(time.Since(begin))
		if now, there := inspect(q.PID); there && now.Start == q.Start && (err != nil || share > percent) {
			p, percent, err = q, max(0, share), nil
		}
	}
	return p, percent, err
}

// used is the processor time of all threads of a process.
func used(pid int) (sum time.Duration) {
	var buf [64]byte
	for _, tid := range numbers(file(pid, "task")) {
		b, err := slurp(file(pid, "task/"+strconv.Itoa(tid)+"/schedstat"), buf[:])
		if err != nil {
			continue
		}
		first, _, _ := bytes.Cut(b, []byte(" "))
		ns, err := strconv.ParseInt(string(first), 10, 64)
		if err == nil {
			sum += time.Duration(ns)
		}
	}
	return sum
}
