package waiting

import (
	"os"
	"testing"
)

func TestSees(t *testing.T) {
	if !Sees(os.Getpid()) {
		t.Error("the kernel does not even show this process")
	}
	if Sees(1<<22 + 1) { // no process has such a number
		t.Error("what is not there is seen")
	}
}
