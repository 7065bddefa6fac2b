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
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// sample is how many objects each operation is done with, one after the other, and
	// how many refer to the shared ConfigMap.
	sample = 20
	// restFor is how long requests are counted while nothing changes.
	restFor = 20 * time.Second

	firstImage, secondImage = "nginx:1.27.3", "nginx:1.27.4"
)

// operation is what one operation on each of the objects costs.
type operation struct {
	Name string
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
	Verb      string
	User      struct{ Username string }
	ObjectRef struct{ Resource, Subresource, Namespace, Name string }

	ResponseStatus struct{ Code int }
}

func (r request) write() bool { return r.Verb != "get" && r.Verb != "list" && r.Verb != "watch" }

// record returns the requests of the operator while do runs and until it is idle.
func (l *lab) record(ctx context.Context, do func() error) ([]request, error) {
	if err := l.current.quiet(ctx, patience); err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(filepath.Dir(os.Getenv("KUBECONFIG")), "audit", "audit.log")) //nolint:gosec // the cluster is chosen by the caller
	if err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", err)
	}
	defer f.Close()
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	if err := do(); err != nil {
		return nil, err
	}
	if err := l.current.quiet(ctx, patience); err != nil {
		return nil, err
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
		var r request
		if err == nil {
			err = json.Unmarshal(line, &r)
		}
		if err != nil {
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

// step is an operation that is done with each object of a namespace.
type step struct {
	name, namespace string
	kind            schema.GroupVersionKind
	// spec creates the object, and patch changes it. It is deleted if there is neither.
	spec  map[string]any
	patch string
}

func steps() []step {
	webServer := webServer("", "").Object["spec"].(map[string]any)
	mounted := map[string]any{"image": firstImage, "replicas": int64(1), "config": map[string]any{"configMapRef": map[string]any{"name": shared, "key": "site.conf"}}}
	return []step{
		{name: "create WebServer, ClusterIP", namespace: "web", kind: webServers, spec: webServer},
		{name: "change its image", namespace: "web", kind: webServers, patch: `{"spec":{"image":"` + secondImage + `"}}`},
		{name: "scale it from 1 to 2", namespace: "web", kind: webServers, patch: `{"spec":{"replicas":2}}`},
		{name: "create WebServer, default NodePort", namespace: "port", kind: webServers, spec: map[string]any{"image": firstImage, "replicas": int64(1)}},
		{name: "create WebServer, shared ConfigMap", namespace: shared, kind: webServers, spec: mounted},
		{name: "create Memcached", namespace: "cache", kind: memcacheds, spec: map[string]any{"size": int64(1)}},
		{name: "create DemoApplication", namespace: "application", kind: applications, spec: map[string]any{
			"replica": int64(1), "image": firstImage, "ports": []any{map[string]any{"port": int64(80), "targetPort": int64(80)}},
		}},
		{name: "create ImmortalContainer", namespace: "immortal", kind: immortals, spec: map[string]any{"image": firstImage}},
		{name: "delete WebServer", namespace: "web", kind: webServers},
	}
}

// shared is a ConfigMap that many objects refer to, and their namespace.
const shared = "shared"

// measureRequests counts the requests of each program. Objects are changed one after the
// other, and each is Ready before the next one is changed.
func (l *lab) measureRequests(ctx context.Context) error {
	for i, program := range l.programs {
		if err := l.restart(ctx, program); err != nil {
			return err
		}
		prefix := fmt.Sprintf("requests-%d-", i)
		m := &l.results[i]
		for _, s := range steps() {
			s.namespace = prefix + s.namespace
			if err := l.prepare(ctx, s, prefix+shared); err != nil {
				return err
			}
			requests, err := l.record(ctx, func() error { return l.each(ctx, s) })
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			c, distinct := count(requests, s.namespace)
			m.Operations = append(m.Operations, operation{Name: s.name, Distinct: distinct, Counts: c})
			logf("%s: %s", s.name, c)
		}
		if err := l.changeShared(ctx, prefix+shared, m); err != nil {
			return err
		}
		requests, err := l.record(ctx, func() error { return sleep(ctx, restFor) })
		if err != nil {
			return err
		}
		m.AtRest = len(requests)
		if requests, err = l.record(ctx, func() error { return l.restart(ctx, program) }); err != nil {
			return err
		}
		for _, q := range requests {
			if q.write() && q.ObjectRef.Namespace != operatorNamespace && q.ObjectRef.Namespace != "" && q.ObjectRef.Resource != "events" {
				m.RestartWrites++
			}
		}
		logf("at rest: %d requests; restart: %d writes", m.AtRest, m.RestartWrites)
	}
	return nil
}

// prepare creates the namespace of a step, if it is the first one there.
func (l *lab) prepare(ctx context.Context, s step, sharedNamespace string) error {
	if s.spec == nil {
		return nil
	}
	if err := l.namespace(ctx, s.namespace); err != nil || s.namespace != sharedNamespace {
		return err
	}
	return l.client.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: shared}, Data: map[string]string{"site.conf": "server { listen 80; }"},
	})
}

// each does the step with one object after the other.
func (l *lab) each(ctx context.Context, s step) error {
	for i := range sample {
		o := object(s.kind, s.namespace, fmt.Sprintf("o%d", i), s.spec)
		var err error
		switch {
		case s.spec != nil:
			err = l.client.Create(ctx, o)
		case s.patch != "":
			err = l.client.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(s.patch)))
		default:
			if err := l.client.Delete(ctx, o); err != nil {
				return err
			}
			deployment := object(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, s.namespace, o.GetName(), nil)
			if err := wait(ctx, patience, o.GetName()+" to be deleted", func() (bool, error) {
				err := l.client.Get(ctx, client.ObjectKeyFromObject(deployment), deployment)
				return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
			}); err != nil {
				return err
			}
			continue
		}
		if err == nil {
			err = l.ready(ctx, patience, o)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// changeShared changes the data of the ConfigMap that the objects of the namespace refer
// to, and then only its annotations.
func (l *lab) changeShared(ctx context.Context, namespace string, m *measured) error {
	for _, c := range []struct {
		name, patch string
	}{
		{"change the ConfigMap of all", `{"data":{"site.conf":"server { listen 80; set $answer 2; }"}}`},
		{"change an annotation of it", `{"metadata":{"annotations":{"example.com/note":"changed"}}}`},
	} {
		requests, err := l.record(ctx, func() error {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: shared}}
			if err := l.client.Patch(ctx, cm, client.RawPatch(types.MergePatchType, []byte(c.patch))); err != nil {
				return err
			}
			// The rollouts begin within this time, and the operator is busy until they end.
			if err := sleep(ctx, time.Second); err != nil {
				return err
			}
			for i := range sample {
				if err := l.ready(ctx, patience, object(webServers, namespace, fmt.Sprintf("o%d", i), nil)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		counts, distinct := count(requests, namespace)
		m.Operations = append(m.Operations, operation{Name: c.name, Distinct: distinct, Counts: counts})
		logf("%s: %s", c.name, counts)
	}
	return nil
}
