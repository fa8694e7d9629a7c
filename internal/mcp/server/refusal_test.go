package server

import (
	"errors"
	"fmt"
	"testing"

	"asyncrepl/internal/terminal/tty"
)

func TestRefusalsNameTheToolThatHelps(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{tty.ErrLineTooLong, "A line of more than 4095 bytes is cut by a terminal in line mode: send it in parts to a command started with tty=false, or put it in a file"},
		{tty.ErrControl, "Control characters are acted on by a terminal in line mode, not read by the program: press them with keys, such as keys=[\"ctrl-c\"]; use eof=true for end of file, or tty=false"},
		{tty.ErrEcho, "The terminal would echo a secret into the output: wait until the job asks with Waiting: secret"},
		{tty.ErrRawEOF, `The program reads single keys, so its terminal has no end of file: send keys=["ctrl-d"], which ends a readline prompt, or the key that the program quits by`},
		{errors.New("anything else"), "Anything else"},
	} {
		if got := refusalOf(fmt.Errorf("%w", c.err), nil, true).String(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
