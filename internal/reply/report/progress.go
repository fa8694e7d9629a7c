package report

import (
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/text/progress"
	"asyncrepl/jobs"
)

// progressBar returns the progress bar that a running job shows at the time now, or nil if it shows
// no bar.
func progressBar(record jobs.Record, log output.Reader, now time.Time) *progress.Bar {
	if record.Status != jobs.Running || log == nil {
		return nil
	}
	if b, ok := progress.TailOf(log, record.Cleared, now).Bar(); ok {
		return &b
	}
	return nil
}

// progressLine writes the line about the progress bar of a running job, if it shows one.
func (rp *Reporter) progressLine(r *Reply, record jobs.Record, log output.Reader) {
	if b := progressBar(record, log, rp.time()); b != nil {
		r.Line("Progress", b.String())
	}
}
