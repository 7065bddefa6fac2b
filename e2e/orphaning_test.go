//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// released fails the test unless each of the children exists, has no owner, and is
// not being deleted.
func (s blockStage) released(children ...string) {
	s.Helper()
	for _, child := range children {
		out := s.kubectl("get", child, "--ignore-not-found", "-o", "json")
		if out == "" {
			s.Errorf("%s was deleted", child)
			continue
		}
		var o metav1.PartialObjectMetadata
		if err := json.Unmarshal([]byte(out), &o); err != nil {
			s.Fatal(err)
		}
		if len(o.OwnerReferences) > 0 || o.DeletionTimestamp != nil {
			s.Errorf("%s has owners %v and deletion timestamp %v", child, o.OwnerReferences, o.DeletionTimestamp)
		}
	}
}

// numbered returns n names.
func numbered(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return names
}

// TestGarbageCollector_OrphansWithoutInterference deletes objects with
// --cascade=orphan, which makes the garbage collector remove the owner references.
// If the operator restored one at that moment, the child would be deleted. So many
// objects are deleted while events of their children are reconciled.
func TestGarbageCollector_OrphansWithoutInterference(t *testing.T) {
	campaign(t, "campaign-e2e")
	t.Parallel()
	s := newBlockStage(t)
	const rounds, each = 1, 20
	for round := range rounds {
		names := numbered(fmt.Sprintf("web%d-", round), each)
		var all strings.Builder
		var children []string
		for _, name := range names {
			all.WriteString(webServerKind.manifest(name, `{image: nginx, replicas: 0, service: {type: ClusterIP}}`))
			children = append(children, "deployment/"+name, "service/"+name+"-service")
		}
		s.apply(all.String())
		for _, name := range names {
			s.serves("webserver/" + name)
		}
		labelled := make(chan error, 1)
		go func() {
			_, err := run(t.Context(), "", "kubectl", "-n", s.ns, "label", "deployments", "-l", "app.kubernetes.io/managed-by=platform-operator", "example.com/try=x", "--overwrite")
			labelled <- err
		}()
		// The labels are set one by one: the deletions begin in between.
		eventually(t, "the first label", func() error {
			out, err := run(t.Context(), "", "kubectl", "-n", s.ns, "get", "deployments", "-l", "example.com/try=x", "-o", "name")
			if err == nil && out == "" {
				err = errors.New("there is none yet")
			}
			return err
		})
		s.kubectl("delete", "webservers", "--all", "--cascade=orphan", "--timeout="+patience.String())
		if err := <-labelled; err != nil {
			t.Error(err)
		}
		// Writes that the operator was about to send are sent at the latest when it
		// reconciles the deletion.
		eventually(t, "the operator to have reconciled every deletion", func() error {
			logs := operatorLogs(t)
			for _, name := range names {
				if !slices.ContainsFunc(logs, func(l logLine) bool {
					return l.Webserver == s.ns+"/"+name && strings.HasPrefix(l.Msg, "Webserver resource not found")
				}) {
					return fmt.Errorf("not that of %s", name)
				}
			}
			return nil
		})
		s.released(children...)
		if t.Failed() {
			return
		}
		s.kubectl("delete", "deployments,services", "--all")
	}
}

// unmarked fails the test unless each of the children exists and has no trace of the
// operator.
func (s blockStage) unmarked(children ...string) {
	s.Helper()
	s.released(children...)
	for _, child := range children {
		var o metav1.PartialObjectMetadata
		if err := json.Unmarshal([]byte(s.kubectl("get", child, "-o", "json")), &o); err != nil {
			s.Fatal(err)
		}
		raw, err := json.Marshal([]any{o.Labels, o.Annotations, o.Finalizers})
		if err != nil {
			s.Fatal(err)
		}
		if strings.Contains(string(raw), operatorName) {
			s.Errorf("a mark of the operator is left on %s: %s", child, raw)
		}
	}
}

// TestDeletionPolicyOrphan_KeepsServing deletes objects whose policy was changed to Orphan, in
// each way in which Kubernetes can delete an object, and while they are paused or not. Their
// pods go on, and nothing of the operator is left. The garbage collector of Kubernetes, which
// tests without a cluster do not have, decides what happens to the children.
func TestDeletionPolicyOrphan_KeepsServing(t *testing.T) {
	t.Parallel()
	s := newBlockStage(t)
	type object struct {
		name, workload string
		children       []string
		pod            string
	}
	cascades := []string{"background", "foreground", "orphan"}
	var all strings.Builder
	objects := map[string][]object{}
	add := func(cascade string, k kind, name, spec string, children ...string) {
		all.WriteString(k.manifest(name, spec))
		objects[cascade] = append(objects[cascade], object{name: k.resource + "/" + name, workload: children[0], children: children})
	}
	for _, cascade := range cascades {
		for _, n := range []string{cascade, cascade + "-paused"} {
			add(cascade, webServerKind, "web-"+n, `{image: "nginx:1.27.4", replicas: 1, service: {type: ClusterIP}, networkPolicy: {preset: Isolated}, resources: {requests: {cpu: 5m}}}`,
				"deployment/web-"+n, "service/web-"+n+"-service", "networkpolicy/web-"+n)
			add(cascade, immortalKind, "worker-"+n, `{image: "nginx:1.27.4"}`, "pod/worker-"+n+"-immortalpod")
		}
	}
	s.apply(all.String())
	const template = `jsonpath={.metadata.uid} {.spec.template.metadata.annotations}`
	for _, cascade := range cascades {
		for i, o := range objects[cascade] {
			s.serves(o.name)
			objects[cascade][i].pod = s.kubectl("get", o.workload, "-o", template)
		}
	}
	for _, cascade := range cascades {
		for _, o := range objects[cascade] {
			if strings.HasSuffix(o.name, "-paused") {
				s.patch(o.name, `{"paused":true}`)
				s.observed(o.name)
			}
			s.patch(o.name, `{"deletionPolicy":"Orphan"}`)
		}
	}
	for _, cascade := range cascades {
		for _, o := range objects[cascade] {
			s.observed(o.name)
			s.released(o.children...) // before the deletion
		}
	}
	for _, cascade := range cascades {
		for _, o := range objects[cascade] {
			s.kubectl("delete", o.name, "--cascade="+cascade, "--timeout="+patience.String())
			s.unmarked(o.children...)
			if now := s.kubectl("get", o.workload, "-o", template); now != o.pod {
				s.Errorf("%s was replaced: %s, before %s", o.workload, now, o.pod)
			}
			if kind, _, _ := strings.Cut(o.workload, "/"); kind == "deployment" {
				s.kubectl("wait", o.workload, "--for=condition=Available", "--timeout="+patience.String())
			}
		}
	}
}
