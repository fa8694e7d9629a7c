package jobs

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/output"
)

func TestReceiptText(t *testing.T) {
	agent := &Stop{By: Agent, From: Interrupt}
	restart := &Stop{By: Agent, From: Terminate, Reason: "restart_python_worker"}
	limit := &Stop{By: Limit, From: Interrupt}
	shutdown := &Stop{By: Shutdown, From: Terminate}
	climbed := []Rung{Interrupt, Terminate, Kill}

	for name, tc := range map[string]struct {
		receipt Receipt
		text    string
		by      By
	}{
		"code returned":           {Receipt{End: Returned, State: Kept}, "completed", Program},
		"command exited 0":        {Receipt{End: Exited}, "completed", Program},
		"sys.exit()":              {Receipt{End: Exited, Detail: SysExit, State: Kept}, "completed (exit 0; variables kept)", Program},
		"sys.exit(3)":             {Receipt{End: Exited, Code: 3, Detail: SysExit, State: Kept}, "failed (exit 3; variables kept)", Program},
		"command exited 3":        {Receipt{End: Exited, Code: 3}, "failed (exit 3)", Program},
		"worker exited 7":         {Receipt{End: Exited, Code: 7, State: Lost}, "failed (process exited 7; variables lost)", Program},
		"worker exited 0":         {Receipt{End: Exited, State: Lost}, "failed (process exited 0; variables lost)", Program},
		"exception":               {Receipt{End: Raised, Detail: "ValueError: bad literal", State: Kept}, "failed (ValueError: bad literal)", Program},
		"nameless exception":      {Receipt{End: Raised, State: Kept}, "failed (exception)", Program},
		"unasked interrupt":       {Receipt{End: Raised, Detail: "KeyboardInterrupt", State: Kept}, "failed (KeyboardInterrupt)", Program},
		"signal, own fault":       {Receipt{End: Signaled, Signal: "SIGSEGV", State: Lost, By: Blame(true)}, "failed (killed by SIGSEGV; variables lost)", Program},
		"signal, from outside":    {Receipt{End: Signaled, Signal: "SIGKILL", By: Blame(false)}, "failed (killed by SIGKILL)", Unknown},
		"signal, by unknown":      {Receipt{End: Signaled, Signal: "SIGKILL"}, "failed (killed by SIGKILL)", Unknown},
		"signal, reason known":    {Receipt{End: Signaled, Signal: "SIGKILL", State: Lost, Detail: "the code closed the session's channel", By: Program}, "failed (killed by SIGKILL: the code closed the session's channel; variables lost)", Program},
		"MemoryError":             {Receipt{End: OutOfMemory, State: Kept, By: Program}, "failed (out of memory; variables kept)", Program},
		"killed for memory":       {Receipt{End: OutOfMemory, State: Lost}, "failed (out of memory; variables lost)", Unknown},
		"could not start":         {Receipt{End: NotStarted, Detail: "bash: not found"}, "failed (could not start: bash: not found)", Unknown},
		"not run":                 {Receipt{End: NotRun, Detail: "variables were lost in job 01K"}, "failed (not run: variables were lost in job 01K)", Unknown},
		"defect":                  {Receipt{End: Internal, Detail: "jobs: invalid move", State: Lost}, "failed (internal error; variables lost)", Unknown},
		"runner said nothing":     {Receipt{}, "failed (internal error)", Unknown},
		"cancelled":               {Receipt{End: Raised, Detail: "KeyboardInterrupt", Stop: agent, Rungs: climbed[:1], State: Kept}, "cancelled (interrupted; variables kept)", Agent},
		"exit 0 anyway":           {Receipt{End: Exited, Rungs: climbed[:1], By: Program}, "completed (exit 0 after an interrupt)", Agent},
		"sys.exit() anyway":       {Receipt{End: Exited, Detail: SysExit, Rungs: climbed[:1], State: Kept}, "completed (exit 0 after an interrupt; variables kept)", Agent},
		"installed anyway":        {Receipt{End: Exited, Detail: "installed six 1.17.0", Rungs: climbed[:1]}, "completed (installed six 1.17.0 after an interrupt)", Agent},
		"returned anyway":         {Receipt{End: Returned, Rungs: climbed[:1], State: Kept, By: Program}, "completed (after an interrupt)", Agent},
		"exit 0 when terminated":  {Receipt{End: Exited, Rungs: climbed[:2]}, "completed (exit 0 after a termination)", Agent},
		"raised anyway":           {Receipt{End: Raised, Detail: "ValueError: no", Rungs: climbed[:1], State: Kept, By: Program}, "failed (ValueError: no after an interrupt)", Agent},
		"nameless, raised anyway": {Receipt{End: Raised, Rungs: climbed[:1], State: Kept}, "failed (exception after an interrupt)", Agent},
		"sys.exit(4) anyway":      {Receipt{End: Exited, Code: 4, Detail: SysExit, Rungs: climbed[:1], State: Kept}, "failed (exit 4 after an interrupt; variables kept)", Agent},
		"MemoryError anyway":      {Receipt{End: OutOfMemory, Rungs: climbed[:1], State: Kept, By: Program}, "failed (out of memory after an interrupt; variables kept)", Agent},
		"raised at a restart":     {Receipt{End: Raised, Detail: "ValueError: no", Rungs: []Rung{Terminate}, State: Lost}, "failed (ValueError: no after a termination; variables lost)", Agent},
		"sys.exit() at a restart": {Receipt{End: Exited, Detail: SysExit, Rungs: []Rung{Terminate}, State: Lost}, "completed (exit 0 after a termination; variables lost)", Agent},
		"defect after a stop":     {Receipt{End: Internal, Detail: "jobs: invalid move", Rungs: climbed[:1]}, "failed (internal error)", Unknown},
		"cancelled, exit 0":       {Receipt{End: Exited, Stop: agent, Rungs: climbed[:1]}, "cancelled (interrupted)", Agent},
		"terminated":              {Receipt{End: Signaled, Signal: "SIGTERM", Stop: agent, Rungs: climbed[:2]}, "cancelled (terminated)", Agent},
		"killed":                  {Receipt{End: Signaled, Signal: "SIGKILL", Stop: agent, Rungs: climbed, State: Lost}, "cancelled (killed; variables lost)", Agent},
		"restarted":               {Receipt{End: Signaled, Signal: "SIGTERM", Stop: restart, Rungs: []Rung{Terminate}, State: Lost}, "cancelled (terminated by restart_python_worker; variables lost)", Agent},
		"cancelled in the queue":  {Receipt{End: NotRun, Stop: agent}, "cancelled (before it ran)", Agent},
		"stopped without a rung":  {Receipt{End: Returned, Stop: agent}, "cancelled (stopped)", Agent},
		"shut down":               {Receipt{End: Signaled, Signal: "SIGTERM", Stop: shutdown, Rungs: []Rung{Terminate}}, "cancelled (terminated by shutdown)", Shutdown},
		"timed out":               {Receipt{End: Raised, Stop: limit, Rungs: climbed[:1], State: Kept}, "failed (timed out after 30s; variables kept)", Limit},
		"timed out, worker ended": {Receipt{End: Signaled, Signal: "SIGKILL", Stop: limit, Rungs: climbed, State: Lost}, "failed (timed out after 30s; variables lost)", Limit},
		"timed out, command":      {Receipt{End: Signaled, Signal: "SIGINT", Stop: limit, Rungs: climbed[:1]}, "failed (timed out after 30s)", Limit},
		"not to be ended":         {Receipt{End: Alive, Stop: agent, Rungs: climbed}, "cancelled (could not be ended)", Agent},
		"nor at the limit":        {Receipt{End: Alive, Stop: limit, Rungs: climbed, State: Lost}, "failed (timed out after 30s; could not be ended; variables lost)", Limit},
		"the rest needed more":    {Receipt{End: Exited, Stop: agent, Rungs: climbed[:1], Rest: climbed[1:]}, "cancelled (interrupted)", Agent},
		"timed out, own figure":   {Receipt{End: Raised, Stop: limit, Limit: 90 * time.Minute}, "failed (timed out after 1h30m)", Limit},
	} {
		t.Run(name, func(t *testing.T) {
			asked := tc.receipt.Stop
			if asked == nil {
				asked = agent
			}
			tc.receipt.complete(asked, 30*time.Second)
			if got := tc.receipt.Text(); got != tc.text {
				t.Errorf("text: got %q, want %q", got, tc.text)
			}
			if got := tc.receipt.By; got != tc.by {
				t.Errorf("by: got %q, want %q", got, tc.by)
			}
		})
	}
}

func TestTimeoutsAreWrittenShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		30 * time.Second:        "30s",
		1500 * time.Millisecond: "1.5s",
		time.Minute:             "1m",
		90 * time.Second:        "1m30s",
		time.Hour:               "1h",
		time.Hour + time.Second: "1h0m1s",
		10 * time.Minute:        "10m",
	} {
		if got := brief(d); got != want {
			t.Errorf("%d ns: got %q, want %q", d, got, want)
		}
	}
}

// The receipt of a job that reached its timeout and ended in its own way says what the timeout was.
func TestReceiptOfAJobThatResistedItsTimeout(t *testing.T) {
	for want, receipt := range map[string]Receipt{
		"failed (ValueError: no after a timeout of 1.5s)":          {End: Raised, Detail: "ValueError: no", State: Kept},
		"failed (exit 4 after a timeout of 1.5s; variables kept)":  {End: Exited, Code: 4, Detail: SysExit, State: Kept},
		"completed (exit 0 after a timeout of 1.5s)":               {End: Exited},
		"completed (installed six 1.17.0 after a timeout of 1.5s)": {End: Exited, Detail: "installed six 1.17.0"},
		"completed (after a timeout of 1.5s)":                      {End: Returned, State: Kept},
	} {
		receipt.Rungs = []Rung{Interrupt}
		receipt.complete(&Stop{By: Limit, From: Interrupt}, 1500*time.Millisecond)
		if got := receipt.Text(); got != want || receipt.By != Limit {
			t.Errorf("got %q by %s, want %q", got, receipt.By, want)
		}
	}
}

