//go:build unix

package kubernetes

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/place/allocation"
	"asyncrepl/internal/test/kubetest"
	"asyncrepl/internal/test/must"
)

// These tests need a cluster, as .ci/kubernetes makes one.

// cluster returns a Cluster whose pods see the programs of the node and have more in their spec and in their
// container, and deletes what is left of its pods. The test is skipped if there is no cluster.
func cluster(t *testing.T, spec, container string) *Cluster {
	t.Helper()
	file := kubetest.Pod(t, kubetest.Programs, "{"+spec+"}", "{"+container+"}")
	key := strings.ReplaceAll(t.Name(), "/", "-")
	t.Cleanup(func() {
		kubectl(t, "", "delete", "pods", "-l", keyLabel+"="+key, "--force", "--grace-period=0")
	})
	return must.Get(New(file, key, allocation.Local))(t)
}

func kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return must.Get(allocation.Local(ctx, append([]string{"kubectl"}, args...), stdin))(t)
}

// await returns the state of a pod when it is as wanted.
func await(t *testing.T, c *Cluster, id string, wanted func(allocation.State) bool) allocation.State {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		s := must.Get(c.States(t.Context(), []string{id}))(t)[id]
		if wanted(s) {
			return s
		}
		if time.Since(begin) > 2*time.Minute {
			t.Fatalf("the pod is still %+v", s)
		}
	}
}

func in(phase allocation.Phase) func(allocation.State) bool {
	return func(s allocation.State) bool { return s.Phase == phase }
}

// inside runs a script in a pod, by its carrier.
func inside(t *testing.T, c *Cluster, id, script string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return allocation.Local(ctx, append(c.Carrier(id), "/bin/sh"), script)
}

// bring puts a program where the first command of a pod waits for it.
func bring(t *testing.T, c *Cluster, id, program string) {
	t.Helper()
	must.Get(inside(t, c, id, "cat >/var/new <<'END'\n#!/bin/sh\n"+program+"\nEND\nchmod 755 /var/new && mv /var/new /var/program\n"))(t)
}

// found finds the program of bring.
const found = "[ -x /var/program ] && echo /var/program"

var waits = allocation.Engine{Workspace: "/data", Setup: "export SETUP=done", Find: found, Args: []string{"placed", `$HOME $(id) $$`}, Idle: 5 * time.Minute}

// A pod waits for our program, becomes the engine, is reached by its carrier, and is given back.
func TestRealPod(t *testing.T) {
	c := cluster(t, `"activeDeadlineSeconds": 600`, "")
	id := must.Get(c.Allocate(t.Context(), "real", waits))(t)
	s := await(t, c, id, in(allocation.Running))
	if s.Node != "node1" || s.Deadline.Sub(s.Start) != 10*time.Minute {
		t.Errorf("the state is %+v", s)
	}
	bring(t, c, id, `echo "$$ $SETUP $PWD $*" >/var/engine; exec sleep 1000`)
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		out, err := inside(t, c, id, "cat /var/engine; cat /proc/1/cmdline | tr '\\0' ' '\n")
		if err == nil && out == "1 done /data placed $HOME $(id) $$\nsleep 1000 " {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("the pod runs no engine: %q, %v", out, err)
		}
	}

	other := must.Get(New([]byte(small), "other", allocation.Local))(t)
	must.Do(t, other.Release(t.Context(), id, "real"))
	if s := must.Get(c.States(t.Context(), []string{id}))(t)[id]; s.Phase != allocation.Running || strings.Contains(s.Text, "deleted") {
		t.Errorf("a server with another key has deleted it: %+v", s)
	}
	must.Do(t, c.Release(t.Context(), id, "real"))
	if s := must.Get(c.States(t.Context(), []string{id}))(t)[id]; s.Phase != allocation.Running || !strings.HasSuffix(s.Text, "which is being deleted") {
		t.Errorf("it does not say that it is being deleted: %+v", s)
	}
	kubectl(t, "", "delete", "pods", "-l", c.selector(), "--force", "--grace-period=0") // sleep takes no SIGTERM as process 1
	await(t, c, id, in(allocation.Unknown))
}

