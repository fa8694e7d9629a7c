package pyrepl_test

import (
	"strings"
	"testing"
)

// Code that has opened all the descriptors it may, and keeps them, harms only what needs one
// itself: the session takes jobs, asks and reports.
func TestNoDescriptorsLeft(t *testing.T) {
	inFull(t)
	for name, limit := range map[string]string{
		"as started": "",
		"lowered":    "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.want(limit, "completed")
			b.want("import os\nheld = []\ndef fill():\n    while True: held.append(os.dup(0))", "completed")
			for range 3 {
				b.want("fill()", "failed (OSError: [Errno 24] Too many open files)")
				if _, out := b.want("print('out')", "completed"); out != "out\n" {
					t.Errorf("output %q", out)
				}
			}
			if _, out := b.run("1 / 0"); !strings.Contains(out, "ZeroDivisionError: division by zero") {
				t.Errorf("the report is %q", out)
			}
			b.answer("input('name? ')", "name? ", "me", "'me'")
			b.result("for fd in held: os.close(fd)\nos.system('true')", "0")
		})
	}
}
