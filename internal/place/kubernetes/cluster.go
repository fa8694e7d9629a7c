package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"asyncrepl/internal/place/allocation"
	"asyncrepl/internal/text/pattern"
)

// patience bounds one request of kubectl to the API server. Without it, kubectl waits for ever for a server
// that takes the connection and does not answer.
const patience = "--request-timeout=20s"

// A Cluster gets pods for one place. Its methods can be called concurrently.
type Cluster struct {
	run allocation.Run
	key string
	pod *pod

	mu      sync.Mutex
	known   bool   // context is known
	context string // kubectl's context when the first pod was asked for; empty: kubectl has no context, as in a pod
	// deleted has the ends of pods that were seen while they were being deleted, by their ids. Most of them are gone
	// before they are seen to have ended.
	deleted map[string]string
}

// labelValue matches the values of labels.
var labelValue = pattern.Lazy(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)

// New returns a Cluster whose pods are as file says, and bear key as a label. Its kubectl is run by run.
func New(file []byte, key string, run allocation.Run) (*Cluster, error) {
	if !labelValue().MatchString(key) {
		return nil, fmt.Errorf("the key %q can't be a label", key)
	}
	pod, err := read(file)
	if err != nil {
		return nil, err
	}
	return &Cluster{run: run, key: key, pod: pod, deleted: make(map[string]string)}, nil
}

// Allocate creates a pod whose first container runs engine, and returns its id. It does not wait until the
// pod runs. The name is that of the allocation in the server that asks.
//
// If ctx ends, or the API server is lost, it is not known whether there is a pod. If the API server refuses it, there
// is none, and the error says so. Release with an empty id
// deletes it then. Without that, it ends by itself when it has run for engine.Idle.
func (c *Cluster) Allocate(ctx context.Context, name string, engine allocation.Engine) (id string, err error) {
	manifest, err := c.pod.manifest(c.key, name, script(engine))
	if err != nil {
		return "", err
	}
	at, err := c.here(ctx)
	if err != nil {
		return "", err
	}
	// The namespace is in the answer, because that of the context can change, as the context can.
	out, err := c.run(ctx, at.kubectl("create", "-f", "-", patience, "-o", "jsonpath={.metadata.namespace}/{.metadata.name}"), string(manifest))
	if err != nil {
		return "", explained(err)
	}
	var named bool
	at.container = c.pod.container
	at.namespace, at.pod, named = strings.Cut(strings.TrimSpace(out), "/")
	if !named || !dnsName().MatchString(at.namespace) || !dnsName().MatchString(at.pod) {
		return "", fmt.Errorf("kubectl create printed no name of a pod: %q", line(out, 100))
	}
	return at.id(), nil
}

// here returns where pods are created: in the namespace of the file, if it names one, and in the context in
// which kubectl works when here is called for the first time.
func (c *Cluster) here(ctx context.Context) (place, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := place{namespace: c.pod.namespace, context: c.context}
	if c.known {
		return at, nil
	}
	out, err := c.run(ctx, []string{"kubectl", "config", "current-context"}, "")
	var failed *allocation.Error
	if errors.As(err, &failed) && strings.Contains(failed.Text, "current-context is not set") {
		out, err = "", nil // in a pod, kubectl has the rights of the pod
	}
	if err != nil {
		return at, explained(err)
	}
	c.context, c.known = strings.TrimSpace(out), true
	at.context = c.context
	return at, nil
}

// States returns the states of pods by their ids. It asks once for all pods of a context and namespace.
func (c *Cluster) States(ctx context.Context, ids []string) (map[string]allocation.State, error) {
	together := make(map[place][]string) // ids by where they are
	for _, id := range ids {
		at, err := parse(id)
		if err != nil {
			return nil, err
		}
		at.pod, at.container = "", ""
		together[at] = append(together[at], id)
	}
	all := make(map[string]allocation.State, len(ids))
	for at, ids := range together {
		out, err := c.run(ctx, at.kubectl("get", "pods", "-l", c.selector(), patience, "-o", "json"), "")
		if err != nil {
			return nil, explained(err)
		}
		pods, err := states(out)
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		for _, id := range ids {
			at, _ := parse(id)
			pod, known := pods[at.pod]
			if known {
				all[id] = pod.state(at.container)
				if !pod.Metadata.Deletion.IsZero() {
					c.deleted[id] = pod.end(at.container)
				}
				continue
			}
			s := allocation.State{Phase: allocation.Unknown, Text: "pod " + at.pod,
				End: "Kubernetes no longer knows pod " + at.pod + "; how it ended is unknown"}
			if end := c.deleted[id]; end != "" {
				s.Phase, s.End = allocation.Ended, end
			}
			delete(c.deleted, id)
			all[id] = s
		}
		c.mu.Unlock()
	}
	return all, nil
}

// Carrier returns a command that runs the command appended to it in the container of a pod. It is nil if id
// is not that of a pod.
func (c *Cluster) Carrier(id string) []string {
	at, err := parse(id)
	if err != nil {
		return nil
	}
	return at.kubectl("exec", "-i", at.pod, "-c", at.container, "--")
}

// Release deletes a pod, if it is the one that Allocate created for name, and does not wait for its end. It
// is no error if there is none. An empty id stands for each pod that Allocate has created for name.
func (c *Cluster) Release(ctx context.Context, id, name string) error {
	var at place
	var err error
	if id == "" {
		at, err = c.here(ctx)
	} else {
		at, err = parse(id)
	}
	if err != nil {
		return err
	}
	argv := at.kubectl("delete", "pods", "-l", c.selector()+","+nameLabel+"="+nameValue(name), "--wait=false", patience)
	if id != "" {
		argv = append(argv, "--field-selector", "metadata.name="+at.pod)
	}
	_, err = c.run(ctx, argv, "")
	return explained(err)
}

func (c *Cluster) selector() string { return keyLabel + "=" + c.key }
