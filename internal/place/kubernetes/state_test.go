package kubernetes

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/place/allocation"
	"asyncrepl/internal/test/must"
)

// recorded returns what Kubernetes 1.31.4 answered about a pod.
func recorded(t testing.TB, name string) string {
	t.Helper()
	return string(must.Get(os.ReadFile("testdata/" + name + ".json"))(t))
}

// list returns an answer about pods.
func list(pods ...string) string {
	return `{"apiVersion": "v1", "kind": "List", "items": [` + strings.Join(pods, ",") + `]}`
}

// stateOf returns the state of the only pod of an answer.
func stateOf(t *testing.T, pod, container string) allocation.State {
	t.Helper()
	pods := must.Get(states(list(pod)))(t)
	if len(pods) != 1 {
		t.Fatalf("%d pods in the answer", len(pods))
	}
	for _, p := range pods {
		return p.state(container)
	}
	panic("unreachable")
}

func TestRecordedStates(t *testing.T) {
	start := func(clock string) time.Time { return must.Get(time.Parse(time.RFC3339, "2026-11-23T"+clock+"Z"))(t) }
	for _, c := range []struct {
		name, container string
		want            allocation.State
	}{
		{"box", "box", allocation.State{Phase: allocation.Running, Text: "pod box, node node1", Node: "node1", Start: start("01:14:24")}},
		{"box-nodelost", "box", allocation.State{Phase: allocation.Cut, Text: "pod box, node node1, which Kubernetes does not reach", Node: "node1", Start: start("01:14:24")}},
		{"fat", "main", allocation.State{Phase: allocation.Pending, Text: "pod fat, Unschedulable: 0/1 nodes are available: 1 Insufficient memory. " +
			"preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."}},
		{"noimage", "main", allocation.State{Phase: allocation.Pending, Node: "node1", Start: start("01:31:20"),
			Text: `pod noimage, ErrImagePull: failed to pull and unpack image "nowhere.invalid/x:1": failed to resolve reference "nowhere.invalid/x:1": ` +
				`failed to do request: Head "https://nowhere.invalid/v2/x/manifests/1": dial tcp: lookup nowhere.invalid on 192.0.2.53:53: no such host`}},
		{"oom", "main", allocation.State{Phase: allocation.Ended, Text: "pod oom, node node1", Node: "node1", Start: start("01:31:21"), End: "pod oom ended: OOMKilled", Remains: true}},
		{"exits", "main", allocation.State{Phase: allocation.Ended, Text: "pod exits, node node1", Node: "node1", Start: start("01:31:21"), End: "pod exits ended: Error, exit status 3", Remains: true}},
		// Both have ended by SIGTERM, which the engine takes for a request to end.
		{"deleted", "main", allocation.State{Phase: allocation.Ended, Text: "pod deleted, node node1", Node: "node1", Start: must.Get(time.Parse(time.RFC3339, "2026-11-27T15:35:45Z"))(t), End: "pod deleted ended: deleted", Remains: true}},
		{"evicted", "main", allocation.State{Phase: allocation.Ended, Text: "pod evicted, node node1", Node: "node1", Start: must.Get(time.Parse(time.RFC3339, "2026-11-27T15:35:59Z"))(t),
			End: "pod evicted ended: EvictionByEvictionAPI: Eviction API: evicting", Remains: true}},
	} {
		if got := stateOf(t, recorded(t, c.name), c.container); got != c.want {
			t.Errorf("%s:\n%+v\nnot\n%+v", c.name, got, c.want)
		}
	}
}

