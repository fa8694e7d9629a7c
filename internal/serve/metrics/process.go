package metrics

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/procfs"
)

// A process is what the server itself takes. 0 is unknown.
type process struct {
	memory                      int64 // resident bytes
	descriptors, maxDescriptors uint64
	goroutines                  int
}

// ownProcess asks the kernel and the runtime.
func ownProcess() process {
	p := process{goroutines: runtime.NumGoroutine()}
	if s, err := procfs.Inspect(os.Getpid()); err == nil {
		p.memory = s.Memory
	}
	if dir, err := os.Open("/dev/fd"); err == nil {
		names, _ := dir.Readdirnames(-1)
		dir.Close()
		p.descriptors = uint64(max(0, len(names)-1)) // dir itself is not counted
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil {
		p.maxDescriptors = limit.Cur
	}
	return p
}

// write writes the metrics of the process, by the names that every client library of Prometheus uses.
func (p process) write(t *text) {
	for _, m := range []struct {
		name, help string
		value      uint64
	}{
		{"process_resident_memory_bytes", "Resident memory of the server itself, without its jobs.", uint64(p.memory)},
		{"process_open_fds", "Open descriptors of the server.", p.descriptors},
		{"process_max_fds", "The most descriptors that the server can have.", p.maxDescriptors},
		{"go_goroutines", "Goroutines of the server.", uint64(p.goroutines)},
	} {
		if m.value > 0 {
			t.family(m.name, "gauge", m.help)
			t.sample(m.name, m.value)
		}
	}
}
