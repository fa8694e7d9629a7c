package report

import (
	"asyncrepl/internal/output"
	"asyncrepl/internal/progress"
	"asyncrepl/jobs"
)

// progressBar returns the progress bar of a running job, or nil if it shows none.
func progressBar(info jobs.Info, log output.Reader) *progress.Bar {
	if info.Status != jobs.Running || log == nil {
		return nil
	}
	if b, ok := progress.TailOf(log).Bar(); ok {
		return &b
	}
	return nil
}

// progressLine writes the line about the progress bar of a running job, if it shows one.
func progressLine(r *Reply, info jobs.Info, log output.Reader) {
	if b := progressBar(info, log); b != nil {
		r.Line("Progress", b.String())
	}
}
