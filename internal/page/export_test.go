//go:build unix

package page

import (
	"net/http"

	"asyncrepl/internal/reply/report"
	"asyncrepl/jobs"
)

// What tests of the page's promises name.
const (
	Window    = window
	Lag       = lag
	ListMax   = listMax
	PartsMax  = partsMax
	AnswerMax = answerMax
)

// JobsAPI is API without sessions, for a bubble of time, in which no engine can be.
func JobsAPI(r *jobs.Registry) http.Handler {
	return (&api{jobs: r, reporter: &report.Reporter{Jobs: r}}).handler()
}
