// Package kubetest describes pods for tests that need a cluster of Kubernetes, as .ci/kubernetes makes one: a node
// that is this machine, whose image localhost/box:1 has nothing in it but directories. Begin with Pod.
package kubetest

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"asyncrepl/internal/test/must"
)

// Programs are the directories of this machine that a container needs to run its programs.
var Programs = []string{"/usr", "/bin", "/lib", "/lib64"}

type object = map[string]any

// Pod returns the file of a Pod that bears the label of Selector. Its container main sees directories of this machine.
// spec and container are objects in JSON of what else stands there. The test is skipped if there is no cluster.
func Pod(t testing.TB, directories []string, spec, container string) []byte {
	t.Helper()
	if os.Getenv("ASYNC_REPL_TEST_KUBERNETES") == "" {
		t.Skip("ASYNC_REPL_TEST_KUBERNETES is not set: .ci/kubernetes makes a cluster")
	}
	var volumes, mounts []object
	for i, path := range slices.Compact(slices.Sorted(slices.Values(directories))) {
		name := fmt.Sprintf("v%d", i)
		volumes = append(volumes, object{"name": name, "hostPath": object{"path": path}})
		mounts = append(mounts, object{"name": name, "mountPath": path, "readOnly": true})
	}
	main := object{"name": "main", "image": "localhost/box:1", "imagePullPolicy": "Never", "volumeMounts": mounts}
	must.Do(t, json.Unmarshal([]byte(container), &main))
	// A test that waits for the end of a pod fails if its processes take no SIGTERM.
	pod := object{"hostNetwork": true, "terminationGracePeriodSeconds": 60, "volumes": volumes, "containers": []object{main}}
	must.Do(t, json.Unmarshal([]byte(spec), &pod))
	label, value, _ := strings.Cut(Selector(t), "=")
	return must.Get(json.Marshal(object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": "box", "labels": object{label: value}}, "spec": pod}))(t)
}

// Selector selects the pods of a test.
func Selector(t testing.TB) string { return "test=" + strings.ReplaceAll(t.Name(), "/", ".") }
