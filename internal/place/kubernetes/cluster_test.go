package kubernetes

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/place/allocation"
	"asyncrepl/internal/test/must"
)

// A player answers commands of kubectl by the first of its answers whose command is contained in theirs.
type player struct {
	answers  [][2]string // the command, the answer; an answer that begins with "!" is an error
	commands []string
	stdin    string
}

func (p *player) run(_ context.Context, argv []string, stdin string) (string, error) {
	command := strings.Join(argv, " ")
	p.commands, p.stdin = append(p.commands, command), stdin
	for _, answer := range p.answers {
		if strings.Contains(command, answer[0]) {
			if text, failed := strings.CutPrefix(answer[1], "!"); failed {
				return "", &allocation.Error{Program: "kubectl", Code: 1, Text: text, Reached: true}
			}
			return answer[1], nil
		}
	}
	return "", &allocation.Error{Program: "kubectl", Code: 1, Text: "error: unknown command", Reached: true}
}

const small = "apiVersion: v1\nkind: Pod\nmetadata: {name: box}\nspec: {containers: [{name: main, image: i}]}\n"

var engine = allocation.Engine{Workspace: "/", Find: "echo /bin/p", Args: []string{"placed"}, Idle: time.Minute}

// The context and the namespace of the first start count for all that comes, also when the person has
// switched meanwhile, and for a later server that takes the id over.
func TestContextOfTheStartIsKept(t *testing.T) {
	p := &player{answers: [][2]string{{"current-context", "arn:aws:eks:x:1:cluster/a\n"}, {"create", "team/box-x7k2p"}, {"get", list()}, {"delete", ""}}}
	c := must.Get(New([]byte(small), "key1", p.run))(t)
	id := must.Get(c.Allocate(t.Context(), "a", engine))(t)
	p.answers[0][1] = "other\n"
	if again := must.Get(c.Allocate(t.Context(), "b", engine))(t); again != id {
		t.Errorf("the second pod is %q, not in the context of %q", again, id)
	}
	later := must.Get(New([]byte(strings.Replace(small, "main", "renamed", 1)), "key1", p.run))(t)
	must.Get(later.States(t.Context(), []string{id}))(t)
	must.Do(t, later.Release(t.Context(), id, "a"))
	const at = "kubectl --context=arn:aws:eks:x:1:cluster/a "
	want := []string{
		"kubectl config current-context",
		at + "create -f - --request-timeout=20s -o jsonpath={.metadata.namespace}/{.metadata.name}",
		at + "create -f - --request-timeout=20s -o jsonpath={.metadata.namespace}/{.metadata.name}",
		at + "--namespace=team get pods -l async-repl/key=key1 --request-timeout=20s -o json",
		at + "--namespace=team delete pods -l async-repl/key=key1,async-repl/name=" + nameValue("a") + " --wait=false --request-timeout=20s --field-selector metadata.name=box-x7k2p",
	}
	if !slices.Equal(p.commands, want) {
		t.Errorf("the commands were\n%s\nnot\n%s", strings.Join(p.commands, "\n"), strings.Join(want, "\n"))
	}
	carrier := strings.Join(later.Carrier(id), " ")
	if carrier != at+"--namespace=team exec -i box-x7k2p -c main --" {
		t.Errorf("the carrier is %q", carrier)
	}
}

// In a pod, kubectl has no context, and works with the rights of the pod.
func TestWithoutContext(t *testing.T) {
	p := &player{answers: [][2]string{{"current-context", "!error: current-context is not set"}, {"create", "default/box-1"}}}
	c := must.Get(New([]byte(small), "key1", p.run))(t)
	id := must.Get(c.Allocate(t.Context(), "a", engine))(t)
	if carrier := c.Carrier(id); !slices.Equal(carrier, []string{"kubectl", "--namespace=default", "exec", "-i", "box-1", "-c", "main", "--"}) {
		t.Errorf("the carrier is %q", carrier)
	}
}

