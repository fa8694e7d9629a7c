package waiting_test

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"asyncrepl/internal/tty"
	"asyncrepl/internal/waiting"
)

// A program is started on a terminal, is seen waiting for it, and is typed to.
func Example() {
	pty, err := tty.Open(24, 80)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pty.Close()
	cat := exec.Command("cat")
	cat.Stdin, cat.Stdout, cat.Stderr = pty.Slave(), pty.Slave(), pty.Slave()
	cat.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cat.Start(); err != nil {
		fmt.Println(err)
		return
	}

	tree := func() ([]int, error) { return []int{cat.Process.Pid}, nil }
	reported := make(chan waiting.Evidence, 1) // only the first report is read
	watcher := &waiting.Watcher{
		PTY:   pty,
		Tree:  tree,
		Quiet: func() time.Time { return time.Time{} },
		OnChange: func(ev waiting.Evidence, waits bool) {
			if waits {
				select {
				case reported <- ev:
				default:
				}
			}
		},
	}
	stop := watcher.Start()
	ev := <-reported
	fmt.Println("cat waits for a", ev.Kind) // ev.By() names cat and its pid
	stop()

	keyboard := tty.NewKeyboard(pty, tree)
	if err := keyboard.Type(context.Background(), "hello\n", true, false); err != nil {
		fmt.Println(err)
	}
	screen := bufio.NewReader(pty.Master())
	for range 2 { // the terminal's echo, and the output of cat
		line, _ := screen.ReadString('\n')
		fmt.Printf("%q\n", line)
	}
	fmt.Println(cat.Wait())
	// Output:
	// cat waits for a line
	// "hello\r\n"
	// "hello\r\n"
	// <nil>
}
