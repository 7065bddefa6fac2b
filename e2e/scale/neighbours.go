package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	phaseNeighbours = "neighbours"
	namespaceNoisy  = "noisy"

	// ordinaryObjects is how many WebServers exist in addition to those of the noisy tenant.
	ordinaryObjects = 500
	// noiseRounds is how many times edits are measured without and with the noise,
	// and noiseEdits how many each time.
	noiseRounds, noiseEdits = 3, 40
	editEvery               = 500 * time.Millisecond
	// noisyEvery is how often the noisy tenant changes its object, and flapEvery how
	// often the readiness of its pods changes.
	noisyEvery, flapEvery = 200 * time.Millisecond, 100 * time.Millisecond
	// noisyBytes is the maximum size of spec.content.files.
	noisyBytes = 262144

	floodFor         = 2 * time.Minute
	floodConnections = 32
	// floodBytes and floodElements are just below the maximum size of a request to the
	// webhooks and the maximum number of its values. The empty elements of a list are
	// what costs most for its size.
	floodBytes    = 3_600_000
	floodElements = 49_000
	admitEvery    = 200 * time.Millisecond
	memoryGoal    = 256 // MiB
	admissionGoal = 250 * time.Millisecond
)

// neighbourResults are what other tenants notice of a noisy one.
type neighbourResults struct {
	// Quiet are the times from an edit until its Deployment changed, without noise.
	Quiet []time.Duration
	// Noisy is the noise of a tenant whose object the operator reconciles, and Paused
	// that of the same requests while the object is paused. The difference is what the
	// operator does for the noisy tenant; the rest is the cost of the tenant's requests
	// in the control plane, and of their admission.
	Noisy, Paused noise
	// FloodCPU is the processor time of the operator during the flood.
	FloodCPU time.Duration
	// NoisyMemory and FloodMemory are the maximum resident memory until then, in MiB.
	NoisyMemory, FloodMemory float64

	// Flooded is how many requests of the flood were answered, by status code.
	Flooded map[int]int
	// Admitted and AdmittedInFlood are the times of the creations, as dry runs, of a
	// WebServer without and during the flood.
	Admitted, AdmittedInFlood []time.Duration
	// Refused is how many of the latter failed.
	Refused int

	Drains *drainResults
}

// noise is what a noisy tenant did, and what others noticed of it.
type noise struct {
	// Others are the times from an edit of another tenant until its Deployment changed.
	Others []time.Duration
	// Edits is how many times the noisy tenant changed its object, and Flaps how many
	// times the readiness of a pod changed.
	Edits, Flaps int
	// Took is how long the noise lasted, and OperatorCPU and ControlPlaneCPU are the
	// processor times meanwhile.
	Took, OperatorCPU, ControlPlaneCPU time.Duration
}

// measureNeighbours measures the edits of one tenant while another one does its worst,
// and admission while a pod floods the webhooks.
func (l *lab) measureNeighbours(ctx context.Context) error {
	r := &neighbourResults{}
	l.results.Neighbours = r
	for _, ns := range []string{namespaceScale, namespaceTenant, namespaceNoisy} {
		if err := l.namespace(ctx, ns); err != nil {
			return err
		}
	}
	logf("creating %d WebServers", ordinaryObjects)
	if _, _, err := l.create(ctx, "web", ordinaryObjects, namespaceScale); err != nil {
		return err
	}
	if _, _, err := l.create(ctx, "tenant", tenants, namespaceTenant); err != nil {
		return err
	}
	if err := l.measureDrains(ctx); err != nil {
		return err
	}
	if err := l.createNoisy(ctx); err != nil {
		return err
	}
	for range noiseRounds {
		if err := quiet(ctx, l.current.pid()); err != nil {
			return err
		}
		took, err := l.editTenants(ctx)
		if err != nil {
			return err
		}
		r.Quiet = append(r.Quiet, took...)
		for _, n := range []struct {
			noise   *noise
			paused  bool
			profile string
		}{{&r.Noisy, false, "noise.cpu"}, {&r.Paused, true, "noise-paused.cpu"}} {
			if err := l.patch(ctx, webServers, namespaceNoisy, "noisy", fmt.Sprintf(`{"spec":{"paused":%t}}`, n.paused)); err != nil {
				return fmt.Errorf("pausing the noisy WebServer: %w", err)
			}
			if err := quiet(ctx, l.current.pid()); err != nil {
				return err
			}
			err := l.profileWhile(ctx, n.profile, profileFor, func() error { return l.editTenantsInNoise(ctx, n.noise) })
			if err != nil {
				return err
			}
		}
		p99 := func(d []time.Duration) string { return millis(quantile(d, 0.99)) }
		logf("p99 of an edit is %s; during the noise %s, and while its object is paused %s", p99(r.Quiet), p99(r.Noisy.Others), p99(r.Paused.Others))
	}
	_, r.NoisyMemory = memory(l.current.pid())
	if err := quiet(ctx, l.current.pid()); err != nil {
		return err
	}
	return l.measureFlood(ctx)
}