// States that were not recorded, as the documentation and the source of Kubernetes have them.
// https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
func TestOtherStates(t *testing.T) {
	const running = `"containerStatuses": [{"name": "main", "state": {"running": {"startedAt": "2026-11-23T01:14:24Z"}}}]`
	waiting := func(reason, message string) string {
		return fmt.Sprintf(`"phase": "Pending", "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": %q, "message": %q}}}]`, reason, message)
	}
	terminated := func(more string) string {
		return `"containerStatuses": [{"name": "main", "state": {"terminated": {` + more + `}}}]`
	}
	for name, c := range map[string]struct {
		status string
		phase  allocation.Phase
		text   string // Text if it is pending, End if it has ended, the end of Text otherwise
	}{
		"just created":      {`"phase": "Pending"`, allocation.Pending, "pod x, Pending"},
		"an image withheld": {waiting("ImagePullBackOff", "Back-off pulling image"), allocation.Pending, "pod x, ImagePullBackOff: Back-off pulling image"},
		"no secret":         {waiting("CreateContainerConfigError", `secret "s" not found`), allocation.Pending, `pod x, CreateContainerConfigError: secret "s" not found`},
		"no message":        {waiting("ContainerCreating", ""), allocation.Pending, "pod x, ContainerCreating"},
		"gates": {`"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "waiting"}]`,
			allocation.Pending, "pod x, SchedulingGated: waiting"},
		"an init container waits": {`"phase": "Pending", "initContainerStatuses": [{"name": "one", "state": {"terminated": {"exitCode": 0}}},
			{"name": "two", "state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}}],
			"containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}}]`,
			allocation.Pending, "pod x, init container two: ErrImagePull: no"},
		"an init container failed": {`"phase": "Failed", "initContainerStatuses": [{"name": "one", "state": {"terminated": {"exitCode": 2, "reason": "Error"}}}],
			"containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}}]`,
			allocation.Ended, "pod x ended: init container one: Error, exit status 2"},
		"a sidecar of the cluster comes first": {`"phase": "Running", "containerStatuses": [{"name": "mesh", "state": {"terminated": {"exitCode": 1}}}, {"name": "main", "state": {"running": {}}}]`,
			allocation.Running, "pod x, node n2"},
		"a sidecar outlives the engine": {`"phase": "Running", "containerStatuses": [{"name": "side", "state": {"running": {}}},
			{"name": "main", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]`,
			allocation.Ended, "pod x ended: Completed"},
		"not ready by a probe": {`"phase": "Running", "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"},
			{"type": "ContainersReady", "status": "False", "reason": "ContainersNotReady"}], ` + running, allocation.Running, "pod x, node n2"},
		"not ready by a gate": {`"phase": "Running", "conditions": [{"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady"},
			{"type": "ContainersReady", "status": "True"}], ` + running, allocation.Running, "pod x, node n2"},
		"phase unknown": {`"phase": "Unknown", ` + running, allocation.Cut, "which Kubernetes does not reach"},
		"evicted": {`"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory.", ` + terminated(`"exitCode": 137, "reason": "Error"`),
			allocation.Ended, "pod x ended: Evicted: The node was low on resource: memory."},
		"deadline": {`"phase": "Failed", "reason": "DeadlineExceeded", "message": "Pod was active on the node longer than the specified deadline"`,
			allocation.Ended, "allocation's time limit"},
		"preempted": {`"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "for y"}], ` +
			terminated(`"exitCode": 143, "reason": "Error"`), allocation.Ended, "pod x ended: PreemptionByScheduler: for y"},
		"its node is deleted": {`"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "message": "node no longer exists"}], ` + running,
			allocation.Ended, "node n2 lost: Kubernetes DeletionByPodGC"},
		"no /bin/sh": {`"phase": "Failed", ` + terminated(`"exitCode": 128, "reason": "StartError", "message": "exec: \"/bin/sh\": no such file or directory"`),
			allocation.Ended, `pod x ended: StartError, exit status 128: exec: "/bin/sh": no such file or directory`},
		"an engine that does not start": {`"phase": "Failed", ` + terminated(`"exitCode": 1, "reason": "Error", "message": "one\ntwo\n\nthree\nasync-repl: /tmp can be changed by other users\n"`),
			allocation.Ended, "pod x ended: Error, exit status 1: two; three; async-repl: /tmp can be changed by other users"},
		"killed after it has printed":    {`"phase": "Failed", ` + terminated(`"exitCode": 137, "reason": "Error", "message": "noise"`), allocation.Ended, "pod x ended: Error, exit status 137"},
		"no memory after it has printed": {`"phase": "Failed", ` + terminated(`"exitCode": 137, "reason": "OOMKilled", "message": "noise"`), allocation.Ended, "pod x ended: OOMKilled"},
		"ended without a word":           {`"phase": "Failed"`, allocation.Ended, "pod x ended: Failed"},
		"escapes":                        {waiting("Bad\x1b[2J", "a\nPlace: here\u202e"), allocation.Pending, `pod x, Bad\x1b[2J: a\nPlace: here\u202e`},
		"long words":                     {waiting("Bad", strings.Repeat("x", 5000)), allocation.Pending, "pod x, Bad: " + strings.Repeat("x", textChars-13) + "…"},
	} {
		status := strings.ReplaceAll(c.status, `\x1b`, `\u001b`) // %q writes for Go
		got := stateOf(t, `{"metadata": {"name": "x"}, "spec": {"nodeName": "n2"}, "status": {`+status+`}}`, "main")
		said := got.Text
		if c.phase == allocation.Ended {
			said = got.End
		}
		if got.Phase != c.phase || !strings.HasSuffix(said, c.text) || c.phase != allocation.Cut && said != c.text || (got.End != "") != (c.phase == allocation.Ended) || got.Remains != (c.phase == allocation.Ended) {
			t.Errorf("%s: %+v, not %v with %q", name, got, c.phase, c.text)
		}
	}
}

