//go:build e2e

package engines

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"
)

// patience is how long a tool may take for anything.
const patience = 3 * time.Minute

const (
	mark      = "platform-operator"
	orphanOf  = "platform-operator.io/orphan-of"
	ownerUID  = "platform-operator.io/owner-uid"
	configMap = `
apiVersion: v1
kind: ConfigMap
metadata: {name: %s}
data: {index.html: %s}`
	webServer = `
apiVersion: my.domain/v1
kind: WebServer
metadata: {name: web}
spec: {image: "nginx:1.27.4", replicas: 2, service: {type: ClusterIP}, content: {configMapRef: {name: %s}}, deletionPolicy: %s, rollout: {progressDeadlineSeconds: 60, maxUnavailable: 0}}`
	reader = `
apiVersion: paas.cmft.com/v1
kind: DemoApplication
metadata: {name: app}
spec: {image: "nginx:1.27.4", replica: 2, ports: [{port: 80, targetPort: 80}], envFrom: [{configMapRef: {name: %s}}], rollout: {restartOnConfigChange: true, progressDeadlineSeconds: 60, maxUnavailable: 0}}`
	others = `
apiVersion: paas.cmft.com/v1
kind: DemoApplication
metadata: {name: app}
spec: {image: "nginx:1.27.4", ports: [{port: 80, targetPort: 80}], envFrom: [{configMapRef: {name: page}}], networkPolicy: {preset: Isolated, from: [{ipBlock: {cidr: 0.0.0.0/0}}]}, deletionPolicy: %[1]s}
---
apiVersion: immortalcontainer.flugel.it/v1alpha1
kind: ImmortalContainer
metadata: {name: worker}
spec: {image: "nginx:1.27.4", deletionPolicy: %[1]s}
---
apiVersion: cache.example.com/v1alpha1
kind: Memcached
metadata: {name: cache}
spec: {size: 1, deletionPolicy: %[1]s}`
)

// application is one object of each kind, and a ConfigMap that two of them read.
func application(policy string) string {
	return strings.Join([]string{fmt.Sprintf(configMap, "page", "first"), fmt.Sprintf(webServer, "page", policy), fmt.Sprintf(others, policy)}, "\n---")
}

// TestEngines_Prune removes applications from Git, and has each tool prune them in each way that Kubernetes knows.
func TestEngines_Prune(t *testing.T) {
	log.SetLogger(logr.Discard())
	cfg, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	all := tools(t, cfg, c)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			for _, p := range prunings() {
				if name == argoCDByLabel && !p.keeps {
					continue // how it tracks objects matters only if their children are kept
				}
				t.Run(p.name, func(t *testing.T) {
					t.Parallel()
					namespace := strings.ToLower(strings.NewReplacer(" ", "-", ",", "").Replace("prune " + name + " " + p.name))
					s := &scene{T: t, client: c, namespace: namespace, tool: all[name](namespace, p.propagation)}
					t.Cleanup(s.deleteNamespace)
					p.run(s)
				})
			}
		})
	}
}

// pruning is something that is removed from Git, and a way to delete it.
type pruning struct {
	name        string
	propagation metav1.DeletionPropagation
	// keeps reports whether the children outlive the objects.
	keeps bool
	run   func(*scene)
}

func prunings() []pruning {
	foreground := metav1.DeletePropagationForeground // the default of Argo CD
	all := []pruning{
		{"ConfigMap", foreground, false, (*scene).onlyConfigMap},
		{"renamed ConfigMap", foreground, false, (*scene).renamedConfigMap},
		{"revert", metav1.DeletePropagationBackground, false, (*scene).revert},
		{"paused", foreground, true, func(s *scene) { s.notReady("paused", true) }},
		{"missing image", foreground, true, func(s *scene) { s.notReady("image", "nginx:missing") }},
	}
	for _, policy := range []string{"Delete", "Orphan"} {
		all = append(all, pruning{"namespace " + policy, foreground, false, func(s *scene) { s.withNamespace(policy) }})
		for _, propagation := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, foreground, metav1.DeletePropagationOrphan} {
			keeps := policy == "Orphan" || propagation == metav1.DeletePropagationOrphan
			all = append(all, pruning{string(propagation) + " " + policy, propagation, keeps, func(s *scene) { s.whole(policy, keeps) }})
		}
	}
	return all
}

