package pystack

import (
	"bytes"
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/procfs"
)

// mapsMax bounds what is read of the list of mappings, which has about 100 bytes for each.
const mapsMax = 8 << 20

var errNoRuntime = errors.New("no interpreter was found in its memory")

// runtimeOf returns the address of the interpreter's runtime in a process. It is in the program, or
// in the shared library of Python.
func runtimeOf(pid int) (uint64, error) {
	proc := "/proc/" + strconv.Itoa(pid)
	maps, err := procfs.ReadAtMost(proc+"/maps", mapsMax)
	if err != nil {
		return 0, err
	}
	program, err := os.Readlink(proc + "/exe")
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(maps) {
		begin, name, ok := parseMapping(string(line))
		file := proc + "/root" + name
		switch {
		case !ok:
			continue
		case name == program:
			file = proc + "/exe" // there even if it was replaced
		case !strings.HasPrefix(path.Base(name), "libpython3"):
			continue
		}
		if addr, err := runtimeIn(file, begin); err == nil {
			return addr, nil
		}
	}
	return 0, errNoRuntime
}

// parseMapping parses a line of /proc/PID/maps, such as
//
//	7f10-7f20 r--p 00000000 fe:00 1234    /usr/lib/libpython3.11.so.1.0
//
// It is ok if it maps the start of a file.
func parseMapping(line string) (begin uint64, file string, ok bool) {
	at := strings.IndexByte(line, '/')
	if at < 0 {
		return 0, "", false
	}
	fields := strings.Fields(line[:at])
	if len(fields) < 5 || strings.Trim(fields[2], "0") != "" {
		return 0, "", false
	}
	from, _, _ := strings.Cut(fields[0], "-")
	begin, err := strconv.ParseUint(from, 16, 64)
	return begin, strings.TrimSuffix(line[at:], "\n"), err == nil
}

// runtimeIn returns the address of the runtime in a program or library that is mapped from begin
// on. It has a separate section, and in 3.9 only a symbol.
func runtimeIn(name string, begin uint64) (uint64, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO would block
	if err != nil {
		return 0, err
	}
	defer file.Close()
	if st, err := file.Stat(); err != nil || !st.Mode().IsRegular() {
		return 0, fs.ErrInvalid
	}
	f, err := elf.NewFile(file)
	if err != nil {
		return 0, err
	}
	if f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB {
		return 0, errNoRuntime
	}
	addr, err := addressIn(f)
	if err != nil || f.Type == elf.ET_EXEC {
		return addr, err
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			return addr + begin - (p.Vaddr - p.Off), nil
		}
	}
	return 0, errNoRuntime
}

// addressIn returns the address of the runtime as a file has it.
func addressIn(f *elf.File) (uint64, error) {
	if s := f.Section(".PyRuntime"); s != nil {
		return s.Addr, nil
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return 0, err
	}
	for _, s := range symbols {
		if s.Name == "_PyRuntime" && s.Section != elf.SHN_UNDEF {
			return s.Value, nil
		}
	}
	return 0, errNoRuntime
}
