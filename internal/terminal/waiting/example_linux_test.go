package waiting_test

import (
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"asyncrepl/internal/terminal/tty"
	"asyncrepl/internal/terminal/waiting"
)

// A program is started on a terminal, and is seen waiting for it. The example of package tty types
// to it.
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

	reported := make(chan waiting.Evidence, 1) // only the first report is read
	watcher := &waiting.Watcher{
		Source:     pty,
		Tree:       func() ([]int, error) { return []int{cat.Process.Pid}, nil },
		LastOutput: func() time.Time { return time.Time{} },
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

	cat.Process.Kill()
	cat.Wait()
	// Output:
	// cat waits for a line
}
