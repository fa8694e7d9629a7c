//go:build unix

package people

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/text/pattern"
)

// The doctor tries what it can try: a server of its own runs a job whose output is too long for
// memory, and says what works; a command says hello to an engine. The rest is about what happens at
// a logout, which can only be read.

// A finding is what a check has found.
type finding struct {
	state string
	what  string
	text  string
}

// States of a finding.
const (
	works = "ok"
	mind  = "note" // a person should know it
	fails = "fails"
)

func (c *Config) doctor() *cobra.Command {
	return &cobra.Command{Annotations: named("doctor"), Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		place, tried := c.checkSockets(ctx)
		all := slices.Concat(c.checkServer(ctx), tried, c.checkEngines(ctx), atLogout("/", os.Getuid(), place))
		code := exit(0)
		for _, f := range all {
			fmt.Fprintf(c.Out, "%-5s  %s: %s\n", f.state, f.what, f.text)
			if f.state == fails {
				code = failed
			}
		}
		return code
	}}
}

// tryTime bounds the doctor's job.
const tryTime = 30 * time.Second

// tryLine is the command line of the doctor's job. Its output does not fit into memory, so it goes
// to the state directory.
const tryLine = "head -c 1000000 /dev/zero | tr '\\0' x"

// checkServer starts a server that records nothing, runs a job with it and asks it what works.
func (c *Config) checkServer(ctx context.Context) (all []finding) {
	found := func(state, what, text string) { all = append(all, finding{state, what, text}) }
	conn, err := c.Own(ctx)
	if err != nil {
		found(fails, "server", err.Error())
		return all
	}
	h := &host{mcp: client.New(conn, conn), conn: conn}
	defer conn.Close()
	if err := h.mcp.Initialize(ctx); err != nil {
		found(fails, "server", err.Error())
		return all
	}
	job, err := h.call(ctx, tryTime, "execute_command_async", map[string]any{"command": tryLine, "tty": false, "wait_seconds": tryTime.Seconds(), "max_chars": 1})
	status, statusErr := h.call(ctx, 0, "server_status", nil)
	switch {
	case err != nil || statusErr != nil:
		found(fails, "job", errors.Join(err, statusErr).Error())
		return all
	case job.Header("Status") != "completed":
		found(fails, "job", "a shell command "+job.Header("Status"))
	default:
		found(works, "job", "a shell command runs")
	}
	disk := finding{works, "state directory", "none"}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "Works":
			for _, one := range strings.Split(value, "; ") {
				found(works, "server", one)
			}
		case "Does not work":
			found(fails, "server", value)
		case "Python":
			found(works, "Python", value)
		case "Disk":
			disk.text = value
		case "Not written to disk":
			disk.state, disk.text = fails, value
		}
	}
	return append(all, disk)
}

// checkSockets says hello to an engine that this process plays. It returns the directory of the
// sockets, or the empty string if there is none.
func (c *Config) checkSockets(ctx context.Context) (place string, all []finding) {
	d, err := sockets.OpenFirst(c.Places)
	if err != nil {
		return "", []finding{{fails, "sockets", strings.ReplaceAll(err.Error(), "\n", "; ")}}
	}
	defer d.Close()
	l, err := d.Listen(strings.Repeat("0", 16))
	if err != nil {
		return d.Path(), []finding{{fails, "sockets", err.Error()}}
	}
	var answering sync.WaitGroup
	answering.Go(func() { // joined below; ends with the listener
		if conn, err := l.Accept(); err == nil {
			defer conn.Close()
			if _, err := conn.Hear(c.Version); err == nil {
				conn.Welcome(sockets.Welcome{Version: c.Version}) // an error: the other end finds it
			}
		}
	})
	conn, _, err := d.Dial(ctx, l.Name(), sockets.Hello{Role: sockets.Person})
	l.Close()
	answering.Wait()
	if err != nil {
		return d.Path(), []finding{{fails, "sockets", fmt.Sprintf("in %s: %v", d.Path(), err)}}
	}
	conn.Close()
	return d.Path(), []finding{{works, "sockets", "commands reach engines in " + d.Path()}}
}

