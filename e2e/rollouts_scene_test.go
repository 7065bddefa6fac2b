//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/platform-operator/platform-operator/e2e/load"
)

// kind contains what the tests need to know about a managed kind.
type kind struct {
	Kind, apiVersion, resource string
	replicas                   string // the name of its field
	service                    string // of the object called web
}

var (
	webServerKind       = kind{"WebServer", "my.domain/v1", "webserver", "replicas", "web-service"}
	demoApplicationKind = kind{"DemoApplication", "paas.cmft.com/v1", "demoapp", "replica", "web"}
)

// target is one of the two applications that are disturbed in the same way.
type target struct {
	ours       bool
	object     string // in the notation of kubectl: what a user edits
	deployment string
	service    string
	container  string
	pods       string // label selector
}

// scene is a namespace with a managed application and, as the control, a plain
// Deployment of the same image with a plain Service, each with a load of its own.
type scene struct {
	*testing.T
	began         time.Time // when the loads began
	ctx           context.Context
	ns            string
	kind          kind
	ours, control target
	fields        map[string]any // of the managed application
	tls           *tls.Config    // nil without https
	loads         []pair
	reader        reader
}

// way is how requests are sent.
type way struct {
	nodePort, keepAlive bool
}

func (w way) String() string {
	if w.nodePort {
		return "NodePort"
	}
	return "ClusterIP"
}

var allWays = []way{{true, false}, {true, true}, {false, false}, {false, true}}

// pair is the same load on the managed application and on the control.
type pair struct {
	way           way
	ours, control *load.Load
}

// kubectl runs kubectl in the namespace of the scene. Unlike the function of that
// name, it can be called outside of the test's own goroutine.
func (s *scene) kubectl(args ...string) (string, error) {
	out, err := run(s.ctx, "", "kubectl", append([]string{"-n", s.ns}, args...)...)
	return strings.TrimSpace(out), err
}

func (s *scene) apply(objects ...any) error {
	var all strings.Builder
	for _, o := range objects {
		raw, err := json.Marshal(o)
		if err != nil {
			return err
		}
		all.Write(raw)
		all.WriteByte('\n')
	}
	_, err := run(s.ctx, all.String(), "kubectl", "-n", s.ns, "apply", "-f", "-")
	return err
}

// both runs do for both applications at the same time.
func (s *scene) both(do func(target) error) error {
	other := make(chan error, 1)
	go func() { other <- do(s.control) }()
	return errors.Join(do(s.ours), <-other)
}

// patch changes the spec of the managed application.
func (s *scene) patch(spec any) error {
	raw, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return err
	}
	_, err = s.kubectl("patch", s.ours.object, "--type=merge", "-p", string(raw))
	return err
}

func (s *scene) setImage(x target, image string) error {
	if x.ours {
		return s.patch(map[string]any{"image": image})
	}
	_, err := s.kubectl("set", "image", x.object, x.container+"="+image)
	return err
}

func (s *scene) scale(x target, replicas int) error {
	_, err := s.kubectl("scale", x.object, fmt.Sprintf("--replicas=%d", replicas))
	return err
}

// restart replaces all pods, as a user of each application would.
func (s *scene) restart(x target) error {
	if x.ours {
		return s.patch(map[string]any{"rollout": map[string]any{"restartedAt": time.Now().UTC().Format(time.RFC3339)}})
	}
	_, err := s.kubectl("rollout", "restart", x.object)
	return err
}

// settled waits until the last change is serving.
func (s *scene) settled(x target) error {
	if x.ours {
		// kubectl compares the generation of the condition with that of the object.
		if _, err := s.kubectl("wait", "--for=condition=Ready", x.object, "--timeout="+patience.String()); err != nil {
			return err
		}
	}
	_, err := s.kubectl("rollout", "status", x.deployment, "--timeout="+patience.String())
	return err
}

