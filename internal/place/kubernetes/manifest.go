package kubernetes

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"asyncrepl/internal/text/pattern"
)

const (
	// keyLabel is the label whose value is the key of the server that asked for a pod.
	keyLabel = "async-repl/key"
	// nameLabel is the label for the name of the allocation, as nameValue writes it.
	nameLabel = "async-repl/name"
	// nameAnnotation shows that name to a person.
	nameAnnotation = "async-repl/name"
	// defaultContainer names the container that kubectl logs and exec take if a person names none. A cluster
	// can put a container of its own before ours.
	defaultContainer = "kubectl.kubernetes.io/default-container"
)

// A pod is the file of a Pod, read. Its members that are not named here reach the cluster as they are.
type pod struct {
	object    map[string]any // the full file; never changed, and encoded again for each allocation
	base      string         // the beginning of generated names, without the "-"
	namespace string         // empty: the context's
	container string         // the name of the first container
}

// dnsName matches the names of pods, namespaces and containers. None begins with "-", so that kubectl takes
// none for an option.
var dnsName = pattern.Lazy(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// separator matches the line between two documents of YAML.
var separator = pattern.Lazy(`(?m)^---([ \t\r].*)?$`)

// read reads the file of a Pod, YAML or JSON, as kubectl would: what begins with "{" is JSON. An error is one sentence
// that a start can end with.
func read(file []byte) (*pod, error) {
	data := bytes.TrimSpace(bytes.TrimPrefix(file, []byte("\uFEFF")))
	if !bytes.HasPrefix(data, []byte("{")) {
		document, err := onlyDocument(data)
		if err != nil {
			return nil, err
		}
		if data, err = yaml.YAMLToJSONStrict(document); err != nil {
			return nil, fmt.Errorf("the file of the pod is not YAML: %s", oneLine(err))
		}
	}
	var p pod
	numbers := json.NewDecoder(bytes.NewReader(data))
	numbers.UseNumber() // an integer stays as it was written
	if err := numbers.Decode(&p.object); err != nil {
		return nil, fmt.Errorf("the file of the pod is not an object in YAML or JSON: %s", oneLine(err))
	}
	if numbers.More() {
		return nil, errors.New("the file of the pod has more than one object: leave only the Pod in it")
	}
	// A list or a Deployment would be created as such, and no container of it would be ours.
	if kind, version := p.object["kind"], p.object["apiVersion"]; kind != "Pod" || version != "v1" {
		return nil, fmt.Errorf("the file of the pod has kind %q and apiVersion %q: write a Pod of v1", word(kind), word(version))
	}
	if err := p.metadata(); err != nil {
		return nil, err
	}
	containers, err := p.containers()
	if err != nil {
		return nil, err
	}
	p.container, _ = containers[0]["name"].(string)
	if !dnsName().MatchString(p.container) {
		return nil, fmt.Errorf("the first container of the pod has name %q: give it a name of small letters, digits and \"-\"", word(containers[0]["name"]))
	}
	return &p, nil
}

// onlyDocument returns the one document of a YAML file that is not empty.
func onlyDocument(file []byte) ([]byte, error) {
	var only []byte
	begin := 0
	for _, line := range append(separator().FindAllIndex(file, -1), []int{len(file), len(file)}) {
		document := file[begin:line[0]]
		begin = line[1]
		if content, err := yaml.YAMLToJSON(document); err == nil && string(content) == "null" {
			continue
		}
		if only != nil {
			return nil, errors.New("the file of the pod has more than one document: leave only the Pod in it")
		}
		only = document
	}
	if only == nil {
		return nil, errors.New("the file of the pod is empty: write a Pod of v1 with one container")
	}
	return only, nil
}

// metadata reads the name and the namespace.
func (p *pod) metadata() error {
	metadata, err := object(p.object, "metadata")
	if err != nil {
		return err
	}
	for _, key := range []string{"labels", "annotations"} {
		if _, err := object(metadata, key); err != nil {
			return fmt.Errorf("metadata: %v", err)
		}
	}
	p.base = "async-repl"
	for _, key := range []string{"generateName", "name"} {
		switch name := metadata[key].(type) {
		case nil:
		case string:
			p.base = strings.TrimRight(name, "-.")
		default:
			return fmt.Errorf("the pod's %s is %q: write it as text", key, word(name))
		}
	}
	if !dnsName().MatchString(p.base) {
		return fmt.Errorf("the pod has name %q: use small letters, digits and \"-\"", p.base)
	}
	switch namespace := metadata["namespace"].(type) {
	case nil:
	case string:
		p.namespace = namespace
		if namespace != "" && !dnsName().MatchString(namespace) {
			return fmt.Errorf("the pod has namespace %q: use small letters, digits and \"-\"", namespace)
		}
	default:
		return fmt.Errorf("the pod's namespace is %q: write it as text", word(namespace))
	}
	return nil
}

// containers returns the containers of the pod, of which there is at least one.
func (p *pod) containers() ([]map[string]any, error) {
	spec, err := object(p.object, "spec")
	if err != nil {
		return nil, err
	}
	list, _ := spec["containers"].([]any)
	var containers []map[string]any
	for _, one := range list {
		container, ok := one.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("the pod has a container that is %q: write an object with name and image", word(one))
		}
		containers = append(containers, container)
	}
	if len(containers) == 0 {
		return nil, errors.New("the pod has no container: write spec.containers with a name and an image")
	}
	return containers, nil
}

