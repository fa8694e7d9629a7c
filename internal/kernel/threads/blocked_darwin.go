package threads

import "time"

// Blocked returns "": this system does not show what a process waits for.
func Blocked(int) (words string, since time.Duration) { return "", 0 }
