//go:build e2e

package e2e

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/platform-operator/platform-operator/e2e/load"
)

// users have a WebServer and a DemoApplication, to which clients send requests all the time.
type users struct {
	*testing.T
	ns    string
	loads []*load.Load

	mu       sync.Mutex
	noticed  noticed
	messages []string
	pods     map[string]bool
}

// noticed is what users notice of an operation.
type noticed struct {
	failed  int // requests
	changes int // of conditions
	pods    int // replaced, or with a container that started again
}

func newUsers(t *testing.T) *users {
	t.Helper()
	s := newBlockStage(t)
	u := &users{T: t, ns: s.ns}
	s.apply(webServerKind.manifest("web", `{image: "nginx:1.27.4", replicas: 2}`) +
		demoApplicationKind.manifest("app", `{image: "nginx:1.27.4", replica: 2, ports: [{port: 80}]}`))
	awaitReady(t, s.ns, "webserver/web", "demoapp/app")
	for _, service := range []string{"web-service", "app"} {
		url := "http://" + s.kubectl("get", "service", service, "-o", "jsonpath={.spec.clusterIP}") + "/"
		pageHas(t, url, "nginx")
		l, err := load.Start(t.Context(), load.Config{
			URL: url, Rate: 10, Most: 10 * int(time.Hour.Seconds()), Observe: u.observe,
		})
		if err != nil {
			t.Fatal(err)
		}
		u.loads = append(u.loads, l)
	}
	for _, resource := range []schema.GroupVersionResource{
		{Group: "my.domain", Version: "v1", Resource: "webservers"}, {Group: "paas.cmft.com", Version: "v1", Resource: "demoapplications"},
	} {
		go u.watch(s.reader, resource)
	}
	u.take()
	return u
}

func (n noticed) String() string {
	var all []string
	for _, count := range []struct {
		n    int
		what string
	}{{n.failed, "failed requests"}, {n.changes, "changed conditions"}, {n.pods, "replaced pods"}} {
		if count.n > 0 {
			all = append(all, fmt.Sprintf("%d %s", count.n, count.what))
		}
	}
	return cmp.Or(strings.Join(all, ", "), "nothing")
}

// observe counts a request.
func (u *users) observe(_, _ time.Time, class load.Class, err error) {
	if class != "" {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.noticed.failed++
		u.messages = append(u.messages, fmt.Sprintf("%s: %v", class, err))
	}
}

// watch counts changes of conditions.
func (u *users) watch(r reader, resource schema.GroupVersionResource) {
	last := ""
	for u.Context().Err() == nil {
		w, err := r.objects.Resource(resource).Namespace(u.ns).Watch(u.Context(), metav1.ListOptions{})
		if err != nil {
			time.Sleep(100 * time.Millisecond) // the API server is away
			continue
		}
		for e := range w.ResultChan() {
			o, ok := e.Object.(*unstructured.Unstructured)
			if !ok || o.GetKind() == "Status" {
				continue
			}
			now := conditionsOf(o)
			u.mu.Lock()
			if last != "" && last != now {
				u.noticed.changes++
				u.messages = append(u.messages, fmt.Sprintf("%s: %s, after %s", o.GetKind(), now, last))
			}
			last = now
			u.mu.Unlock()
		}
		w.Stop()
	}
}

// conditionsOf returns the types, statuses and reasons of all conditions.
func conditionsOf(o *unstructured.Unstructured) string {
	var all []string
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok {
			all = append(all, fmt.Sprintf("%v=%v (%v)", c["type"], c["status"], c["reason"]))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// take returns what was noticed since the last call.
func (u *users) take() (noticed, string) {
	out := kubectl(u.T, "-n", u.ns, "get", "pods", "-o", `jsonpath={range .items[*]}{.metadata.uid} {.status.containerStatuses[*].restartCount}{"\n"}{end}`)
	pods := map[string]bool{}
	for line := range strings.Lines(out) {
		pods[line] = true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	n, messages := u.noticed, u.messages
	for pod := range maps.Keys(u.pods) {
		if !pods[pod] {
			n.pods++
		}
	}
	u.noticed, u.messages, u.pods = noticed{}, nil, pods
	return n, strings.Join(messages[:min(len(messages), 10)], "\n")
}

// end ends the load.
func (u *users) end() {
	for _, l := range u.loads {
		l.End()
		result := l.Wait()
		u.Logf("%d requests, %d failed", result.Requests, result.Failed())
	}
}

// changeObject creates an object, changes its image, and returns an error if that is not
// rolled out, or if something is done about it.
func (o *operations) changeObject() error {
	const object = "demoapp/changed"
	_, err := run(o.Context(), demoApplicationKind.manifest("changed", `{image: "nginx:1.27.3", ports: [{port: 80}]}`), "kubectl", "apply", "-f", "-")
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		{"wait", "--for=condition=Ready", object, "--timeout=" + patience.String()},
		{"patch", object, "--type=merge", "-p", `{"spec":{"image":"nginx:1.27.4"}}`},
		{"wait", `--for=jsonpath={.status.image}=nginx:1.27.4`, object, "--timeout=" + patience.String()},
		{"wait", "--for=condition=Ready", object, "--timeout=" + patience.String()},
	} {
		if err := o.kubectl(args...); err != nil {
			return err
		}
	}
	got, err := run(o.Context(), "", "kubectl", "get", object, "-o", "jsonpath={.status.lastActions}")
	if err == nil && got != "" {
		err = fmt.Errorf("actions: %s", got)
	}
	return errors.Join(err, o.kubectl("delete", object))
}
