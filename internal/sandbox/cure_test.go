//go:build linux

package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/nstest"
)

func TestCure(t *testing.T) {
	const (
		debian  = "bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged user namespaces."
		uidMap  = "bwrap: setting up uid map: Permission denied"
		newName = "bwrap: Creating new namespace failed: Operation not permitted"
		// https://github.com/containers/bubblewrap/issues/632, /505 and /284
		loopback = "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted"
		slave    = "bwrap: Failed to make / slave: Permission denied"
		tmpfs    = "bwrap: Failed to mount tmpfs: Permission denied"
		proc     = "bwrap: Can't mount proc on /newroot/proc: Operation not permitted"
	)
	for name, test := range map[string]struct {
		output string
		files  map[string]string
		want   string
	}{
		"Ubuntu":       {uidMap, map[string]string{"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"}, "/etc/apparmor.d/bwrap"},
		"Ubuntu 24.04": {loopback, map[string]string{"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"}, "/etc/apparmor.d/bwrap"},
		"AppArmor":     {slave, map[string]string{".dockerenv": ""}, "this is a container"},
		"SELinux":      {tmpfs, map[string]string{"run/.containerenv": ""}, "this is a container"},
		"Debian":       {debian, map[string]string{"proc/sys/kernel/unprivileged_userns_clone": "0\n", ".dockerenv": ""}, "kernel.unprivileged_userns_clone=1"},
		"RHEL":         {newName, map[string]string{"proc/sys/user/max_user_namespaces": "0\n"}, "user.max_user_namespaces"},
		"Docker":       {debian, map[string]string{".dockerenv": "", "proc/sys/user/max_user_namespaces": "96365\n"}, "this is a container"},
		"Podman":       {newName, map[string]string{"run/.containerenv": ""}, "this is a container"},
		"hidden proc":  {proc, nil, "this is a container"},
		"other":        {newName, nil, "lets no program"},
		"old":          {"bwrap: Unknown option --unshare-cgroup-try", nil, "older than 0.4.0"},
		"its own file": {"bwrap: Can't find source path /x: No such file or directory", nil, ""},
		"no output":    {"", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, text := range test.files {
				must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o755))
				must.Do(t, os.WriteFile(filepath.Join(root, file), []byte(text), 0o644))
			}
			if got := cure(root, test.output); !strings.Contains(got, test.want) || test.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// What bubblewrap really prints if it can't make namespaces has a cure.
func TestCureOfRealRefusals(t *testing.T) {
	needtest.Program(t, "bwrap")
	for script, want := range map[string]string{
		"echo 0 >/proc/sys/user/max_user_namespaces; exec bwrap --unshare-user --ro-bind / / true":                      "namespaces",
		"echo 0 >/proc/sys/user/max_net_namespaces; exec bwrap --unshare-user --unshare-net --ro-bind / / true":         "/proc/sys/user",
		"mount --bind /dev/null /proc/cmdline; exec bwrap --unshare-user --unshare-pid --ro-bind / / --proc /proc true": "container",
		"exec bwrap --unshare-something true": "older",
	} {
		cmd := exec.Command("sh", "-c", script)
		nstest.Isolate(cmd, 0)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(Cure(string(out)), want) {
			t.Errorf("%s\nprinted %s (%v), and the cure is %q, want %q", script, out, err, Cure(string(out)), want)
		}
	}
}
