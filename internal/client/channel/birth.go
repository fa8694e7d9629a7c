//go:build linux

package channel

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/sandbox"
)

// A Birth is what the outer process sends to an engine in a sandbox before it starts.
type Birth struct {
	Version  string          // the version of the outer process, which must be that of the engine, too
	Self     sockets.Name    // others know the engine by the outer process
	Settings json.RawMessage // the settings of the engine, in a form that only the program knows
	Tenant   string          // the name of the tenant if the server has several; otherwise empty
	Summary  string          // what the sandbox allows, for people
	Removed  []string        // the names of the variables that were left out
	Seals    []sandbox.Seal  // what must be mounted where
	Network  bool            // the network of the machine can be reached
	Proxy    bool            // there is a proxy
}

// file returns a file that holds b. A message has no room for the seals of a large repository.
func (b Birth) file() (*os.File, error) {
	text, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("birth", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "birth")
	if _, err := f.WriteAt(text, 0); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func readBirth(f *os.File) (b Birth, err error) {
	info, err := f.Stat()
	if err != nil {
		return b, err
	}
	err = json.NewDecoder(io.NewSectionReader(f, 0, info.Size())).Decode(&b)
	return b, err
}