// scene is a namespace with an application.
type scene struct {
	*testing.T
	client    client.Client
	tool      tool
	namespace string
}

// whole prunes all objects and the ConfigMap, and applies them again if their children are kept.
func (s *scene) whole(policy string, keeps bool) {
	s.createNamespace()
	git := s.objects(application(policy))
	s.sync(git)
	s.await(git, "")
	pods := s.pods()
	transfers := s.released()
	visitors := visit(s.Context(), s.addresses()...)
	s.sync(nil)
	s.gone(git)
	if !keeps {
		visitors.leave()
		s.empty()
		return
	}
	if policy == "Orphan" {
		s.unmarked(transfers)
	}
	s.samePods("pruned", pods)
	s.sync(git)
	if policy == "Orphan" {
		s.await(git, "Conflict")
		s.samePods("applied again", pods)
		s.transfer(git, transfers)
	}
	s.await(git, "")
	s.samePods("adopted", pods)
	s.served(visitors)
}

// withNamespace prunes the namespace too.
func (s *scene) withNamespace(policy string) {
	git := s.objects(application(policy) + "\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: " + s.namespace + "}")
	s.sync(git)
	s.await(git, "")
	s.sync(nil)
	s.gone(git)
}

// revert prunes all, and applies it again while the earlier children are being deleted, as the revert of a commit does.
func (s *scene) revert() {
	s.createNamespace()
	git := s.objects(application("Delete"))
	s.sync(git)
	s.await(git, "")
	before := s.pods()
	s.sync(nil)
	s.sync(git)
	s.await(git, "")
	for name, uid := range s.pods() {
		if before[name] == uid {
			s.Errorf("pod %s belongs to an earlier object", name)
		}
	}
}

// onlyConfigMap prunes the ConfigMap that the WebServer still refers to, and applies it again.
func (s *scene) onlyConfigMap() {
	s.createNamespace()
	git := s.objects(fmt.Sprintf(configMap, "page", "first") + "\n---" + fmt.Sprintf(webServer, "page", "Delete"))
	s.sync(git)
	s.await(git, "")
	pods := s.pods()
	visitors := visit(s.Context(), s.addresses()...)
	s.sync(git[1:])
	s.await(git, "ReferenceNotFound")
	s.samePods("pruned", pods)
	s.replaceAPod("web")
	pods = s.pods()
	s.sync(git)
	s.await(git, "")
	s.samePods("applied again", pods)
	s.served(visitors)
}

// renamedConfigMap changes a ConfigMap together with its name, as a generator of kustomize does, so that the same
// synchronization prunes the earlier one; the image of that change does not exist.
func (s *scene) renamedConfigMap() {
	s.createNamespace()
	named := func(name string) []*unstructured.Unstructured {
		return s.objects(strings.Join([]string{fmt.Sprintf(configMap, name, name), fmt.Sprintf(webServer, name, "Delete"), fmt.Sprintf(reader, name)}, "\n---"))
	}
	git := named("page-2")
	s.sync(named("page-1"))
	s.await(git, "")
	for _, o := range git[1:] {
		s.kubectl("wait", resource(o), "--for=jsonpath={.status.revisions.lastHealthy}=1", "--timeout="+patience.String())
	}
	visitors := visit(s.Context(), s.addresses()...)
	for _, step := range []struct{ image, reason string }{{"nginx:missing", "RolledBack"}, {"nginx:1.27.4", ""}} {
		for _, o := range git[1:] {
			o.Object["spec"].(map[string]any)["image"] = step.image
		}
		s.sync(git)
		s.await(git, step.reason)
		s.replaceAPod("web")
		s.replaceAPod("app")
	}
	s.served(visitors)
}

// replaceAPod deletes a pod of the Deployment, and waits for its replacement.
func (s *scene) replaceAPod(deployment string) {
	s.Helper()
	pods := slices.Sorted(maps.Keys(s.pods()))
	s.kubectl("delete", "pod", pods[slices.IndexFunc(pods, func(pod string) bool { return strings.HasPrefix(pod, deployment+"-") })])
	s.kubectl("rollout", "status", "deployment/"+deployment, "--timeout="+patience.String())
}

