//go:build linux

package proc

import ("testing";"time";"fmt")

func TestTmpShutdown200(t *testing.T) {
	for _, s := range []string{`trap '' TERM HUP INT; sleep %[1]s & sleep %[1]s & while :; do sleep 1; done`, `sleep %[1]s & sleep %[1]s; exit`} {
	o, _ := NewOwner(Config{Guard: self("part-guard")})
	tag := tag()
	b := time.Now()
	for i := range 200 { onPipe(t, o, fmt.Sprint("job", i), fmt.Sprintf(s, tag)) }
	t.Log("start", time.Since(b))
	grown(t, tag, 400)
	b = time.Now(); kin.look(); t.Log("look", time.Since(b))
	b = time.Now(); o.look(); t.Log("o.look", time.Since(b))
	b = time.Now(); o.Shutdown()
	t.Log("shutdown", time.Since(b), len(tagged(tag)))
	}
}
