package tty

// Sees tells that the kernel shows nothing of what a process waits for.
func Sees(int) bool { return false }