// notReady prunes a WebServer whose children are to be kept, together with its ConfigMap, in a state in which it is not
// reconciled as usual.
func (s *scene) notReady(field string, value any) {
	s.createNamespace()
	git := s.objects(fmt.Sprintf(configMap, "page", "first") + "\n---" + fmt.Sprintf(webServer, "page", "Orphan"))
	s.sync(git)
	s.await(git, "")
	pods := s.pods()
	transfers := s.released()
	visitors := visit(s.Context(), s.addresses()...)
	git[1].Object["spec"].(map[string]any)[field] = value
	s.sync(git)
	s.sync(nil)
	s.gone(git)
	s.unmarked(transfers)
	now := s.pods()
	maps.DeleteFunc(now, func(name, _ string) bool { return pods[name] == "" }) // one with the missing image
	if !maps.Equal(pods, now) {
		s.Errorf("of the pods %v only %v are left", pods, now)
	}
	s.served(visitors)
}

func (s *scene) objects(text string) []*unstructured.Unstructured {
	s.Helper()
	var all []*unstructured.Unstructured
	for part := range strings.SplitSeq(text, "\n---") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(part), &o.Object); err != nil {
			s.Fatal(err)
		}
		if o.GetKind() != "Namespace" {
			o.SetNamespace(s.namespace)
		}
		all = append(all, o)
	}
	return all
}

func (s *scene) createNamespace() {
	s.Helper()
	s.kubectl("create", "namespace", s.namespace)
}

func (s *scene) deleteNamespace() {
	if err := kubectl(context.WithoutCancel(s.Context()), nil, "delete", "namespace", s.namespace, "--ignore-not-found", "--timeout="+patience.String()); err != nil {
		s.Errorf("%s: %v", s.namespace, err)
	}
}

func (s *scene) kubectl(args ...string) string {
	s.Helper()
	var out, errs strings.Builder
	cmd := exec.CommandContext(s.Context(), "kubectl", append([]string{"-n", s.namespace}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		s.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, errs.String())
	}
	return out.String()
}

// sync fails the test if the tool does not finish.
func (s *scene) sync(git []*unstructured.Unstructured) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	began := time.Now()
	if err := s.tool.sync(ctx, git); err != nil {
		s.Fatalf("synchronizing %d objects, after %s: %v", len(git), time.Since(began).Round(time.Second), err)
	}
	s.Logf("synchronized %d objects in %s", len(git), time.Since(began).Round(100*time.Millisecond))
}

// await waits until each object of our kinds is Ready, or has the reason.
func (s *scene) await(git []*unstructured.Unstructured, reason string) {
	s.Helper()
	for _, o := range git {
		if _, ours := o.Object["spec"]; ours {
			walk{T: s.T, client: s.client, file: o.GetName(), git: o}.await(reason)
		}
	}
}

// gone fails the test unless the pruned objects are deleted soon. Argo CD finishes when their deletion has begun, and
// shows an application as OutOfSync until it has ended.
func (s *scene) gone(git []*unstructured.Unstructured) {
	s.Helper()
	began := time.Now()
	for _, o := range git {
		for live := o.DeepCopy(); ; time.Sleep(200 * time.Millisecond) {
			err := s.client.Get(s.Context(), client.ObjectKeyFromObject(o), live)
			if apierrors.IsNotFound(err) {
				break
			}
			if err != nil || time.Since(began) > patience {
				s.Fatalf("%s %s was deleted at %v, and has the finalizers %v: %v", o.GetKind(), o.GetName(), live.GetDeletionTimestamp(), live.GetFinalizers(), err)
			}
		}
	}
	s.Logf("deleted %s after the tool had finished", time.Since(began).Round(100*time.Millisecond))
}

// listed are the kinds of all namespaced objects that can be listed.
func (s *scene) listed() []unstructured.Unstructured {
	s.Helper()
	kinds := slices.DeleteFunc(strings.Fields(s.kubectl("api-resources", "--namespaced", "--verbs=list", "-o", "name")), func(kind string) bool {
		return strings.HasPrefix(kind, "events") || strings.HasSuffix(kind, ".metrics.k8s.io")
	})
	var list unstructured.UnstructuredList
	if err := json.Unmarshal([]byte(s.kubectl("get", strings.Join(kinds, ","), "-o", "json")), &list); err != nil {
		s.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(o unstructured.Unstructured) bool {
		return o.GetName() == "kube-root-ca.crt" || o.GetKind() == "ServiceAccount" && o.GetName() == "default"
	})
}

