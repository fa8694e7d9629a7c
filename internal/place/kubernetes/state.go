package kubernetes

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"asyncrepl/internal/place/allocation"
	"asyncrepl/internal/text/view"
)

// textChars bounds the words of a cluster in one line.
const textChars = 400

// line returns words of a cluster as a part of a line of ours.
func line(s string, limit int) string { return view.Line(s, limit) }

// An answer is what kubectl get pods -o json prints, as far as package kubernetes reads it.
// https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#PodStatus
type answer struct {
	Items []status `json:"items"`
}

type status struct {
	Metadata struct {
		Name     string    `json:"name"`
		Deletion time.Time `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		Node     string `json:"nodeName"`
		Deadline int64  `json:"activeDeadlineSeconds"`
	} `json:"spec"`
	Status struct {
		Phase      string      `json:"phase"`
		Reason     string      `json:"reason"`
		Message    string      `json:"message"`
		Start      time.Time   `json:"startTime"`
		Conditions []condition `json:"conditions"`
		Init       []container `json:"initContainerStatuses"`
		Containers []container `json:"containerStatuses"`
	} `json:"status"`
}

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type container struct {
	Name  string `json:"name"`
	State struct {
		Waiting    *words    `json:"waiting"`
		Running    *struct{} `json:"running"`
		Terminated *words    `json:"terminated"`
	} `json:"state"`
}

// words are a reason in one word and what it means here.
type words struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Code    int    `json:"exitCode"`
}

func (w words) String() string {
	if w.Message == "" {
		return w.Reason
	}
	return w.Reason + ": " + w.Message
}

// states reads an answer about all pods of a key in a namespace.
func states(data string) (map[string]status, error) {
	var a answer
	if err := json.Unmarshal([]byte(data), &a); err != nil {
		return nil, fmt.Errorf("kubectl get pods printed no list of pods: %s", line(err.Error(), textChars))
	}
	pods := make(map[string]status, len(a.Items))
	for _, pod := range a.Items {
		pods[pod.Metadata.Name] = pod
	}
	return pods, nil
}

// state returns what a pod's status means for the engine in its container of that name.
func (p *status) state(name string) allocation.State {
	pod := "pod " + line(p.Metadata.Name, textChars)
	node := line(p.Spec.Node, textChars)
	s := allocation.State{Text: pod, Node: node, Start: p.Status.Start}
	if p.Spec.Deadline > 0 && !s.Start.IsZero() {
		s.Deadline = s.Start.Add(time.Duration(min(p.Spec.Deadline, maxDeadline)) * time.Second)
	}
	if node != "" {
		s.Text += ", node " + node
	}
	engine := find(p.Status.Containers, name)
	switch {
	case engine.State.Terminated != nil || p.Status.Phase == "Failed" || p.Status.Phase == "Succeeded":
		s.Phase, s.End, s.Remains = allocation.Ended, p.end(name), true
	case p.Status.Phase == "Unknown" || p.nodeLost():
		s.Phase = allocation.Cut
		s.Text += ", which Kubernetes does not reach"
	case engine.State.Running != nil:
		s.Phase = allocation.Running
		if !p.Metadata.Deletion.IsZero() {
			s.Text += ", which is being deleted"
		}
	default:
		s.Phase = allocation.Pending
		s.Text = line(pod+", "+p.waiting(engine), textChars)
	}
	return s
}

// maxDeadline keeps the sum of times in their range: a hundred years.
const maxDeadline = 100 * 365 * 24 * 3600

// nodeLost reports whether the node of a running pod is out of reach. Kubernetes then sets the pod's
// condition Ready to false and leaves that of its containers, of which it knows nothing new. A gate of the
// person's own makes the same difference, with a reason.
func (p *status) nodeLost() bool {
	ready, containers := p.condition("Ready"), p.condition("ContainersReady")
	return ready.Status == "False" && ready.Reason == "" && containers.Status == "True"
}

// waiting returns why a pod does not run yet, in the words of the scheduler or of the kubelet.
func (p *status) waiting(engine container) string {
	if scheduled := p.condition("PodScheduled"); scheduled.Status == "False" {
		return words{Reason: scheduled.Reason, Message: scheduled.Message}.String()
	}
	for _, init := range p.Status.Init {
		if w := init.State.Waiting; w != nil && w.Reason != "PodInitializing" {
			return "init container " + init.Name + ": " + w.String()
		}
	}
	if w := engine.State.Waiting; w != nil && w.Reason != "" {
		return w.String()
	}
	return "Pending"
}

// end returns why the engine in the container of that name has ended, or will have if the pod is being deleted.
func (p *status) end(name string) string {
	pod, node := "pod "+line(p.Metadata.Name, textChars), line(p.Spec.Node, textChars)
	engine := find(p.Status.Containers, name)
	disruption := p.condition("DisruptionTarget")
	switch {
	case p.Status.Reason == "DeadlineExceeded":
		return "allocation's time limit"
	case p.Status.Reason == "NodeLost" || disruption.Reason == "DeletionByPodGC":
		reason := p.Status.Reason
		if reason == "" {
			reason = disruption.Reason
		}
		return line("node "+node+" lost: Kubernetes "+reason, textChars)
	case p.Status.Reason != "": // Evicted, Terminated, OutOfcpu
		return line(pod+" ended: "+words{Reason: p.Status.Reason, Message: p.Status.Message}.String(), textChars)
	}
	if engine.State.Terminated == nil {
		for _, init := range p.Status.Init {
			if t := init.State.Terminated; t != nil && t.Code != 0 {
				return line(pod+" ended: init container "+init.Name+": "+t.exit(), textChars)
			}
		}
	}
	if disruption.Status == "True" {
		return line(pod+" ended: "+words{Reason: disruption.Reason, Message: disruption.Message}.String(), textChars)
	}
	t := engine.State.Terminated
	switch {
	case !p.Metadata.Deletion.IsZero() && (t == nil || t.Reason != "OOMKilled"): // by SIGTERM, or SIGKILL when its time was over
		return pod + " ended: deleted"
	case t == nil:
		return pod + " ended: " + line(p.Status.Phase, textChars)
	}
	return line(pod+" ended: "+t.exit(), textChars)
}

// exit returns how a container ended. The reasons OOMKilled and Completed say all that their status would. What a
// container that was killed had printed before does not say why.
func (w words) exit() string {
	text := w.Reason
	if text == "" {
		text = "Error"
	}
	if text != "OOMKilled" && w.Code != 0 {
		text += fmt.Sprintf(", exit status %d", w.Code)
	}
	if text == "OOMKilled" || w.Code > startError {
		return text
	}
	return words{Reason: text, Message: lastLines(w.Message)}.String()
}

// startError is the status of a container that could not be started. A signal is the difference to a higher one.
const startError = 128

// lastLines returns the last lines of a message as one.
func lastLines(message string) string {
	var lines []string
	for line := range strings.Lines(message) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}

func (p *status) condition(kind string) condition {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return condition{}
}

func find(containers []container, name string) container {
	for _, c := range containers {
		if c.Name == name {
			return c
		}
	}
	return container{}
}
