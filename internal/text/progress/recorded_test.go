package progress

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/must"
)

// The bytes that programs of these versions wrote on a terminal of 120 columns, with the bars that
// they show at some moments. Rich ran in a session, on pipes and without colours. Whenever a program
// has drawn more than the bar of nothing, there is a bar.
func TestBarsAsRecorded(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"pv-1.6.20":              {"28 %, 10.8 MiB, 11.8 MiB/s, 0:00 left", "84 %, 32.4 MiB, 9.82 MiB/s, 0:00 left"},
		"pv-1.6.20-without-size": {"18.0 MiB, 21.7 MiB/s", "36.0 MiB, 21.9 MiB/s"},
		"click-8.5.1":            {"7 %", "67 %, 0:00 left", "20 %, 60 of 300", "100 %, 300 of 300"},
		"progressbar2-4.6.0":     {"0 %, 0 of 40", "98 %, 39 of 40, 0:00 left", "10 %, 0:01 left", "100 %"},
		"alive-progress-3.3.0":   {"10 %, 4 of 40, 20.3 it/s, 0:02 left", "95 %, 38 of 40, 23.6 it/s, 0:00 left", "6 items, 14.7 it/s"},
		"alive-progress-3.3.0-styles": {
			"33 %, 4 of 12, 18.6 it/s, 0:00 left", "42 %, 5 of 12, 13.9 it/s, 0:01 left", "50 %, 6 of 12, 15.1 it/s, 0:01 left", "33 %, 0:01 left", "100 %",
			"25 %, 2.9 MiB of 11.4 MiB, 17.5 MiB/s, 0:01 left", "1.9 MiB, 18.1 MiB/s",
		},
		"rich-15.0.0-in-a-session": {"7 %", "30 %, 0:01 left", "100 %, 0:01 left"},
		"scp-openssh-9.2p1":        {"5 %, 2040 KB, 406 KB/s, 1:31 left", "100 %, 38 MB, 8.2 MB/s"},
	} {
		data := must.Get(os.ReadFile(filepath.Join("testdata", name)))(t)
		log := output.NewStore(output.Config{}).NewLog(name)
		t.Cleanup(log.Discard)
		var bars []string
		for state := range strings.SplitAfterSeq(string(data), "\r") {
			log.Write(output.TTY, []byte(state))
			b, ok := TailOf(log, 0, time.Now()).Bar()
			if !ok && bars != nil && strings.ContainsAny(state, "%/") {
				t.Errorf("%s: no bar after %q", name, state)
			}
			if s := b.String(); ok && !slices.Contains(bars, s) {
				bars = append(bars, s)
			}
		}
		at := 0
		for _, s := range want {
			i := slices.Index(bars[at:], s)
			if i < 0 {
				t.Errorf("%s: no bar %q after %q", name, s, bars[:at])
				break
			}
			at += i + 1
		}
	}
}
