package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

const (
	phaseRequests = "requests"
	// sample is how many objects each operation is done with, one after the other.
	sample = 20
	// restFor is how long requests are counted while nothing changes.
	restFor = 20 * time.Second

	firstImage, secondImage, thirdImage = "nginx:1.27.3", "nginx:1.27.4", "nginx:1.23.1"
)

// requestResults are counts of the operator's requests, from the audit log.
type requestResults struct {
	Operations []operation
	// Rest is how many requests were sent in restFor, without the Lease.
	Rest int
	// RestartObjects is how many objects existed at the restart, and RestartWrites how
	// many children and statuses it wrote.
	RestartObjects, RestartWrites int
	// Shared objects refer to one ConfigMap. Its data was changed, and then only its
	// annotations.
	Shared             int
	Changed, Annotated counts
	// ChangedReads and AnnotatedReads are reads of that ConfigMap.
	ChangedReads, AnnotatedReads int
}

// operation is what one operation on one object costs.
type operation struct {
	Name    string
	Objects int
	// Distinct is how many different children were written, in total.
	Distinct int
	Counts   counts
}

// counts are requests by their purpose.
type counts struct {
	Children, Status, Events, Reads int
	// Refused are the requests among them that were not successful.
	Refused int
}

func (c counts) sum() int { return c.Children + c.Status + c.Events + c.Reads }

// request is a line of the audit log.
type request struct {
	Verb string
	User struct{ Username string }
	// RequestURI is the only field of a request that concerns no resource.
	RequestURI string
	ObjectRef  struct{ Resource, Subresource, Namespace, Name, APIGroup string }

	ResponseStatus struct{ Code int }
}

func (r request) write() bool {
	switch r.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

func auditLog() string {
	return filepath.Join(filepath.Dir(os.Getenv("KUBECONFIG")), "audit", "audit.log")
}

// record returns the requests of the operator while do runs and until it is idle.
func (l *lab) record(ctx context.Context, do func() error) ([]request, error) {
	if err := quiet(ctx, l.current.pid()); err != nil {
		return nil, err
	}
	info, err := os.Stat(auditLog())
	if err != nil {
		return nil, fmt.Errorf("looking for the audit log: %w", err)
	}
	if err := do(); err != nil {
		return nil, err
	}
	if err := quiet(ctx, l.current.pid()); err != nil {
		return nil, err
	}
	return readAudit(info.Size())
}

func readAudit(offset int64) ([]request, error) {
	f, err := os.Open(auditLog())
	if err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() < offset {
		return nil, fmt.Errorf("the audit log was rotated: %w", err)
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	return parseAudit(f)
}

// parseAudit returns the requests of the operator, except for those for its Lease.
func parseAudit(log io.Reader) ([]request, error) {
	var found []request
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return found, nil // a line without an end is still being written
		}
		if err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		if r.User.Username == "system:serviceaccount:"+operatorNamespace+":"+operatorAccount && r.ObjectRef.Resource != "leases" {
			found = append(found, r)
		}
	}
}

// count sorts the requests for objects of the namespace by their purpose.
func count(requests []request, namespace string) (c counts, distinct int) {
	children := map[string]bool{}
	for _, r := range requests {
		if r.ObjectRef.Namespace != namespace || r.Verb == "watch" || r.Verb == "list" {
			continue
		}
		if r.ResponseStatus.Code >= 400 {
			c.Refused++
		}
		switch ref := r.ObjectRef; {
		case ref.Resource == "events":
			c.Events++
		case !r.write():
			c.Reads++
		case ref.Subresource == "status" && ref.Resource != "pods":
			c.Status++
		default:
			c.Children++
			children[ref.Resource+"/"+ref.Name] = true
		}
	}
	return c, len(children)
}

// resource is a kind with the smallest spec that has a number of replicas.
type resource struct {
	kind string
	gvr  schema.GroupVersionResource
	spec func(replicas int64) map[string]any
}

// object returns an object of the kind.
func (r resource) object(namespace, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": r.gvr.GroupVersion().String(), "kind": r.kind,
		"metadata": map[string]any{"namespace": namespace, "name": name}, "spec": spec,
	}}
}