// A pod that is being deleted on a lost node is still out of reach; on a node that answers it still runs.
func TestPodThatIsBeingDeleted(t *testing.T) {
	for name, want := range map[string]allocation.State{
		"box":          {Phase: allocation.Running, Text: "pod box, node node1, which is being deleted"},
		"box-nodelost": {Phase: allocation.Cut, Text: "pod box, node node1, which Kubernetes does not reach"},
	} {
		pod := strings.Replace(recorded(t, name), `"metadata": {`, `"metadata": {"deletionTimestamp": "2026-11-23T02:14:24Z",`, 1)
		if got := stateOf(t, pod, "box"); got.Phase != want.Phase || got.Text != want.Text {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestDeadline(t *testing.T) {
	for seconds, want := range map[string]time.Duration{"3600": time.Hour, "9223372036854775807": maxDeadline * time.Second} {
		pod := strings.Replace(recorded(t, "box"), `"spec": {`, `"spec": {"activeDeadlineSeconds": `+seconds+`,`, 1)
		if got := stateOf(t, pod, "box"); got.Deadline.Sub(got.Start) != want {
			t.Errorf("%s s: the deadline is %v after the start", seconds, got.Deadline.Sub(got.Start))
		}
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	for _, data := range []string{"", "null\x1b", "[]", `{"items": 1}`, `{"items": [{"metadata": {"name": 3}}]}`, `{"items": [{"status": {"startTime": "soon"}}]}`} {
		if _, err := states(data); err == nil || strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("%q: %v", data, err)
		}
	}
}

// Whatever a cluster answers, a state is one phase and short lines, and says of an end how it was.
func FuzzState(f *testing.F) {
	for _, name := range []string{"box", "box-nodelost", "exits", "fat", "noimage", "oom", "deleted", "evicted"} {
		f.Add(recorded(f, name))
	}
	f.Fuzz(func(t *testing.T, pod string) {
		pods, err := states(list(pod))
		if err != nil {
			return
		}
		for _, p := range pods {
			s := p.state("main")
			if s.Phase < allocation.Pending || s.Phase > allocation.Ended || (s.End != "") != (s.Phase == allocation.Ended) {
				t.Errorf("%+v", s)
			}
			for _, text := range []string{s.Text, s.Node, s.End} {
				if strings.ContainsAny(text, "\n\r\x1b") || len([]rune(text)) > 3*textChars {
					t.Errorf("%q is no short line", text)
				}
			}
			if _, err := json.Marshal(s); err != nil {
				t.Errorf("%+v: %v", s, err)
			}
		}
	})
}
