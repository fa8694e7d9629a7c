package far

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/oklog/ulid/v2"

	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// The life of a job is complete when the job has ended and has left no process. Threads and tasks of Python that it
// has started can print after that. Nothing says when they have ended, so lives would never be complete. One more
// request for each link names the jobs with late output instead, and the client follows those again.

// late answers with a line for each ended job that has late output, and another when it has more: its id and the end
// of its output. It ends with the link or the engine.
func (s *server) late(w http.ResponseWriter, r *http.Request) {
	var mark jobs.Mark
	var changed []*jobs.Job
	fmt.Fprintln(w) // join would hold back an answer without a body
	for ended := false; ; {
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		next := s.Jobs.Changed()
		changed, _, mark = s.Jobs.ChangedSince(mark)
		for _, j := range changed {
			if stat := j.Log().Stat(); stat.Final >= 0 && stat.End > stat.Final {
				fmt.Fprintln(w, j.ID(), stat.End)
			}
		}
		if len(changed) > 0 {
			continue // to send it
		}
		if ended {
			return
		}
		select {
		case <-next:
		case <-s.Ended:
			ended = true
		case <-r.Context().Done():
			return
		}
	}
}

// Late calls f for each ended job that has output which was written after its end, and again when it has more, or when
// something else of it has changed. end is the end of its output. Late returns when the link is lost or ctx is done.
func (c *Client) Late(ctx context.Context, f func(id string, end int64)) error {
	resp, err := c.send(ctx, http.MethodGet, "/link/late", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for r := bufio.NewReaderSize(resp.Body, 100); ; {
		line, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return errors.New("the engine at the place has sent a line that is too long")
		} else if err != nil {
			return err
		}
		id, text, ok := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		if id == "" {
			continue
		}
		end, err := strconv.ParseInt(text, 10, 63)
		if _, idErr := ulid.ParseStrict(id); !ok || err != nil || idErr != nil || end < 0 {
			return fmt.Errorf("the engine at the place has named no job: %q", view.Line(string(line), maxLine))
		}
		f(id, end)
	}
}