// A context that can't be read is asked for again, not taken for none.
func TestContextIsAskedForAgain(t *testing.T) {
	p := &player{answers: [][2]string{{"current-context", "!error: loading config file: permission denied"}, {"create", "default/box-1"}}}
	c := must.Get(New([]byte(small), "key1", p.run))(t)
	if id, err := c.Allocate(t.Context(), "a", engine); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Fatalf("%q, %v", id, err)
	}
	p.answers[0][1] = "ctx"
	if id := must.Get(c.Allocate(t.Context(), "a", engine))(t); id != "box-1/default/main/ctx" {
		t.Errorf("the id is %q", id)
	}
}

func TestCreatedNamesAreChecked(t *testing.T) {
	for _, name := range []string{"", "box-1", "/box-1", "default/", "default/-x", "--all/x", "default/a b", "default/A\x1b", "a/b/c", strings.Repeat("a", 1<<16) + "/b"} {
		p := &player{answers: [][2]string{{"current-context", "ctx"}, {"create", name}}}
		c := must.Get(New([]byte(small), "key1", p.run))(t)
		if id, err := c.Allocate(t.Context(), "a", engine); err == nil || len(err.Error()) > 1000 || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%.20q became the id %.20q: %v", name, id, err)
		}
	}
}

// All pods of one context and namespace are asked for at once.
func TestStatesOfAllPodsAtOnce(t *testing.T) {
	p := &player{answers: [][2]string{{"--context=one --namespace=default get", list(recorded(t, "box"), recorded(t, "oom"), recorded(t, "fat"))},
		{"--context=two --namespace=default get", list(recorded(t, "box-nodelost"))}}}
	c := must.Get(New([]byte(small), "key1", p.run))(t)
	got := must.Get(c.States(t.Context(), []string{"box/default/box/one", "oom/default/main/one", "gone/default/main/one", "box/default/box/two"}))(t)
	if len(p.commands) != 2 {
		t.Errorf("the commands were %q", p.commands)
	}
	for id, want := range map[string]allocation.Phase{"box/default/box/one": allocation.Running, "oom/default/main/one": allocation.Ended,
		"gone/default/main/one": allocation.Unknown, "box/default/box/two": allocation.Cut} {
		if got[id].Phase != want {
			t.Errorf("%s: %+v, not %v", id, got[id], want)
		}
	}
	if len(got) != 4 { // not fat, which bears the key, but was not asked for
		t.Errorf("the states are %+v", got)
	}
	if end := got["gone/default/main/one"].End; end != "Kubernetes no longer knows pod gone; how it ended is unknown" {
		t.Errorf("the end is %q", end)
	}
	if got, err := c.States(t.Context(), nil); len(got) != 0 || err != nil || len(p.commands) != 2 {
		t.Errorf("no pod: %v, %v, %q", got, err, p.commands)
	}
}

// A pod that was seen while it was being deleted, and is gone, has ended by that. One that has vanished can have ended in
// any way.
func TestDeletedPod(t *testing.T) {
	running := strings.NewReplacer(`"terminated"`, `"running"`, `"Succeeded"`, `"Running"`).Replace(recorded(t, "deleted"))
	for last, want := range map[string]string{running: "pod deleted ended: deleted", recorded(t, "deleted"): "pod deleted ended: deleted",
		strings.Replace(recorded(t, "evicted"), `"evicted"`, `"deleted"`, 1): "pod deleted ended: EvictionByEvictionAPI: Eviction API: evicting",
		"": "Kubernetes no longer knows pod deleted; how it ended is unknown"} {
		p := &player{answers: [][2]string{{"get", list(last)}}}
		c := must.Get(New([]byte(small), "key1", p.run))(t)
		const id = "deleted/default/main/c"
		first := must.Get(c.States(t.Context(), []string{id}))(t)[id]
		if last == running && first.Phase != allocation.Running || first.Phase == allocation.Ended && first.End != want {
			t.Errorf("%+v, want %q", first, want)
		}
		p.answers[0][1] = list()
		if s := must.Get(c.States(t.Context(), []string{id}))(t)[id]; s.End != want || (s.Phase == allocation.Unknown) != (last == "") {
			t.Errorf("%+v, want %q", s, want)
		}
	}
}

