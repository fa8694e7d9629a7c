package tty

// Sees tells whether the kernel lets us see what the process waits for; a container or a security module may not.
func Sees(pid int) bool { return len(readFile(taskFile(pid, pid, "syscall"), make([]byte, 256))) > 0 }
