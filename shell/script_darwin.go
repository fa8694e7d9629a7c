package shell

import (
	"fmt"
	"os"
)

// textFile returns a file without a name that holds text.
func textFile(text string) (*os.File, error) {
	f, err := os.CreateTemp("", "")
	if err != nil {
		return nil, fmt.Errorf("keeping a long command line: %w", err)
	}
	os.Remove(f.Name())
	if _, err = f.WriteString(text); err == nil {
		_, err = f.Seek(0, 0) // /dev/fd gives the same open file
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("keeping a long command line: %w", err)
	}
	return f, nil
}