// A list that can't be had says nothing about any pod.
func TestStatesThatAreNotKnown(t *testing.T) {
	for _, answer := range []string{"!Unable to connect to the server: dial tcp 192.0.2.1:6443: i/o timeout", "garbage"} {
		p := &player{answers: [][2]string{{"get", answer}}}
		c := must.Get(New([]byte(small), "key1", p.run))(t)
		if got, err := c.States(t.Context(), []string{"a/b/c/d"}); got != nil || err == nil {
			t.Errorf("%s: %v, %v", answer, got, err)
		}
	}
}

func TestBadIDs(t *testing.T) {
	p := new(player)
	c := must.Get(New([]byte(small), "key1", p.run))(t)
	for _, id := range []string{"box", "a/b/c", "-x/default/main/c", "box/--as=root/main/c", "box/default/-/c", "box//main/c", "A/b/c/d", "a b/c/d/e", "x\x1b/b/c/d"} {
		_, err := c.States(t.Context(), []string{id})
		if release := c.Release(t.Context(), id, "a"); err == nil || release == nil || c.Carrier(id) != nil || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q is taken for the id of a pod: %v, %v, %q", id, err, release, c.Carrier(id))
		}
	}
	if len(p.commands) != 0 {
		t.Errorf("kubectl was asked: %q", p.commands)
	}
	for _, key := range []string{"", "a b", "-a", "a,b", strings.Repeat("x", 64)} {
		if _, err := New([]byte(small), key, p.run); err == nil {
			t.Errorf("%q is taken for a key", key)
		}
	}
}

func TestErrorsSayWhatHelps(t *testing.T) {
	for _, c := range []struct {
		code       int
		refuses    bool
		text, want string
	}{
		{127, true, "there is no such program on the PATH", `there is no kubectl on that machine's PATH: install it, or name a machine that has it by "ssh" (`},
		{1, true, `Error from server (Forbidden): error when creating "STDIN": pods is forbidden: User "u" cannot create resource "pods" in API group "" in the namespace "n"`,
			"this user lacks a right: it needs create, get, list and delete for pods, and create for pods/exec (Error from server"},
		{1, true, `Error from server (Forbidden): error when creating "STDIN": pods "box-1" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2`,
			"the namespace's quota is used up"},
		{1, true, `Error from server (Forbidden): error when creating "STDIN": pods "box-1" is forbidden: violates PodSecurity "restricted:latest"`, "Kubernetes refuses the pod: correct its file ("},
		{1, true, "error: You must be logged in to the server (Unauthorized)", "kubectl is not logged in"},
		{1, true, `error: context "old" does not exist`, "the context of kubectl is gone"},
		{1, true, `Error from server (BadRequest): error when creating "STDIN": Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.resorces"`,
			"Kubernetes refuses the pod: correct its file ("},
		{1, false, `E1127 08:35:40.457140 30016 memcache.go:265] "Unhandled Error" err="couldn't get: dial tcp; refused"; E1127 08:35:40.458620 30016 memcache.go:265] "x"; ` +
			"The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?",
			"the API server of Kubernetes does not answer: check the context of kubectl and the network ("},
		{1, false, "Unable to connect to the server: net/http: TLS handshake timeout", "the API server of Kubernetes does not answer"},
		{1, false, "E1127 08:35:40.457140 30016 memcache.go:265] dial tcp", "(E1127"},
		{1, false, "something new", "kubectl: something new"},
	} {
		given := &allocation.Error{Program: "kubectl", Code: c.code, Text: c.text, Reached: true}
		err := explained(given)
		var e *allocation.Error
		if !errors.As(err, &e) || e.Code != c.code || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "Unhandled") || given.Text != c.text {
			t.Errorf("%s:\n%v", c.text, err)
		}
		if _, refuses := errors.AsType[*allocation.Refused](err); refuses != c.refuses {
			t.Errorf("%s: refused: %t", c.text, refuses)
		}
	}
	if err := explained(nil); err != nil {
		t.Error(err)
	}
	ssh := &allocation.Error{Program: "ssh", Code: 255, Text: "dial tcp", Reached: false}
	if err := explained(ssh); err != ssh {
		t.Errorf("an error of ssh became %v", err)
	}
	if err := explained(context.Canceled); err != context.Canceled {
		t.Errorf("the end of the context became %v", err)
	}
}