// gone waits until no pod is terminating any more: the last failures occur with the
// last pod.
func (s *scene) gone() error {
	return poll(s.ctx, "pods to end", func() error {
		out, err := s.kubectl("get", "pods", "-o", `jsonpath={range .items[?(@.metadata.deletionTimestamp)]}{.metadata.name} {end}`)
		if err == nil && out != "" {
			err = errors.New("still ending: " + out)
		}
		return err
	})
}

// url returns the URL that requests are sent to.
func (s *scene) url(x target, w way) (string, error) {
	scheme, port := "http", 80
	if s.tls != nil {
		scheme, port = "https", 443
	}
	host := `{.spec.clusterIP}`
	if w.nodePort {
		host = fmt.Sprintf(`{.spec.ports[?(@.port==%d)].nodePort}`, port)
	}
	out, err := s.kubectl("get", "service", x.service, "-o", "jsonpath="+host)
	switch {
	case err != nil:
		return "", err
	case out == "":
		return "", fmt.Errorf("service %s has no %s for port %d", x.service, w, port)
	case w.nodePort:
		return fmt.Sprintf("%s://%s:%s/", scheme, nodeAddress(s.T), out), nil
	}
	return fmt.Sprintf("%s://%s/", scheme, out), nil
}

// begin starts all loads at the same time, waits until they have run for a second, and
// returns the dose, with the highest rate that the machine carries undisturbed.
func (s *scene) begin(d dose) (dose, error) {
	var urls [][2]string // of the managed application and of the control
	for _, w := range d.ways {
		ours, err := s.entrance(s.ours, w)
		control, err2 := s.entrance(s.control, w)
		if err := errors.Join(err, err2); err != nil {
			return d, err
		}
		urls = append(urls, [2]string{ours, control})
	}
	d, err := s.rehearse(d, urls)
	if err != nil {
		return d, err
	}
	s.began = time.Now()
	if s.loads, err = s.start(d, d.rate*int(longest/time.Second), urls); err != nil {
		return d, err
	}
	return d, s.more(d.rate)
}

// start starts a load of at most some requests on each of the URLs.
func (s *scene) start(d dose, most int, urls [][2]string) ([]pair, error) {
	var pairs []pair
	for i, w := range d.ways {
		p := pair{way: w}
		var errs [2]error
		for j, l := range []**load.Load{&p.ours, &p.control} {
			*l, errs[j] = load.Start(s.ctx, load.Config{
				URL: urls[i][j], Rate: d.rate, Least: min(d.least, most), Most: most, KeepAlive: w.keepAlive, Limit: d.limit, TLS: s.tls,
			})
		}
		if err := errors.Join(errs[:]...); err != nil {
			return nil, err
		}
		pairs = append(pairs, p)
	}
	return pairs, nil
}

// rehearse runs the loads for some seconds while nothing happens, with half of the rate
// again while the machine is too slow for it. Requests that wait for a processor
// without a disturbance would say nothing about one.
func (s *scene) rehearse(d dose, urls [][2]string) (dose, error) {
	for ; d.rate >= leastRate; d.rate /= 2 {
		pairs, err := s.start(d, d.rate*int(rehearsal/time.Second), urls)
		if err != nil {
			return d, err
		}
		carried := true
		for _, p := range pairs {
			for _, r := range []load.Result{p.ours.Wait(), p.control.Wait()} {
				if r.Failed(slow...) > 0 {
					err = fmt.Errorf("requests through %s failed although nothing was disturbed: %v", p.way, r)
				}
				carried = carried && r.Failed() == 0 && r.Late <= mostLate
			}
		}
		if carried || err != nil {
			return d, err
		}
		s.Logf("%d requests per second are too many for the machine, although nothing is disturbed", d.rate)
	}
	return d, fmt.Errorf("the machine carries less than %d requests per second of each load", leastRate)
}