func kinds() (web, cache, application, immortal resource) {
	web = resource{"WebServer", webServers, func(n int64) map[string]any {
		return map[string]any{"image": firstImage, "replicas": n, "service": map[string]any{"type": "ClusterIP"}}
	}}
	cache = resource{"Memcached", memcacheds, func(n int64) map[string]any { return map[string]any{"size": n} }}
	application = resource{"DemoApplication", applications, func(n int64) map[string]any {
		return map[string]any{"replica": n, "image": firstImage, "ports": []any{map[string]any{"port": int64(80), "targetPort": int64(80)}}}
	}}
	immortal = resource{"ImmortalContainer", immortals, func(int64) map[string]any { return map[string]any{"image": firstImage} }}
	return web, cache, application, immortal
}

func (l *lab) createSpec(ctx context.Context, of resource, namespace, name string, spec map[string]any) error {
	_, err := l.client.Resource(of.gvr).Namespace(namespace).Create(ctx, of.object(namespace, name, spec), metav1.CreateOptions{})
	return err
}

// step is an operation that is done with each object of a kind.
type step struct {
	name string
	kind schema.GroupVersionResource
	do   func(ctx context.Context, namespace, name string) error
}

func (l *lab) steps() []step {
	web, cache, application, immortal := kinds()
	create := func(name string, of resource, spec map[string]any) step {
		return step{"create " + name, of.gvr, func(ctx context.Context, ns, name string) error {
			return l.createSpec(ctx, of, ns, name, spec)
		}}
	}
	patch := func(spec string) func(context.Context, string, string) error {
		return func(ctx context.Context, ns, name string) error {
			return l.patch(ctx, webServers, ns, name, `{"spec":`+spec+`}`)
		}
	}
	return []step{
		create("WebServer, ClusterIP", web, web.spec(1)),
		{"change its image", webServers, patch(`{"image":"` + secondImage + `"}`)},
		{"scale it from 1 to 2", webServers, patch(`{"replicas":2}`)},
		{"scale it from 2 to 3", webServers, patch(`{"replicas":3}`)},
		create("WebServer, default NodePort", web, map[string]any{"image": firstImage, "replicas": int64(1)}),
		create(cache.kind, cache, cache.spec(1)),
		create(application.kind, application, application.spec(1)),
		create(immortal.kind, immortal, immortal.spec(1)),
	}
}

