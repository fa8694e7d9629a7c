package kubernetes

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"asyncrepl/internal/test/must"
)

// An ordinary file: a name, labels, a sidecar, probes for the program that is replaced, and numbers of YAML
// 1.1.
const ordinary = `# the pod of the group
---
apiVersion: v1
kind: Pod
metadata:
  name: gpu
  namespace: team
  uid: 0a1b
  resourceVersion: "12"
  labels: {app: notebook}
spec:
  restartPolicy: Always
  activeDeadlineSeconds: 9007199254740993
  tolerations:
  - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 60}
  containers:
  - name: main
    image: python:3.14
    command: [jupyter]
    args: [lab]
    livenessProbe: {httpGet: {port: 8888}}
    readinessProbe: {httpGet: {port: 8888}}
    startupProbe: {httpGet: {port: 8888}}
    volumeMounts: [{name: data, mountPath: /data, readOnly: yes}]
  - name: side
    image: proxy:1
    args: [run]
    livenessProbe: {httpGet: {port: 1}}
  volumes:
  - {name: data, secret: {secretName: s, defaultMode: 0640}}
`

// made returns the manifest of a file as the API server reads it, with numbers as they are written.
func made(t *testing.T, file, script string) map[string]any {
	t.Helper()
	p, err := read([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	d := json.NewDecoder(strings.NewReader(string(must.Get(p.manifest("key1", "pods/a b", script))(t))))
	d.UseNumber()
	must.Do(t, d.Decode(&object))
	return object
}

func TestManifest(t *testing.T) {
	got := made(t, ordinary, "echo $HOME $(id)")
	var want map[string]any
	d := json.NewDecoder(strings.NewReader(`{"apiVersion": "v1", "kind": "Pod",
		"metadata": {"generateName": "gpu-", "namespace": "team", "labels": {"app": "notebook", "async-repl/key": "key1", "async-repl/name": "` + nameValue("pods/a b") + `"},
			"annotations": {"async-repl/name": "pods/a b", "kubectl.kubernetes.io/default-container": "main"}},
		"spec": {"restartPolicy": "Never", "activeDeadlineSeconds": 9007199254740993,
			"tolerations": [
				{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
				{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
			"containers": [
				{"name": "main", "image": "python:3.14", "command": ["/bin/sh", "-c", "echo $$HOME $$(id)"],
					"terminationMessagePolicy": "FallbackToLogsOnError", "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": true}]},
				{"name": "side", "image": "proxy:1", "args": ["run"], "livenessProbe": {"httpGet": {"port": 1}}}],
			"volumes": [{"name": "data", "secret": {"secretName": "s", "defaultMode": 416}}]}}`))
	d.UseNumber()
	must.Do(t, d.Decode(&want))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the manifest is\n%v\nnot\n%v", got, want)
	}
}

// Pods that are created at the same time share the file, which no manifest changes.
func TestManifestsChangeNoFile(t *testing.T) {
	p := must.Get(read([]byte(ordinary)))(t)
	first := string(must.Get(p.manifest("key1", "a", "one"))(t))
	second := string(must.Get(p.manifest("key2", "b", "two"))(t))
	if first == second || strings.Contains(second, "key1") || !reflect.DeepEqual(p, must.Get(read([]byte(ordinary)))(t)) {
		t.Errorf("the file is now %v", p.object)
	}
}

// What kubectl get printed is a file, too: it bears the name, the uid and the state of the pod that it was.
func TestPodThatKubectlPrinted(t *testing.T) {
	object := made(t, string(must.Get(os.ReadFile("testdata/box.json"))(t)), "x")
	metadata := object["metadata"].(map[string]any)
	if metadata["generateName"] != "box-" || metadata["uid"] != nil || metadata["resourceVersion"] != nil || object["status"] != nil {
		t.Errorf("the manifest has what is the cluster's: %v", object)
	}
	tolerations := object["spec"].(map[string]any)["tolerations"].([]any)
	if len(tolerations) != 2 {
		t.Errorf("the tolerations of the file were not kept: %v", tolerations)
	}
}

func TestNamesOfPods(t *testing.T) {
	for metadata, want := range map[string]string{
		`{}`:                                    "async-repl-",
		`{"name": "a.b"}`:                       "a.b-",
		`{"generateName": "gen-"}`:              "gen-",
		`{"name": "a", "generateName": "gen-"}`: "a-",
	} {
		object := made(t, `{"apiVersion":"v1","kind":"Pod","metadata":`+metadata+`,"spec":{"containers":[{"name":"c"}]}}`, "x")
		if got := object["metadata"].(map[string]any)["generateName"]; got != want {
			t.Errorf("%s: the name begins with %q, not %q", metadata, got, want)
		}
	}
}

func TestBadFiles(t *testing.T) {
	const containers = `"spec":{"containers":[{"name":"c"}]}}`
	for name, c := range map[string]struct{ file, want string }{
		"nothing":                    {"", "is empty: write a Pod"},
		"only a comment":             {"# later\n---\n", "is empty: write a Pod"},
		"not YAML":                   {"a: [", "is not YAML"},
		"a key twice":                {"kind: Pod\nkind: Pod\n", "already set"},
		"a separator with a comment": {ordinary + "--- # more\r\nkind: Pod\n", "more than one document"},
		"a tab":                      {"kind:\n\tPod", "is not YAML"},
		"text":                       {"hello", "is not an object"},
		"a list":                     {"- a\n", "is not an object"},
		"broken JSON":                {`{"kind":`, "is not an object in YAML or JSON"},
		"two objects":                {`{"kind":"Pod","apiVersion":"v1",` + containers + `{}`, "more than one object"},
		"two documents":              {ordinary + "---\n" + ordinary, "more than one document"},
		"a deployment":               {"apiVersion: apps/v1\nkind: Deployment\n", `has kind "Deployment" and apiVersion "apps/v1": write a Pod of v1`},
		"no kind":                    {"{}", `has kind "" and apiVersion ""`},
		"no spec":                    {"apiVersion: v1\nkind: Pod\n", "has no container"},
		"spec is a list":             {"apiVersion: v1\nkind: Pod\nspec: [1]\n", `spec is "[1]": write an object`},
		"no container":               {"apiVersion: v1\nkind: Pod\nspec: {containers: []}\n", "has no container"},
		"a container is 1":           {"apiVersion: v1\nkind: Pod\nspec: {containers: [1]}\n", `a container that is "1"`},
		"no name":                    {"apiVersion: v1\nkind: Pod\nspec: {containers: [{image: x}]}\n", `first container of the pod has name ""`},
		"an option as name":          {"apiVersion: v1\nkind: Pod\nspec: {containers: [{name: --as=root}]}\n", `has name "--as=root"`},
		"labels are text":            {`{"apiVersion":"v1","kind":"Pod","metadata":{"labels":"a"},` + containers, `labels is "a": write an object`},
		"a name with blank":          {`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a b"},` + containers, `has name "a b"`},
		"a name in escapes":          {`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a\u001b[2J"},` + containers, `has name "a\x1b[2J"`},
		"a number as name":           {`{"apiVersion":"v1","kind":"Pod","metadata":{"name":7},` + containers, `name is "7": write it as text`},
		"bad namespace":              {`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"-n"},` + containers, `has namespace "-n"`},
		"metadata is text":           {`{"apiVersion":"v1","kind":"Pod","metadata":"x",` + containers, `metadata is "x": write an object`},
	} {
		_, err := read([]byte(c.file))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q in one line", name, err, c.want)
		}
	}
}

func FuzzPod(f *testing.F) {
	f.Add([]byte(ordinary))
	f.Add([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"labels":null},"spec":{"containers":[{"name":"c"}],"tolerations":[1,{"key":[]}]}}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		p, err := read(file)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("the error is no line: %q", err)
			}
			return
		}
		manifest, err := p.manifest("k", "n", "$x")
		if err != nil {
			t.Fatal(err)
		}
		again, err := read(manifest)
		if err != nil || again.container != p.container {
			t.Errorf("%s can't be read again: %v", manifest, err)
		}
	})
}