// more waits until each load has sent that many more requests.
func (s *scene) more(n int) error {
	p := s.loads[len(s.loads)-1]
	from := p.ours.Arrived()
	for p.ours.Arrived() < from+n {
		select {
		case <-s.ctx.Done():
			return s.ctx.Err()
		case <-p.ours.Done():
			return fmt.Errorf("the load ended before what it was to accompany, after %s", longest)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

// entrance returns the URL that requests are sent to, once it responds.
//
// The cluster IP is tried first. While kube-proxy knows no endpoints, it rejects
// both, but packets to a node port only on arrival. By then, connection tracking
// has recorded for two minutes that the client's port is not translated, and the
// next connection from that port is refused, even if pods are serving by then. A
// load would count that as a failure, which the test itself caused. Packets to a
// cluster IP are rejected before they are sent, and nothing is recorded; and
// kube-proxy writes the rules for both in one transaction.
func (s *scene) entrance(x target, w way) (url string, err error) {
	for _, w := range []way{{nodePort: false}, w} {
		if url, err = s.url(x, w); err != nil {
			return "", err
		}
		if err := s.answers(url); err != nil {
			return "", err
		}
	}
	return url, nil
}

// answers waits until a URL has responded ten times in a row, because each request
// may reach another pod.
func (s *scene) answers(url string) error {
	return s.all(url, "an answer", func(answer) bool { return true })
}

// answer is a response without the page.
type answer struct {
	header http.Header
	tls    *tls.ConnectionState
}

// hasHeader returns a function that reports whether a response has a header of that
// value.
func hasHeader(name, value string) func(answer) bool {
	return func(a answer) bool { return a.header.Get(name) == value }
}

// all waits until ten responses in a row, each on a connection of its own, are as
// expected.
func (s *scene) all(url, what string, ok func(answer) bool) error {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: s.tls.Clone()}}
	return poll(s.ctx, what+" from "+url, func() error {
		for range 10 {
			req, err := http.NewRequestWithContext(s.ctx, http.MethodGet, url, nil)
			if err != nil {
				return err
			}
			res, err := client.Do(req)
			if err != nil {
				return err
			}
			_ = res.Body.Close()
			if res.StatusCode != http.StatusOK || !ok(answer{res.Header, res.TLS}) {
				return fmt.Errorf("%s, %v", res.Status, res.Header)
			}
		}
		return nil
	})
}

// object returns the managed application, with the fields that the case adds.
func (k kind) object(fields map[string]any, nodePort int) map[string]any {
	spec := map[string]any{"image": firstImage, k.replicas: 3}
	if k == demoApplicationKind {
		spec["ports"] = []any{map[string]any{"port": 80, "nodePort": nodePort}}
	} else {
		spec["service"] = map[string]any{"type": "NodePort", "nodePort": nodePort}
	}
	maps.Copy(spec, fields)
	// replicas must not be set together with autoscaling.
	maps.DeleteFunc(spec, func(_ string, v any) bool { return v == nil })
	return map[string]any{"apiVersion": k.apiVersion, "kind": k.Kind, "metadata": map[string]any{"name": "web"}, "spec": spec}
}

// A DemoApplication can be any application, and how it treats its clients when it
// is terminated is its own responsibility: an image that simply closes its
// keep-alive connections loses a request now and then, however long its grace
// period is. So the one under load behaves as an application should: when it is
// terminated, it asks its clients to open other connections, and ends two seconds
// later.
const (
	drainingConfig = "draining"
	drainingServer = `server {
    listen 80;
    root /usr/share/nginx/html;
    set $draining '';
    if (-f /tmp/draining) {
        set $draining close;
    }
    add_header Connection $draining always;
}
`
	drainingScript = `trap 'touch /tmp/draining; sleep 2; nginx -s quit' QUIT TERM
nginx -g 'daemon off;' &
wait $!
wait $!`
)

func selfDraining() map[string]any {
	return map[string]any{
		"command": []any{"sh", "-c", drainingScript},
		"pod": map[string]any{
			"volumes":      []any{map[string]any{"name": "config", "configMap": map[string]any{"name": drainingConfig}}},
			"volumeMounts": []any{map[string]any{"name": "config", "mountPath": "/etc/nginx/conf.d"}},
		},
	}
}

// mount is a volume of the control.
type mount struct {
	path, configMap, secret string
}

// plain returns what a user would write after reading the first page of the manual:
// a Deployment and a Service, without probes and hooks, and with the defaults of
// Kubernetes.
func plain(mounts []mount, requests map[string]string) []any {
	container := map[string]any{"name": "nginx", "image": firstImage}
	if requests != nil {
		container["resources"] = map[string]any{"requests": requests}
	}
	var volumes, at []any
	for i, m := range mounts {
		name := fmt.Sprintf("v%d", i)
		v := map[string]any{"name": name}
		if m.secret != "" {
			v["secret"] = map[string]any{"secretName": m.secret}
		} else {
			v["configMap"] = map[string]any{"name": m.configMap}
		}
		volumes = append(volumes, v)
		at = append(at, map[string]any{"name": name, "mountPath": m.path})
	}
	container["volumeMounts"] = at
	labels := map[string]any{"app": "control"}
	meta := map[string]any{"name": "control"}
	return []any{
		map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": map[string]any{
			"replicas": 3, "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{
				"containers": []any{container}, "volumes": volumes,
			}},
		}},
		map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": map[string]any{
			"type": "NodePort", "selector": labels, "ports": []any{
				map[string]any{"name": "http", "port": 80}, map[string]any{"name": "https", "port": 443},
			},
		}},
	}
}