// Each way in which a pod waits or ends has its words.
func TestRealWords(t *testing.T) {
	never := allocation.Engine{Workspace: "/", Find: found, Idle: time.Second}
	for name, c := range map[string]struct {
		spec, container string
		engine          allocation.Engine
		program         string
		phase           allocation.Phase
		want            string
	}{
		"idle":       {"", "", never, "", allocation.Ended, " ended: Completed"},
		"status":     {"", "", waits, "{ echo too; echo bad; } >&2; exit 3", allocation.Ended, " ended: Error, exit status 3: too; bad"},
		"memory":     {"", `"resources": {"limits": {"memory": "50Mi"}}`, waits, "exec tail /dev/zero", allocation.Ended, " ended: OOMKilled"},
		"deadline":   {`"activeDeadlineSeconds": 3`, "", waits, "", allocation.Ended, "allocation's time limit"},
		"no shell":   {"", `"volumeMounts": []`, waits, "", allocation.Ended, " ended: StartError, exit status 128: "},
		"no space":   {"", `"resources": {"requests": {"memory": "900Gi"}}`, waits, "", allocation.Pending, ", Unschedulable: 0/1 nodes are available: 1 Insufficient memory."},
		"no image":   {"", `"image": "localhost/none:1"`, waits, "", allocation.Pending, ", ErrImageNeverPull: "},
		"no secret":  {"", `"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "none", "key": "k"}}}]`, waits, "", allocation.Pending, `, CreateContainerConfigError: secret "none" not found`},
		"setup ends": {"", "", allocation.Engine{Workspace: "/", Setup: "exit 7", Find: found, Idle: time.Minute}, "", allocation.Ended, " ended: Error, exit status 7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pods := cluster(t, c.spec, c.container)
			id := must.Get(pods.Allocate(t.Context(), name, c.engine))(t)
			if c.program != "" {
				await(t, pods, id, in(allocation.Running))
				bring(t, pods, id, c.program)
			}
			s := await(t, pods, id, func(s allocation.State) bool {
				return s.Phase == c.phase && (strings.Contains(s.Text, c.want) || s.Phase == allocation.Ended)
			})
			if said := s.Text + s.End; !strings.Contains(said, c.want) {
				t.Errorf("it says %q, without %q", said, c.want)
			}
		})
	}
}

// A pod that has not started is gone at once when it is given back.
func TestRealPendingPodIsCancelled(t *testing.T) {
	c := cluster(t, "", `"resources": {"requests": {"memory": "900Gi"}}`)
	id := must.Get(c.Allocate(t.Context(), "pending", waits))(t)
	await(t, c, id, func(s allocation.State) bool { return strings.Contains(s.Text, "Unschedulable") })
	must.Do(t, c.Release(t.Context(), id, "pending"))
	await(t, c, id, in(allocation.Unknown))
}

// What Kubernetes would not take as it stands in the file is refused at once.
func TestRealRefusals(t *testing.T) {
	c := cluster(t, `"resorces": {}`, "")
	if id, err := c.Allocate(t.Context(), "a", waits); err == nil || !strings.Contains(err.Error(), `correct its file (Error from server (BadRequest)`) || !strings.Contains(err.Error(), "resorces") {
		t.Errorf("a misspelt file: %q, %v", id, err)
	}
	c = cluster(t, "", "")
	c.context, c.known = "nobody", true
	if id, err := c.Allocate(t.Context(), "a", waits); err == nil || !strings.Contains(err.Error(), "this user lacks a right") {
		t.Errorf("without rights: %q, %v", id, err)
	}
	c.context = "stranger"
	if id, err := c.Allocate(t.Context(), "a", waits); err == nil || !strings.Contains(err.Error(), "kubectl is not logged in") {
		t.Errorf("with a token that no one knows: %q, %v", id, err)
	}
}

// A node that is out of reach is no end, however long it takes. When it is back, the pod still runs.
func TestRealNodeIsLost(t *testing.T) {
	c := cluster(t, "", "")
	kubelet, err := strconv.Atoi(os.Getenv("ASYNC_REPL_TEST_KUBELET"))
	if err != nil {
		t.Skip("ASYNC_REPL_TEST_KUBELET is not the kubelet's process")
	}
	id := must.Get(c.Allocate(t.Context(), "lost", waits))(t)
	await(t, c, id, in(allocation.Running))
	bring(t, c, id, "exec sleep 1000")
	must.Do(t, syscall.Kill(kubelet, syscall.SIGSTOP))
	defer syscall.Kill(kubelet, syscall.SIGCONT)
	s := await(t, c, id, in(allocation.Cut))
	if !strings.HasSuffix(s.Text, ", node node1, which Kubernetes does not reach") || s.End != "" {
		t.Errorf("the state is %+v", s)
	}
	must.Do(t, syscall.Kill(kubelet, syscall.SIGCONT))
	await(t, c, id, in(allocation.Running))
	if out, err := inside(t, c, id, "echo here\n"); out != "here\n" {
		t.Errorf("the pod is not reached: %q, %v", out, err)
	}
}

// The carrier passes bytes as they are, both ways.
func TestRealCarrierIsExact(t *testing.T) {
	c := cluster(t, "", "")
	id := must.Get(c.Allocate(t.Context(), "exact", waits))(t)
	await(t, c, id, in(allocation.Running))
	var data strings.Builder
	for i := range 256 * 1024 {
		data.WriteByte(byte(i * i >> 8))
		data.WriteByte(byte(i))
	}
	argv := append(c.Carrier(id), "/bin/cat")
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Stdin = strings.NewReader(data.String())
	out, err := cmd.Output()
	if err != nil || string(out) != data.String() {
		t.Errorf("%d of %d bytes are back: %v", len(out), data.Len(), err)
	}
	if _, err := inside(t, c, id, "exit 9\n"); err == nil || !strings.Contains(fmt.Sprint(err), "9") {
		t.Errorf("the exit status is lost: %v", err)
	}
}