// createNoisy creates the object of the noisy tenant.
func (l *lab) createNoisy(ctx context.Context) error {
	web, _, _, _ := kinds()
	if err := l.createSpec(ctx, web, namespaceNoisy, "noisy", web.spec(3)); err != nil {
		return fmt.Errorf("creating a noisy WebServer: %w", err)
	}
	return nil
}

// editTenants changes objects of the ordinary tenant one after the other.
func (l *lab) editTenants(ctx context.Context) ([]time.Duration, error) {
	var all []time.Duration
	for range noiseEdits {
		took, err := l.editTenant(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, took)
		if err := sleep(ctx, editEvery); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// editTenantsInNoise is editTenants while the noisy tenant changes the content of its
// object, and its pods become ready and not ready.
func (l *lab) editTenantsInNoise(ctx context.Context, n *noise) error {
	until, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	failed := make(chan error, 2)
	every := func(interval time.Duration, do func(context.Context) error) {
		wg.Go(func() {
			for sleep(until, interval) == nil {
				if err := do(until); err != nil && until.Err() == nil {
					failed <- err
					return
				}
			}
		})
	}
	every(noisyEvery, func(ctx context.Context) error {
		n.Edits++
		text := fmt.Sprintf("%d%s", n.Edits, strings.Repeat("x", noisyBytes-10))
		return l.patch(ctx, webServers, namespaceNoisy, "noisy", `{"spec":{"content":{"files":{"index.html":"`+text+`"}}}}`)
	})
	every(flapEvery, func(ctx context.Context) error {
		flaps, err := l.flap(ctx)
		n.Flaps += flaps
		return err
	})
	began, before, controlBefore := time.Now(), cpu(l.current.pid()), cpus(controlPlane())
	took, err := l.editTenants(ctx)
	n.Others = append(n.Others, took...)
	n.Took += time.Since(began)
	n.OperatorCPU += cpu(l.current.pid()) - before
	n.ControlPlaneCPU += cpus(controlPlane()) - controlBefore
	stop()
	wg.Wait()
	close(failed)
	return errors.Join(err, <-failed)
}

// flap makes a pod of the noisy tenant not ready. The simulated node makes it ready
// again.
func (l *lab) flap(ctx context.Context) (int, error) {
	pods, err := l.typed.CoreV1().Pods(namespaceNoisy).List(ctx, metav1.ListOptions{Limit: 1, FieldSelector: "status.phase=Running"})
	if err != nil {
		return 0, fmt.Errorf("listing the noisy pods: %w", err)
	}
	if len(pods.Items) == 0 {
		return 0, nil
	}
	p := pods.Items[0]
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":"False"}]}}`, corev1.PodReady)
	_, err = l.typed.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	if err != nil {
		return 0, nil //nolint:nilerr // the pod was replaced
	}
	return 1, nil
}

// measureFlood measures admission without and with a flood of the webhooks.
func (l *lab) measureFlood(ctx context.Context) error {
	r := l.results.Neighbours
	var err error
	admit := func(until time.Time) (took []time.Duration, refused int, err error) {
		for time.Now().Before(until) {
			began := time.Now()
			if err := l.dryRun(ctx); err != nil {
				refused++
			}
			took = append(took, time.Since(began))
			if err := sleep(ctx, admitEvery); err != nil {
				return nil, 0, err
			}
		}
		return took, refused, nil
	}
	if r.Admitted, r.Refused, err = admit(time.Now().Add(floodFor / 4)); err != nil {
		return err
	}
	if r.Refused > 0 {
		return fmt.Errorf("%d of %d WebServers were refused before the flood", r.Refused, len(r.Admitted))
	}
	path, err := l.validatingPath(ctx)
	if err != nil {
		return err
	}
	logf("flooding the webhooks for %s", floodFor)
	flooding, stop := context.WithTimeout(ctx, floodFor)
	defer stop()
	ended := make(chan map[int]int)
	go func() { ended <- flood(flooding, fmt.Sprintf("https://127.0.0.1:%d%s", l.current.webhookPort, path)) }()
	before := cpu(l.current.pid())
	r.AdmittedInFlood, r.Refused, err = admit(time.Now().Add(floodFor))
	r.FloodCPU = cpu(l.current.pid()) - before
	stop()
	r.Flooded = <-ended
	if err != nil {
		return err
	}
	_, r.FloodMemory = memory(l.current.pid())
	logf("admission takes %s, p99 %s; in the flood %s, p99 %s; %.0f MiB", millis(quantile(r.Admitted, 0.5)), millis(quantile(r.Admitted, 0.99)),
		millis(quantile(r.AdmittedInFlood, 0.5)), millis(quantile(r.AdmittedInFlood, 0.99)), r.FloodMemory)
	return nil
}

// validatingPath returns the path of the webhook that validates WebServers.
func (l *lab) validatingPath(ctx context.Context) (string, error) {
	list, err := l.typed.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("listing the webhooks: %w", err)
	}
	for _, c := range list.Items {
		for _, h := range c.Webhooks {
			if p := h.ClientConfig.Service.Path; p != nil && strings.HasSuffix(*p, "-webserver") {
				return *p, nil
			}
		}
	}
	return "", errors.New("no webhook validates WebServers")
}

// flood sends requests as large as possible, whose objects become as large as possible
// in memory, until the context ends. It returns the numbers of answers by status code;
// 0 counts requests without an answer.
func flood(ctx context.Context, url string) map[int]int {
	review := []byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1",` +
		`"kind":{"group":"my.domain","version":"v1","kind":"WebServer"},"resource":{"group":"my.domain","version":"v1","resource":"webservers"},` +
		`"name":"a","namespace":"a","operation":"CREATE","userInfo":{},"object":{"apiVersion":"my.domain/v1","kind":"WebServer",` +
		`"metadata":{"name":"a","namespace":"a"},"spec":{"image":"` + strings.Repeat("x", floodBytes-3*floodElements) + `","pod":{"volumes":[{}` + strings.Repeat(",{}", floodElements) + `]}}}}}`)
	var mu sync.Mutex
	answers := map[int]int{}
	var wg sync.WaitGroup
	for range floodConnections {
		client := &http.Client{
			Timeout:   30 * time.Second,
			Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, //nolint:gosec // on this machine
		}
		wg.Go(func() {
			defer client.CloseIdleConnections()
			for ctx.Err() == nil {
				code := post(ctx, client, url, review)
				mu.Lock()
				answers[code]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return answers
}

func post(ctx context.Context, client *http.Client, url string, body []byte) (code int) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0
	}
	q.Header.Set("Content-Type", "application/json")
	a, err := client.Do(q)
	if err != nil {
		return 0
	}
	defer a.Body.Close()
	_, _ = io.Copy(io.Discard, a.Body) // so that the connection is used again
	return a.StatusCode
}

const (
	beginNeighbours = "<!-- neighbours: written by make campaign-neighbours; manual changes are lost -->"
	endNeighbours   = "<!-- neighbours: end -->"
)

// goals compares the results with the goals.
func (r neighbourResults) goals() []goal {
	row := func(name, want string, met bool, format string, args ...any) goal {
		return goal{name, want, fmt.Sprintf(format, args...), &met}
	}
	info := func(name, format string, args ...any) goal {
		return goal{name: name, measured: fmt.Sprintf(format, args...)}
	}
	times := func(d []time.Duration) string {
		return fmt.Sprintf("median %s, p99 %s of %d", millis(quantile(d, 0.5)), millis(quantile(d, 0.99)), len(d))
	}
	flooded := make([]string, 0, len(r.Flooded))
	for _, code := range slices.Sorted(maps.Keys(r.Flooded)) {
		name := fmt.Sprintf("status %d", code)
		if code == 0 {
			name = "no answer"
		}
		flooded = append(flooded, fmt.Sprintf("%d %s", r.Flooded[code], name))
	}
	d := r.Drains
	quiet, noisy := quantile(r.Quiet, 0.99), quantile(r.Noisy.Others, 0.99)
	during := func(n noise) string {
		return fmt.Sprintf("%s; p99 %.2f times", times(n.Others), ratio(quantile(n.Others, 0.99), quiet))
	}
	describe := func(n noise) string {
		return fmt.Sprintf("%d edits of %d KiB, readiness of a pod changed %d times, in %s; CPU of the operator %s, of the control plane %s",
			n.Edits, noisyBytes>>10, n.Flaps, seconds(n.Took), seconds(n.OperatorCPU), seconds(n.ControlPlaneCPU))
	}
	return []goal{
		info("an edit → its Deployment changed, without the noise", "%s", times(r.Quiet)),
		row("the same during the noise", "p99 within 20 %", noisy <= quiet+quiet/5, "%s", during(r.Noisy)),
		info("the noise", "%s", describe(r.Noisy)),
		info("an edit during the same requests, while the noisy object is paused", "%s", during(r.Paused)),
		info("these requests", "%s", describe(r.Paused)),
		row("memory (RSS) of the operator, maximum", fmt.Sprintf("≤ %d MiB", memoryGoal), r.NoisyMemory <= memoryGoal, "%.0f MiB", r.NoisyMemory),
		info("a WebServer is admitted, without the flood", "%s", times(r.Admitted)),
		row("the same during the flood", "p99 < "+admissionGoal.String(), quantile(r.AdmittedInFlood, 0.99) < admissionGoal, "%s", times(r.AdmittedInFlood)),
		row("WebServers refused during the flood", "0", r.Refused == 0, "%d", r.Refused),
		info("the flood", "%d connections, requests of %.1f MB; answers: %s; CPU of the operator %s in %s", floodConnections, float64(floodBytes)/1e6, strings.Join(flooded, ", "), seconds(r.FloodCPU), floodFor),
		row("pods that could not be evicted within "+evictFor.String(), "0", d.Blocked == 0, "%d of %d, in %d drains of %d combinations of two objects; %d were evicted after other pods", d.Blocked, d.Evictions, d.Drains, d.Combinations, d.Retried),
		info("objects whose pods would have had the labels of another object's", "%d refused", d.RefusedLabels),
		row("memory (RSS) after the flood, maximum", fmt.Sprintf("≤ %d MiB", memoryGoal), r.FloodMemory <= memoryGoal, "%.0f MiB", r.FloodMemory),
	}
}