// checkEngines says which engines can be asked.
func (c *Config) checkEngines(ctx context.Context) (all []finding) {
	f := c.reach(ctx)
	defer f.close()
	for _, e := range f.engines {
		all = append(all, finding{works, "engine", fmt.Sprintf("process %d answers, version %s", e.PID, e.Version)})
	}
	for _, err := range f.silent {
		all = append(all, finding{fails, "engine", err.Error()})
	}
	return all
}

// atLogout says what a logout of the user ends, as systemd-logind does
// (https://www.freedesktop.org/software/systemd/man/latest/logind.conf.html). The file system
// begins at root, and place is the directory of the sockets; empty: there is none.
func atLogout(root string, uid int, place string) (all []finding) {
	name := strconv.Itoa(uid)
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	_, err := os.Stat(filepath.Join(root, "var/lib/systemd/linger", name))
	lingers := err == nil
	enable := fmt.Sprintf("loginctl enable-linger %s prevents that", name)
	b, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	group := ""
	if m := ownGroup().FindSubmatch(b); m != nil {
		group = string(m[1])
	}
	about := finding{works, "control group", fmt.Sprintf("%s does not end with a login", group)}
	switch kill, file := killsAtLogout(root); {
	case err != nil || group == "":
		about.text = "this system has none that a login could end"
	case strings.Contains(group, fmt.Sprintf("/user@%d.service/", uid)) && !lingers:
		about.state, about.text = mind, fmt.Sprintf("%s ends with your last login, and jobs with it: %s", group, enable)
	case strings.Contains(group, "/session-") && strings.Contains(group, ".scope") && kill == "yes" && !lingers:
		about.state, about.text = mind, fmt.Sprintf("%s ends with its login, and jobs with it (KillUserProcesses=yes in %s): %s", group, file, enable)
	case strings.Contains(group, "/session-") && strings.Contains(group, ".scope") && kill == "":
		about.text += ", as most systems are built; KillUserProcesses=no in /etc/systemd/logind.conf makes it sure"
	}
	if place == "" {
		return []finding{about}
	}
	dir := finding{works, "directory of the sockets", place + " stays after a logout"}
	if strings.HasPrefix(place, fmt.Sprintf("/run/user/%d/", uid)) && !lingers {
		dir.state, dir.text = mind, fmt.Sprintf("%s vanishes with your last login, and commands find no engine that continues: %s", place, enable)
	}
	return []finding{about, dir}
}

// ownGroup matches the group of a process in the second version of control groups.
var ownGroup = pattern.Lazy(`(?m)^0::(.*)$`)

// kills matches the setting of logind.
var kills = pattern.Lazy(`(?m)^\s*KillUserProcesses\s*=\s*(\S+)`)

// killsAtLogout returns yes or no as logind's setting KillUserProcesses says, and the file that
// says so; both are empty if none does. Of the main file the first found counts, and then the
// drop-ins by their names.
func killsAtLogout(root string) (kill, file string) {
	read := func(path string) bool {
		b, err := os.ReadFile(filepath.Join(root, path))
		for _, m := range kills().FindAllSubmatch(b, -1) {
			kill, file = "no", path
			if slices.Contains([]string{"yes", "true", "1", "on"}, strings.ToLower(string(m[1]))) {
				kill = "yes"
			}
		}
		return err == nil
	}
	places := []string{"/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd"}
	for _, dir := range places {
		if read(dir + "/logind.conf") {
			break
		}
	}
	dropIns := make(map[string]string)
	for _, dir := range slices.Backward(places) {
		found, _ := filepath.Glob(filepath.Join(root, dir, "logind.conf.d/*.conf"))
		for _, path := range found {
			dropIns[filepath.Base(path)] = dir + "/logind.conf.d/" + filepath.Base(path)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(dropIns)) {
		read(dropIns[name])
	}
	return kill, file
}
