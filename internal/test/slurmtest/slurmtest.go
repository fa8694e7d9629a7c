//go:build linux

// Package slurmtest starts a cluster of Slurm for tests: munged, slurmctld and two slurmd, on the loopback,
// with ports and a directory of their own, so that tests of several packages can each have one. It needs
// root. Begin with Start.
package slurmtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/place/allocation"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/internal/test/tiedtest"
)

// The daemons of a Cluster: the controller and the two nodes.
const (
	Controller = "slurmctld"
	Node1      = "n1"
	Node2      = "n2"
	munge      = "munged"
)

// variable is what each process of a cluster has in its environment, also those of jobs.
const variable = "SLURM_CONF"

// The variables that say at which node a process is: what slurmd has started, and the tasks of jobs.
const (
	nodeOfDaemons = "SLURMTEST_NODE"
	nodeOfTasks   = "SLURMD_NODENAME"
)

// conf is the configuration. Without control groups, proctrack/linuxproc finds the processes of a job by their
// parents.
const conf = `ClusterName=test
SlurmctldHost=%[1]s(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=%[2]s/munge/s
SlurmctldPort=%[3]d
StateSaveLocation=%[2]s/state
SlurmctldPidFile=%[2]s/ctl.pid
SlurmdPidFile=%[2]s/%%n.pid
SlurmdSpoolDir=%[2]s/spool-%%n
SlurmctldLogFile=%[2]s/slurmctld.log
SlurmdLogFile=%[2]s/%%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=10
KillWait=2
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
NodeName=n1 NodeHostname=%[1]s NodeAddr=127.0.0.1 Port=%[4]d CPUs=8 RealMemory=4000
NodeName=n2 NodeHostname=%[1]s NodeAddr=127.0.0.1 Port=%[5]d CPUs=8 RealMemory=4000
PartitionName=short Nodes=n1,n2 Default=YES DefaultTime=10 MaxTime=120 State=UP
%[6]s
`

// A Cluster is a running cluster. Its default partition is called short, has the nodes n1 and n2 of 8 CPUs
// each, and lets a job run for two hours.
type Cluster struct {
	Conf string // the value of SLURM_CONF
	Dir  string // a directory of the test that everybody can read; it is removed at the end

	ports   map[string]int // of Controller and the nodes
	daemons map[string]*exec.Cmd
}

// Start starts a cluster with more lines in its configuration. It ends with the test, together with all that
// its jobs have started. The test is skipped if a program is missing.
func Start(t testing.TB, lines ...string) *Cluster {
	t.Helper()
	for _, name := range []string{"munged", "slurmctld", "slurmd", "sbatch", "srun"} {
		if _, err := exec.LookPath(path(name)); err != nil {
			t.Skip("there is no " + name)
		}
	}
	account, err := user.Lookup("munge")
	if err != nil || os.Getuid() != 0 {
		t.Skip("munged needs a user of its own, and slurmctld root")
	}
	host, _, _ := strings.Cut(must.Get(os.Hostname())(t), ".")
	dir := must.Get(os.MkdirTemp("/tmp", "slurm"))(t) // short, for the socket of munged
	c := &Cluster{
		Conf: dir + "/slurm.conf", Dir: dir, daemons: make(map[string]*exec.Cmd),
		ports: map[string]int{Controller: freePort(t), Node1: freePort(t), Node2: freePort(t)},
	}
	t.Cleanup(func() {
		c.end(t)
		if t.Failed() {
			log, _ := os.ReadFile(dir + "/slurmctld.log")
			t.Logf("slurmctld:\n%s", log[max(0, len(log)-4000):])
		}
		must.Do(t, os.RemoveAll(dir))
	})
	must.Do(t, os.Chmod(dir, 0o755))
	must.Do(t, os.Mkdir(dir+"/state", 0o755))
	must.Do(t, os.WriteFile(c.Conf, fmt.Appendf(nil, conf, host, dir, c.ports[Controller], c.ports[Node1], c.ports[Node2], strings.Join(lines, "\n")), 0o644))
	must.Do(t, os.WriteFile(dir+"/cgroup.conf", []byte("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\nConstrainCores=no\nConstrainRAMSpace=no\n"), 0o644))

	uid, gid := must.Get(strconv.Atoi(account.Uid))(t), must.Get(strconv.Atoi(account.Gid))(t)
	must.Do(t, os.Mkdir(dir+"/munge", 0o755))
	must.Do(t, os.WriteFile(dir+"/munge/key", fmt.Appendf(nil, "%0128x", rand.Uint64()), 0o400))
	for _, path := range []string{dir + "/munge", dir + "/munge/key"} {
		must.Do(t, os.Chown(path, uid, gid))
	}
	must.Do(t, c.run(munge, &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, path("munged"), "--foreground", "--num-threads=1",
		"--key-file="+dir+"/munge/key", "--socket="+dir+"/munge/s", "--pid-file="+dir+"/munge/pid", "--seed-file="+dir+"/munge/seed"))
	polltest.Check(t, func() error { return answers("unix", dir+"/munge/s") })
	for _, name := range []string{Controller, Node1, Node2} {
		c.Run(t, name)
	}
	return c
}

// path returns the path of a program, which can be in a directory that an ordinary PATH lacks.
func path(name string) string {
	if _, err := exec.LookPath(name); err != nil {
		return "/usr/sbin/" + name
	}
	return name
}

