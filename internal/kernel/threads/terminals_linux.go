package threads

import (
	"bytes"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/procfs"
)

// terminalMajor is the major device number of the slaves of pseudo-terminals. The minor number is
// the terminal's, as in /dev/pts/7.
const terminalMajor = 136

// A TerminalEnd is one of the two ends of a pseudo-terminal.
type TerminalEnd struct {
	Number int
	Master bool
}

// TerminalEnd returns the end of a pseudo-terminal that one of the thread's descriptors is, by the
// link that /proc shows of it. It reports false if the descriptor is something else.
func (t Thread) TerminalEnd(fd int, link string) (end TerminalEnd, ok bool, err error) {
	switch link {
	case "/dev/ptmx", "/dev/pts/ptmx":
		end.Master = true
		end.Number, ok, err = t.masterNumber(fd)
		return end, ok, err
	case "/dev/tty":
		s, err := procfs.Inspect(t.PID)
		if err != nil || unix.Major(s.Terminal) != terminalMajor {
			return end, false, UnlessHidden(err)
		}
		return TerminalEnd{Number: int(unix.Minor(s.Terminal))}, true, nil
	}
	number, isSlave := strings.CutPrefix(link, "/dev/pts/")
	if !isSlave {
		return end, false, nil
	}
	end.Number, err = strconv.Atoi(number)
	return end, err == nil, nil
}

// masterNumber returns the number of the pseudo-terminal of which the descriptor is the master.
func (t Thread) masterNumber(fd int) (number int, ok bool, err error) {
	var buf [512]byte
	b, err := procfs.ReadStart(t.file("fdinfo/")+strconv.Itoa(fd), buf[:])
	if err != nil {
		return 0, false, UnlessHidden(err)
	}
	_, value, _ := bytes.Cut(b, []byte("tty-index:"))
	value, _, _ = bytes.Cut(value, []byte("\n"))
	number, err = strconv.Atoi(string(bytes.TrimSpace(value)))
	return number, err == nil, nil
}