func configMap(name string, data map[string]string) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": data}
}

// freeNodePort returns a node port that no Service has. It is one of the 86 lowest,
// which the API server does not allocate dynamically (the static band of
// Kubernetes). It is chosen at random, so that it was probably not used in the last
// minutes, because connection tracking remembers a port longer than its Service
// exists.
func freeNodePort(t *testing.T) int {
	t.Helper()
	taken := " " + kubectl(t, "get", "services", "-A", "-o", "jsonpath={..nodePort}") + " "
	const first, end = 30020, 30086            // the legacy operators use lower ones
	for _, i := range rand.Perm(end - first) { //nolint:gosec // a port is not a secret
		if !strings.Contains(taken, fmt.Sprintf(" %d ", first+i)) {
			return first + i
		}
	}
	t.Fatal("no node port is free")
	return 0
}

// stage creates the scene of a case: both applications serve, and nothing has
// happened yet.
func stage(t *testing.T, k kind, c rolloutCase) *scene {
	t.Helper()
	s := &scene{
		T: t, ctx: t.Context(), ns: namespace(t), kind: k, reader: newReader(t),
		ours: target{
			ours: true, object: k.resource + "/web", deployment: "deployment/web", service: k.service,
			pods: strings.ToLower(k.Kind) + "_cr=web",
		},
		control: target{
			object: "deployment/control", deployment: "deployment/control", service: "control", container: "nginx", pods: "app=control",
		},
	}
	if c.prepare != nil {
		if err := c.prepare(s); err != nil {
			t.Fatal(err)
		}
	}
	fields := maps.Clone(s.fields)
	if fields == nil {
		fields = map[string]any{}
	}
	maps.Copy(fields, c.fields)
	drains := k == demoApplicationKind && !c.failure
	if drains {
		maps.Copy(fields, selfDraining())
	}
	if c.unset {
		fields[k.replicas] = nil
	}
	objects := append(plain(c.mounts, c.requests), k.object(fields, freeNodePort(t)))
	if drains {
		objects = append(objects, configMap(drainingConfig, map[string]string{"default.conf": drainingServer}))
	}
	if err := s.apply(append(objects, c.extra...)...); err != nil {
		t.Fatal(err)
	}
	if err := s.both(s.settled); err != nil {
		t.Fatal(err)
	}
	return s
}
