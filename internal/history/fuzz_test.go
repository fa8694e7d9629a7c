//go:build unix

package history

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
)

// lineStart returns how a line begins.
func lineStart(event, id string) string { return `{"event":"` + event + `","id":"` + id + `"` }

// Whatever a journal holds, it is read to its end, each job once and as one that has ended.
func FuzzJournal(f *testing.F) {
	id := strings.Repeat("0", idLength)
	saved := jobs.Saved{Record: record(id)}
	for _, event := range []string{begin, end, amend} {
		f.Add(must.Get(encode(event, saved))(f))
	}
	f.Add([]byte(lineStart(closing, id) + "}\n" + lineStart(reset, id) + `,"session":"s"}` + "\n" + lineStart(begin, id) + `,"record":null}` + "\n\x00\x00"))
	f.Add([]byte(lineStart(end, id) + `,"record":{"version":1,"id":"` + id + `","status":"failed","output":{"cursor":-1,"final":9223372036854775807,"gaps":[{"from":9,"to":3}]}},"output":[{"stream":200}]}`))
	c := newConfig(f)
	run, _ := makeRun(f, c, "a")
	f.Fuzz(func(t *testing.T, journal []byte) {
		must.Do(t, os.WriteFile(filepath.Join(run, journalName), journal, 0o600))
		e := newEngine(c)
		seen := make(map[string]int)
		for p := range e.Past("") {
			if seen[p.Record.ID]++; !p.Record.Status.Final() {
				t.Errorf("%s is %s", p.Record.ID, p.Record.Status)
			}
			p.Log.Read(0, 1000)
			p.Log.Stat()
		}
		begins := strings.Count(string(journal), `{"event":"begin"`)
		for id, n := range seen {
			if n > begins+1 {
				t.Errorf("%s is listed %d times", id, n)
			}
		}
	})
}
