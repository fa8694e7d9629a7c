//go:build linux

package tty_test

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"syscall"

	"asyncrepl/internal/terminal/tty"
)

// A program is started on a terminal and typed to. (That it waits is the subject of package
// waiting.)
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

	keyboard := tty.NewKeyboard(pty, func() ([]int, error) { return []int{cat.Process.Pid}, nil })
	if err := keyboard.Type(context.Background(), tty.Input{Text: "hello\n", EOF: true}); err != nil {
		fmt.Println(err)
	}
	screen := bufio.NewReader(pty.Master())
	for range 2 { // the terminal's echo, and the output of cat
		line, _ := screen.ReadString('\n')
		fmt.Printf("%q\n", line)
	}
	fmt.Println(cat.Wait())
	// Output:
	// "hello\r\n"
	// "hello\r\n"
	// <nil>
}
