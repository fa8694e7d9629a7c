//go:build unix

package people

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/text/pattern"
)

// The doctor tries what it can try: it starts a server as a client does, runs a job whose output is
// too long for memory, reaches the engine as a command does, and asks what works. The rest is about
// what happens at a logout, which can only be read.

// A finding reports what a check has found.
type finding func(state, what, text string)

// States of a finding.
const (
	works = "ok"
	mind  = "note" // a person should know it
	fails = "fails"
)

func (c *Config) doctor() *cobra.Command {
	return &cobra.Command{Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		code := exit(0)
		found := func(state, what, text string) {
			fmt.Fprintf(c.Out, "%-5s  %s: %s\n", state, what, text)
			if state == fails {
				code = failed
			}
		}
		place := c.tryServer(cmd.Context(), found)
		atLogout("/", os.Getuid(), place, found)
		return code
	}}
}

// tryTime bounds the doctor's job.
const tryTime = 30 * time.Second

// tryLine is the command line of the doctor's job. Its output does not fit into memory, so it goes
// to the state directory.
const tryLine = "head -c 1000000 /dev/zero | tr '\\0' x"

// tryServer tries a server, and asks all engines that run. place is the directory of the sockets, or
// empty if no command reaches the server's engine there.
func (c *Config) tryServer(ctx context.Context, found finding) (place string) {
	h := &host{what: "the server that was started", patience: sockets.HelloTime}
	var err error
	if h.mcp, h.conn, err = c.Own(); err == nil {
		defer h.conn.Close()
		_, err = answer(ctx, h, tryTime, func(ctx context.Context) (any, error) { return nil, h.mcp.Initialize(ctx) })
	}
	var job, status client.Reply
	if err == nil {
		job, err = h.call(ctx, tryTime, "execute_command_async", map[string]any{"command": tryLine, "tty": false, "wait_seconds": tryTime.Seconds(), "max_chars": 1})
	}
	if err == nil {
		status, err = h.call(ctx, 0, "server_status", nil)
	}
	switch {
	case err != nil:
		found(fails, "server", err.Error())
	case job.Header("Status") != "completed":
		found(fails, "job", "a shell command "+job.Header("Status"))
	default:
		found(works, "job", "a shell command runs")
	}
	diskState, disk := mind, "there is none, so nothing is recorded, and long output is kept in part: set REPL_STATE_DIR"
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "Works":
			for one := range strings.SplitSeq(value, "; ") {
				found(works, "server", one)
			}
		case "Does not work":
			state := fails
			if strings.HasPrefix(value, "in a sandbox ") { // it works in none
				state = mind
			}
			found(state, "server", value)
		case "Python":
			found(works, "Python", value)
		case "Disk":
			diskState, disk = works, value
		case "Not written to disk":
			diskState, disk = fails, value
		}
	}
	if err == nil {
		found(diskState, "state directory", disk)
	}
	c.trySandbox(ctx, status.Header("Sandbox"), found)
	f := c.reach(ctx)
	defer f.close()
	for _, e := range f.engines {
		if !strings.Contains(status.Header("Version"), fmt.Sprintf(", pid %d,", e.PID)) {
			found(works, "engine", fmt.Sprintf("process %d answers, version %s", e.PID, e.Version))
			continue
		}
		place = e.place
		found(works, "sockets", "commands reach engines in "+place)
		if e.Lone {
			found(mind, "client", "jobs end with the client that started them: the server is one process (REPL_KEEPER=off)")
		} else {
			found(works, "client", "jobs can outlive the client that started them")
		}
	}
	if place == "" && err == nil {
		found(fails, "sockets", "no command reaches the engine that was tried")
	}
	for _, err := range f.silent {
		found(fails, "engine", err.Error())
	}
	return place
}

// trySandbox says whether a server can run in a sandbox. summary is what the one that was tried says of its
// own, or empty if it has none.
func (c *Config) trySandbox(ctx context.Context, summary string, found finding) {
	if summary != "" {
		found(works, "sandbox", summary)
		return
	}
	err := c.Confine(ctx)
	if err == nil {
		found(works, "sandbox", "it can start; REPL_SANDBOX=workspace sets it")
		return
	}
	why, more, _ := strings.Cut(err.Error(), "\n")
	if more != "" {
		why += " (async-repl sandbox check prints them)"
	}
	found(mind, "sandbox", why)
}

// atLogout says what a logout of the user ends, as systemd-logind does
// (https://www.freedesktop.org/software/systemd/man/latest/logind.conf.html). The file system
// begins at root. place is the directory of the sockets, or empty if there is none.
func atLogout(root string, uid int, place string, found finding) {
	name := strconv.Itoa(uid)
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	_, err := os.Stat(filepath.Join(root, "var/lib/systemd/linger", name))
	lingers := err == nil
	enable := fmt.Sprintf(": loginctl enable-linger %s prevents that", name)
	b, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup")) // an error: the system has no groups
	_, group, _ := strings.Cut("\n"+string(b), "\n0::")          // version 2 of control groups
	group, _, _ = strings.Cut(group, "\n")
	kill, file := killsAtLogout(root)
	switch {
	case group == "":
		found(works, "control group", "this system has none that a login could end")
	case strings.Contains(group, fmt.Sprintf("/user@%d.service/", uid)) && !lingers:
		found(mind, "control group", group+" ends with your last login, and jobs with it"+enable)
	case !strings.Contains(group, "/session-") || kill == "no" || lingers:
		found(works, "control group", group+" does not end with a login")
	case kill == "yes":
		found(mind, "control group", fmt.Sprintf("%s ends with its login, and jobs with it (KillUserProcesses=yes in %s)%s", group, file, enable))
	default:
		found(works, "control group", group+" does not end with a login, as most systems are built; KillUserProcesses=no in /etc/systemd/logind.conf makes it sure")
	}
	switch {
	case place == "":
	case strings.HasPrefix(place, fmt.Sprintf("/run/user/%d/", uid)) && !lingers:
		found(mind, "directory of the sockets", place+" vanishes with your last login; engines that continue then listen elsewhere within a minute"+enable)
	default:
		found(works, "directory of the sockets", place+" stays after a logout")
	}
}

// kills matches the setting of logind.
var kills = pattern.Lazy(`(?m)^\s*KillUserProcesses\s*=\s*(\S+)`)

// killsAtLogout returns yes or no as logind's setting KillUserProcesses says, and the file that
// says so; both are empty if none does. The directories are from the weakest to the strongest. The
// main file of the strongest counts, and then the drop-ins in the order of their names.
func killsAtLogout(root string) (kill, file string) {
	dirs := make(map[string]string) // the strongest directory that has a file; the main file comes before the drop-ins
	for _, dir := range []string{"/usr/lib/systemd", "/usr/local/lib/systemd", "/run/systemd", "/etc/systemd"} {
		for _, pattern := range []string{"logind.conf", "logind.conf.d/*.conf"} {
			found, _ := fs.Glob(os.DirFS(filepath.Join(root, dir)), pattern) // an error: the pattern is bad
			for _, name := range found {
				dirs[name] = dir
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(dirs)) {
		path := filepath.Join(dirs[name], name)
		b, _ := os.ReadFile(filepath.Join(root, path)) // an error: it says nothing
		for _, m := range kills().FindAllSubmatch(b, -1) {
			kill, file = "no", path
			if slices.Contains([]string{"yes", "true", "1", "on"}, strings.ToLower(string(m[1]))) {
				kill = "yes"
			}
		}
	}
	return kill, file
}