// The table of moves, written a second time and in another way: each row marks the columns that the
// status at its head can move to.
func TestTableOfMoves(t *testing.T) {
	want := map[Status]string{
		Queued:       ".R..FC",
		Running:      "..WDFC",
		WaitingInput: ".R.DFC",
		Completed:    "......",
		Failed:       "......",
		Cancelled:    "......",
	}
	got := make(map[Status]string)
	for _, from := range Statuses {
		var row []byte
		for i, to := range Statuses {
			letter := "QRWDFC"[i]
			if !from.mayBecome(to) {
				letter = '.'
			}
			row = append(row, letter)
		}
		got[from] = string(row)
		if final := want[from] == "......"; from.Final() != final {
			t.Errorf("%s: final is %t", from, from.Final())
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// The receipt counts the output that was lost by the end, and late losses don't change it.
func TestReceiptOfLostOutput(t *testing.T) {
	logs := output.NewStore(output.Config{Cap: 1 << 20, Dir: func() (string, error) { return "", errors.New("no directory") }})
	bubble(t, Config{Logs: logs}, func(t *testing.T, s stage) {
		p := s.begin(Spec{})
		write := func() {
			for range 64 {
				p.port.Write(output.Stdout, make([]byte, 64<<10))
			}
		}
		write()
		i := p.end(Receipt{End: Exited})
		if i.Output.Dropped == 0 || i.Receipt.LostOutput != (output.Loss{Disk: i.Output.Dropped}) {
			t.Errorf("the receipt says %+v, the log %+v", i.Receipt.LostOutput, i.Output)
		}
		write()
		if late := p.Record(); late.Output.Dropped == i.Output.Dropped || late.Receipt.LostOutput != i.Receipt.LostOutput {
			t.Errorf("after late output the receipt says %+v, the log %+v", late.Receipt.LostOutput, late.Output)
		}
	})
}