// manifest returns the object to create, in JSON: the pod of the file with our names, and with script as the
// command of its first container.
func (p *pod) manifest(key, name, script string) ([]byte, error) {
	theirs, _ := object(p.object, "metadata")
	// What else stands in metadata is the cluster's (uid, resourceVersion), if the file is the output of
	// kubectl get.
	metadata := map[string]any{"generateName": p.base + "-"}
	if p.namespace != "" {
		metadata["namespace"] = p.namespace
	}
	labels, _ := object(theirs, "labels")
	metadata["labels"] = with(labels, map[string]any{keyLabel: key, nameLabel: nameValue(name)})
	annotations, _ := object(theirs, "annotations")
	metadata["annotations"] = with(annotations, map[string]any{nameAnnotation: name, defaultContainer: p.container})

	containers, err := p.containers()
	if err != nil {
		return nil, err
	}
	// The kubelet replaces $(NAME) by the value of a variable, and $$ by $.
	first := with(containers[0], map[string]any{"command": []string{"/bin/sh", "-c", strings.ReplaceAll(script, "$", "$$")}})
	// The probes ask for the program that the command replaces, and two of them kill what does not answer.
	for _, key := range []string{"args", "livenessProbe", "readinessProbe", "startupProbe"} {
		delete(first, key)
	}
	if first["terminationMessagePolicy"] == nil { // the state of the pod then has the last words of a script or engine that failed
		first["terminationMessagePolicy"] = "FallbackToLogsOnError"
	}
	containers[0] = first

	spec, _ := object(p.object, "spec")
	tolerations, _ := spec["tolerations"].([]any)
	spec = with(spec, map[string]any{
		"restartPolicy": "Never", // another engine would not have the variables of the first
		"containers":    containers,
		"tolerations":   tolerateLostNode(tolerations),
	})
	return json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

// nameValue returns the value of nameLabel for a name. A name can have characters that a label can't.
func nameValue(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16])
}

// tolerateLostNode returns tolerations under which a pod outlives a node that is out of reach: five minutes
// after its loss, Kubernetes otherwise deletes the pod, and the node ends it when it comes back, with its
// variables. A file that says something about such nodes has its way.
func tolerateLostNode(tolerations []any) []any {
	tolerations = tolerations[:len(tolerations):len(tolerations)]
	for _, taint := range []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"} {
		said := false
		for _, one := range tolerations {
			toleration, _ := one.(map[string]any)
			said = said || toleration["key"] == taint
		}
		if !said {
			tolerations = append(tolerations, map[string]any{"key": taint, "operator": "Exists", "effect": "NoExecute"})
		}
	}
	return tolerations
}

// object returns the object that m has under key, or none if m has nothing there.
func object(m map[string]any, key string) (map[string]any, error) {
	switch value := m[key].(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return value, nil
	default:
		return nil, fmt.Errorf("the pod's %s is %q: write an object", key, word(value))
	}
}

// with returns a copy of m in which the members of set replace those of the same name.
func with(m, set map[string]any) map[string]any {
	c := make(map[string]any, len(m)+len(set))
	for _, from := range []map[string]any{m, set} {
		for key, value := range from {
			c[key] = value
		}
	}
	return c
}

// oneLine returns the lines of a library's error as one.
func oneLine(err error) string { return line(strings.Join(strings.Fields(err.Error()), " "), 300) }

// word returns a value of the file as an error shows it.
func word(value any) string {
	if value == nil {
		return ""
	}
	return line(fmt.Sprint(value), 60)
}