func (l *lab) patch(ctx context.Context, gvr schema.GroupVersionResource, namespace, name, patch string) error {
	_, err := l.client.Resource(gvr).Namespace(namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

func webServer(namespace, name string) *unstructured.Unstructured {
	web, _, _, _ := kinds()
	return web.object(namespace, name, web.spec(1))
}

// measureRequests counts requests. Objects are changed one after the other, and each
// is Ready before the next one is changed.
func (l *lab) measureRequests(ctx context.Context) error {
	r := &requestResults{}
	l.results.Requests = r
	namespace := ""
	for i, s := range l.steps() {
		if strings.HasPrefix(s.name, "create") {
			namespace = fmt.Sprintf("requests-%d", i)
			if err := l.namespace(ctx, namespace); err != nil {
				return err
			}
			r.RestartObjects += sample
		}
		requests, err := l.record(ctx, func() error { return l.each(ctx, s, namespace) })
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		c, distinct := count(requests, namespace)
		r.Operations = append(r.Operations, operation{Name: s.name, Objects: sample, Distinct: distinct, Counts: c})
		logf("%s: %.2f children, %.2f status, %.2f events, %.2f reads, %.2f refused", s.name,
			per(c.Children, sample), per(c.Status, sample), per(c.Events, sample), per(c.Reads, sample), per(c.Refused, sample))
	}
	if err := l.deleteSample(ctx, r); err != nil {
		return err
	}
	if err := l.shareConfigMap(ctx, r); err != nil {
		return err
	}
	requests, err := l.record(ctx, func() error { return sleep(ctx, restFor) })
	if err != nil {
		return err
	}
	r.Rest = len(requests)
	requests, err = l.record(ctx, func() error {
		if err := l.stop(l.current); err != nil {
			return err
		}
		l.current, err = l.start(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	for _, q := range requests {
		if q.write() && q.ObjectRef.Namespace != operatorNamespace && q.ObjectRef.Namespace != "" && q.ObjectRef.Resource != "events" {
			r.RestartWrites++
		}
	}
	logf("at rest: %d requests; restart with %d objects: %d writes", r.Rest, r.RestartObjects, r.RestartWrites)
	return nil
}

// each does the step with one object after the other.
func (l *lab) each(ctx context.Context, s step, namespace string) error {
	for i := range sample {
		name := fmt.Sprintf("o%d", i)
		began := time.Now()
		if err := s.do(ctx, namespace, name); err != nil {
			return err
		}
		err := wait(ctx, patience, name+" to become Ready", func() bool {
			o, _ := l.seen.get(id{s.kind, namespace, name})
			return o.ready && o.readyAt.After(began)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// deleteSample deletes the WebServers that were changed.
func (l *lab) deleteSample(ctx context.Context, r *requestResults) error {
	const namespace = "requests-0" // WebServers
	requests, err := l.record(ctx, func() error {
		for i := range sample {
			name := fmt.Sprintf("o%d", i)
			if err := l.client.Resource(webServers).Namespace(namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				return err
			}
			err := wait(ctx, patience, name+" to be deleted", func() bool {
				_, exists := l.seen.get(id{deployments, namespace, name})
				return !exists
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	c, distinct := count(requests, namespace)
	r.Operations = append(r.Operations, operation{Name: "delete WebServer", Objects: sample, Distinct: distinct, Counts: c})
	r.RestartObjects -= sample
	return nil
}

// shareConfigMap changes a ConfigMap to which many WebServers refer.
func (l *lab) shareConfigMap(ctx context.Context, r *requestResults) error {
	const namespace = "shared"
	r.Shared = l.shared
	r.RestartObjects += l.shared
	if err := l.namespace(ctx, namespace); err != nil {
		return err
	}
	server := func(port int) string { return fmt.Sprintf("server { listen 80; set $answer %d; }", port) }
	_, err := l.client.Resource(configMaps).Namespace(namespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": namespace, "name": "shared"},
		"data": map[string]any{"site.conf": server(1)},
	}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating the shared ConfigMap: %w", err)
	}
	var keys []id
	for i := range l.shared {
		o := webServer(namespace, fmt.Sprintf("o%d", i))
		o.Object["spec"].(map[string]any)["config"] = map[string]any{"configMapRef": map[string]any{"name": "shared", "key": "site.conf"}}
		if _, err := l.client.Resource(webServers).Namespace(namespace).Create(ctx, o, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating a WebServer: %w", err)
		}
		keys = append(keys, id{webServers, namespace, o.GetName()})
	}
	ready := func() bool { _, ok := l.seen.readyTimes(keys); return ok }
	if err := wait(ctx, patience, "the objects that share a ConfigMap", ready); err != nil {
		return err
	}
	for _, c := range []struct {
		patch  string
		counts *counts
		reads  *int
	}{
		{`{"data":{"site.conf":"` + server(2) + `"}}`, &r.Changed, &r.ChangedReads},
		{`{"metadata":{"annotations":{"example.com/note":"changed"}}}`, &r.Annotated, &r.AnnotatedReads},
	} {
		requests, err := l.record(ctx, func() error {
			if err := l.patch(ctx, configMaps, namespace, "shared", c.patch); err != nil {
				return err
			}
			// The rollouts begin within this time, and the operator is busy until they end.
			if err := sleep(ctx, time.Second); err != nil {
				return err
			}
			return wait(ctx, patience, "the objects that share a ConfigMap", ready)
		})
		if err != nil {
			return err
		}
		*c.counts, _ = count(requests, namespace)
		for _, q := range requests {
			if q.ObjectRef.Resource == "configmaps" && q.ObjectRef.Name == "shared" && q.Verb == "get" {
				*c.reads++
			}
		}
		logf("ConfigMap of %d objects: %d requests, %d reads of it", l.shared, c.counts.sum(), *c.reads)
	}
	return nil
}

func per(n, of int) float64 { return float64(n) / float64(max(of, 1)) }

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