// empty fails the test unless all objects of the namespace are deleted soon.
func (s *scene) empty() {
	s.Helper()
	began := time.Now()
	for deadline := began.Add(patience); ; time.Sleep(time.Second) {
		left := s.listed()
		if len(left) == 0 {
			s.Logf("nothing was left %s after the tool had finished", time.Since(began).Round(time.Second))
			return
		}
		if time.Now().After(deadline) {
			for _, o := range left {
				s.Errorf("%s %s is left", o.GetKind(), o.GetName())
			}
			return
		}
	}
}

// released returns the children that outlive their object, with its kind, group and name.
func (s *scene) released() map[string]string {
	s.Helper()
	all := map[string]string{}
	for _, o := range s.listed() {
		// Kubernetes copies the annotations of a Deployment to its ReplicaSets.
		if of := o.GetAnnotations()[orphanOf]; of != "" && metav1.GetControllerOfNoCopy(&o) == nil {
			all[resource(&o)] = of
		}
	}
	return all
}

func resource(o *unstructured.Unstructured) string {
	kind := strings.ToLower(o.GetKind())
	if group := o.GroupVersionKind().Group; group != "" {
		kind += "." + group
	}
	return kind + "/" + o.GetName()
}

// unmarked fails the test unless each of the released children exists and has no trace of the operator.
func (s *scene) unmarked(children map[string]string) {
	s.Helper()
	if len(children) == 0 {
		s.Error("there are no released children")
	}
	for child := range children {
		var o metav1.PartialObjectMetadata
		if err := json.Unmarshal([]byte(s.kubectl("get", child, "-o", "json")), &o); err != nil {
			s.Fatal(err)
		}
		raw, err := json.Marshal([]any{o.Labels, o.Annotations, o.Finalizers, o.OwnerReferences})
		if err != nil || strings.Contains(string(raw), mark) {
			s.Errorf("a mark of the operator is left on %s: %s %v", child, raw, err)
		}
	}
}

// transfer annotates the released children with the UIDs of their new owners, as docs/api/common.md says.
func (s *scene) transfer(git []*unstructured.Unstructured, children map[string]string) {
	s.Helper()
	for child, of := range children {
		for _, o := range git {
			if of == o.GetKind()+"."+o.GroupVersionKind().Group+"/"+o.GetName() {
				s.kubectl("annotate", "--overwrite", child, ownerUID+"="+s.kubectl("get", resource(o), "-o", "jsonpath={.metadata.uid}"))
			}
		}
	}
}

// pods returns the UIDs of the pods that are not being deleted.
func (s *scene) pods() map[string]string {
	s.Helper()
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal([]byte(s.kubectl("get", "pods", "-o", "json")), &list); err != nil {
		s.Fatal(err)
	}
	all := map[string]string{}
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			all[p.Name] = string(p.UID)
		}
	}
	return all
}

func (s *scene) samePods(when string, before map[string]string) {
	s.Helper()
	if now := s.pods(); !maps.Equal(before, now) {
		s.Errorf("%s: the pods are %v, before %v", when, now, before)
	}
}

// addresses returns those of the Services with an address of their own, and of the pods without one.
func (s *scene) addresses() []string {
	s.Helper()
	var all []string
	for line := range strings.FieldsSeq(s.kubectl("get", "services", "-o", `jsonpath={range .items[*]}{.spec.clusterIP}{":"}{.spec.ports[0].port}{"\n"}{end}`)) {
		if !strings.HasPrefix(line, "None") {
			all = append(all, line)
		}
	}
	for selector, port := range map[string]string{"app=memcached": ":11211", "app=worker": ":80"} {
		for ip := range strings.FieldsSeq(s.kubectl("get", "pods", "-l", selector, "-o", `jsonpath={range .items[*]}{.status.podIP}{"\n"}{end}`)) {
			all = append(all, ip+port)
		}
	}
	return all
}

// served fails the test if a request failed.
func (s *scene) served(v *visitors) {
	s.Helper()
	time.Sleep(2 * time.Second)
	answered, failed := v.leave()
	s.Logf("%d requests were answered, %d failed", answered, len(failed))
	if answered == 0 {
		s.Error("no request was answered")
	}
	if len(failed) > 0 {
		s.Errorf("%d requests failed, first: %s", len(failed), strings.Join(failed[:min(5, len(failed))], "\n"))
	}
}
