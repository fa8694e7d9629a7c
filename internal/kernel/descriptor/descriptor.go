//go:build unix

// Package descriptor gives system calls the descriptor of an open file or connection.
package descriptor

import "syscall"

// Use runs f on the descriptor of c, which stays open meanwhile and keeps its mode. The error is
// that of f, or says that c is closed.
func Use(c syscall.Conn, f func(fd int) error) error {
	conn, err := c.SyscallConn()
	if err != nil {
		return err
	}
	if closed := conn.Control(func(fd uintptr) { err = f(int(fd)) }); closed != nil {
		return closed
	}
	return err
}
