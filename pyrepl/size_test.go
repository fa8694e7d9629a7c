package pyrepl_test

import "testing"

// Libraries lay out their text for the terminal of the session. A child has its own terminal, or
// none, and gets no size of another.
func TestTerminalSize(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.result("import argparse, os, pty, shutil, subprocess\ntuple(shutil.get_terminal_size())", "(120, 40)")
	b.result("os.environ['COLUMNS'], os.environ.get('LINES'), os.environb[b'COLUMNS'], os.getenv('COLUMNS')", "('120', '40', b'120', '120')")
	b.result("'COLUMNS' in os.environ, 'COLUMNS' in dict(os.environ), 'LINES' in os.environ.copy()", "(True, False, False)")
	b.result("argparse.HelpFormatter('x')._width", "118")
	b.result(`def child(**options):
    return subprocess.run(["bash", "-c", "echo ${COLUMNS-none} ${LINES-none}"], stdout=subprocess.PIPE, text=True, **options).stdout
other, terminal = pty.openpty()
child(), child(env=os.environ), child(env={**os.environ, "X": "1"}, stdin=terminal)`, `('none none\n', 'none none\n', 'none none\n')`)
	b.result(`pid, fd = pty.fork()
if pid == 0:
    os.write(1, repr(os.environ.get("COLUMNS")).encode()); os._exit(0)
found = os.read(fd, 100); os.waitpid(pid, 0); found`, "b'None'")
	b.result(`saved, null = os.dup(0), os.open(os.devnull, os.O_RDONLY)
os.dup2(null, 0); found = os.environ.get("COLUMNS"); os.dup2(saved, 0); found`, "'120'")
	b.result("os.environ['COLUMNS'] = '60'; shutil.get_terminal_size().columns, child()", `(60, '60 none\n')`)
	b.result("del os.environ['COLUMNS']; os.environ['COLUMNS'], os.environ.pop('COLUMNS'), os.environ.get('COLUMNS')", "('120', '120', None)")
	b.want("os.environ['NO_SUCH']", "failed (KeyError: 'NO_SUCH')")
}