// run starts a daemon. If the test binary is killed, the daemon ends with it.
func (c *Cluster) run(name string, as *syscall.Credential, argv ...string) error {
	log, err := os.OpenFile(filepath.Join(c.Dir, name+".err"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	cmd.Env = append(os.Environ(), variable+"="+c.Conf, nodeOfDaemons+"="+name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: as}
	if err := tiedtest.Start(cmd, syscall.SIGKILL); err != nil {
		return err
	}
	c.daemons[name] = cmd
	return nil
}

// Run starts a daemon, or starts it again after Kill or Stop, at the same port. It returns when the daemon is ready: a
// controller answers, a node is there for jobs.
func (c *Cluster) Run(t testing.TB, name string) {
	t.Helper()
	argv := []string{path("slurmd"), "-D", "-N", name, "-f", c.Conf}
	if name == Controller {
		argv = []string{path("slurmctld"), "-D", "-f", c.Conf}
	}
	must.Do(t, c.run(name, nil, argv...))
	// A command waits 9 s for a controller that does not listen yet.
	polltest.Check(t, func() error { return answers("tcp", fmt.Sprintf("127.0.0.1:%d", c.ports[name])) })
	polltest.Check(t, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), polltest.Patience)
		defer cancel()
		if name == Controller {
			_, err := c.Command(ctx, []string{"sinfo"}, "")
			return err
		}
		state, err := c.Command(ctx, []string{"sinfo", "--noheader", "--nodes=" + name, "--format=%t"}, "")
		if state = strings.TrimSpace(state); err == nil && !slices.Contains([]string{"idle", "mix", "alloc"}, state) {
			err = fmt.Errorf("node %s is %q", name, state)
		}
		return err
	})
}

// Stop ends a daemon as a restart of its service does. A controller saves its state, which one that is killed does not:
// it forgets jobs that it has just accepted, and uses their ids again.
func (c *Cluster) Stop(t testing.TB, name string) {
	t.Helper()
	cmd := c.daemons[name]
	delete(c.daemons, name)
	must.Do(t, cmd.Process.Signal(syscall.SIGTERM))
	must.Do(t, cmd.Wait())
}

// Kill kills a daemon. The jobs of a node whose daemon is killed continue.
func (c *Cluster) Kill(t testing.TB, name string) {
	t.Helper()
	cmd := c.daemons[name]
	delete(c.daemons, name)
	must.Do(t, cmd.Process.Kill())
	cmd.Wait()
}

// Lose kills a node: its daemon and all that runs there, as if its machine had been pulled away. Slurm knows of
// it 20 to 30 s later, or when it is told: scontrol update nodename=n1 state=down reason=test.
func (c *Cluster) Lose(t testing.TB, node string) {
	t.Helper()
	c.Kill(t, node)
	there := func(p procfs.Process) bool {
		daemon, _, _ := procfs.LookupEnv(p.PID, nodeOfDaemons) // an error: it has ended
		task, _, _ := procfs.LookupEnv(p.PID, nodeOfTasks)
		return daemon == node || task == node
	}
	for _, p := range must.Get(c.Processes())(t) { // first, so that none sees the end of another
		if there(p) {
			p.Signal(syscall.SIGSTOP) // an error: it has ended
		}
	}
	c.killAll(t, there)
}

// Argv returns the arguments of a command of Slurm for this cluster.
func (c *Cluster) Argv(argv ...string) []string {
	return append([]string{"env", variable + "=" + c.Conf}, argv...)
}

// Command is an allocation.Run for this cluster.
func (c *Cluster) Command(ctx context.Context, argv []string, stdin string) (string, error) {
	return allocation.Local(ctx, c.Argv(argv...), stdin)
}

// Must runs a command of Slurm that does not fail, and returns its output without the last newline.
func (c *Cluster) Must(t testing.TB, argv ...string) string {
	t.Helper()
	return strings.TrimSuffix(must.Get(c.Command(t.Context(), argv, ""))(t), "\n")
}

// Processes returns the processes of jobs, of their steps and of commands such as srun.
func (c *Cluster) Processes() ([]procfs.Process, error) {
	var daemons []int
	controller := 0 // it has a child, slurmscriptd
	for name, cmd := range c.daemons {
		daemons = append(daemons, cmd.Process.Pid)
		if name == Controller {
			controller = cmd.Process.Pid
		}
	}
	all, err := procfs.All()
	var found []procfs.Process
	for _, p := range all {
		if p.Ended() || slices.Contains(daemons, p.PID) || controller > 0 && p.Parent == controller {
			continue
		}
		value, _, _ := procfs.LookupEnv(p.PID, variable) // an error: it has ended
		if value == c.Conf {
			found = append(found, p.Process)
		}
	}
	return found, err
}

// end kills all that belongs to the cluster.
func (c *Cluster) end(t testing.TB) {
	for _, cmd := range c.daemons {
		cmd.Process.Kill()
		cmd.Wait()
	}
	clear(c.daemons)
	c.killAll(t, func(procfs.Process) bool { return true })
}

// killAll kills the processes that match, except daemons, until two scans in a row have found none.
func (c *Cluster) killAll(t testing.TB, match func(procfs.Process) bool) {
	t.Helper()
	empty := 0
	polltest.Check(t, func() error {
		found, err := c.Processes()
		found = slices.DeleteFunc(found, func(p procfs.Process) bool { return !match(p) })
		for _, p := range found {
			p.Signal(syscall.SIGKILL) // an error: it has ended, or the next scan finds it again
		}
		if empty++; err != nil || len(found) > 0 {
			empty = 0
		}
		if empty < 2 {
			return errors.Join(fmt.Errorf("processes of Slurm remain: %v", found), err)
		}
		return nil
	})
}

// answers returns an error if nothing listens there.
func answers(network, address string) error {
	conn, err := net.Dial(network, address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// freePort returns a port at which nothing listens. No connection gets it from the kernel, which takes those
// from 32768 on, so it stays free while a daemon is down.
func freePort(t testing.TB) int {
	t.Helper()
	for {
		port := 20000 + rand.N(12000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		must.Do(t, err)
		l.Close()
		return port
	}
}
