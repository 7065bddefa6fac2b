package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

const (
	phaseLoad       = "load"
	phaseNamespaces = "namespaces"
	// batchSize is the maximum number of objects of a batch of the comparison.
	batchSize = 200
	// tenants is how many objects the other user has, in a namespace of its own.
	tenants   = 20
	failovers = 5
	idleEdits = 10

	namespaceScale, namespaceRaw, namespaceTenant = "scale", "raw", "tenant"
)

// loadResults are times, processor time and memory with many objects.
type loadResults struct {
	Objects int
	Batches []batch
	Growth  []point
	// EmptyMemory is the resident memory without objects, in MiB.
	EmptyMemory float64
	// RestMemory is the resident memory after a restart, RestAfterEdits after many
	// objects were changed, and PeakMemory the maximum, in MiB.
	RestMemory, RestAfterEdits, PeakMemory float64
	// RestCPU is the share of one core that is used while nothing changes, in percent.
	RestCPU float64

	ScrapeBytes int
	ScrapeTime  time.Duration

	// Edits is how many images were changed at once, and EditsTime the time until all
	// objects were Ready.
	Edits     int
	EditsTime time.Duration
	EditsCPU  time.Duration
	// TenantIdle and TenantBurst are the times from an edit in another namespace until
	// its Deployment changed.
	TenantIdle, TenantBurst []time.Duration

	AdmissionIdle, AdmissionBurst latencies
	Failovers                     []time.Duration
}

// spreadResults are those of the same growth in several namespaces.
type spreadResults struct {
	Namespaces int
	Growth     []point
}

// batch is a comparison with the same children without the operator.
type batch struct {
	Size          int
	Makespan, Raw time.Duration
	// Median is the time until half of the WebServers were Ready.
	Median time.Duration
	cost
	// RawCPU is the processor time of the operator and the control plane for the same
	// children without the operator.
	RawCPU time.Duration
}

// cost is what creating objects took.
type cost struct {
	// CPU is the processor time of the operator, and ControlCPU that of the control
	// plane.
	CPU, ControlCPU time.Duration
	// Reconciles is how often the operator reconciled anything meanwhile.
	Reconciles int
}

// clusterCPU is the processor time of everything but the client.
func (c cost) clusterCPU() time.Duration { return c.CPU + c.ControlCPU }

// point is a state during the growth.
type point struct {
	Objects int
	// Created is the number of objects that were created since the point before, in
	// Makespan.
	Created  int
	Makespan time.Duration
	// cost is that of them.
	cost
	// Peak and Rest are the resident memory in MiB: the maximum during the burst, and
	// after the restart that follows it.
	Peak, Rest float64
	// Start is the time from the start of the process until the workers start, and
	// RestartCPU the processor time until the queue is empty.
	Start, RestartCPU time.Duration
	// FirstEdit is the time from an edit, which is sent when the workers start, until
	// its Deployment changed.
	FirstEdit time.Duration
}

// latencies are those of the calls of the webhooks, as counted by the API server.
type latencies struct {
	Calls int
	P99   time.Duration
	// Below5 and Below25 are the shares of calls that took at most 5 and 25 ms.
	Below5, Below25 float64
}

func (l *lab) measureLoad(ctx context.Context) error {
	r := &loadResults{Objects: l.objects}
	l.results.Load = r
	for _, ns := range []string{namespaceScale, namespaceRaw, namespaceTenant} {
		if err := l.namespace(ctx, ns); err != nil {
			return err
		}
	}
	raw, err := l.rawChildren(ctx)
	if err != nil {
		return err
	}
	if err := quiet(ctx, l.current.pid()); err != nil {
		return err
	}
	r.EmptyMemory, _ = memory(l.current.pid())
	if _, _, err := l.create(ctx, "tenant", tenants, namespaceTenant); err != nil {
		return err
	}
	if _, err := l.createRaw(ctx, raw, "warm-up", tenants); err != nil {
		return err
	}
	if r.AdmissionIdle, err = l.measureAdmission(ctx, func() error {
		for range 300 {
			if err := l.dryRun(ctx); err != nil {
				return fmt.Errorf("creating a WebServer: %w", err)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	for i, size := range l.sizes() {
		var p point
		if i < l.pairs {
			b, err := l.measurePair(ctx, raw, i, size)
			if err != nil {
				return err
			}
			r.Batches = append(r.Batches, b)
			p = point{Makespan: b.Makespan, cost: b.cost}
		} else if p, err = l.grow(ctx, i, size, namespaceScale); err != nil {
			return err
		}
		if r.Growth, err = l.grown(ctx, p, size, r.Growth); err != nil {
			return err
		}
	}
	if err := l.measureRest(ctx); err != nil {
		return err
	}
	if err := l.measureEdits(ctx); err != nil {
		return err
	}
	for range failovers {
		if err := l.measureFailover(ctx); err != nil {
			return err
		}
	}
	l.notePeak(l.current)
	r.PeakMemory = l.peak
	return nil
}

// sizes returns how many objects each step of the growth creates: first those of the
// pairs, then as many as there are.
func (o options) sizes() []int {
	var sizes []int
	population := 0
	for range o.pairs {
		sizes = append(sizes, min(batchSize, o.objects/o.pairs))
		population += sizes[0]
	}
	for population < o.objects {
		size := min(population, o.objects-population)
		sizes = append(sizes, size)
		population += size
	}
	return sizes
}

// grow creates objects in turn in each of the namespaces.
func (l *lab) grow(ctx context.Context, step, size int, namespaces ...string) (point, error) {
	logf("creating %d more WebServers", size)
	var p point
	var err error
	p.cost, err = l.measure(ctx, func() (err error) {
		return l.profileWhile(ctx, fmt.Sprintf("growth-%d-in-%d.cpu", step, len(namespaces)), profileOf(size), func() (err error) {
			p.Makespan, _, err = l.create(ctx, fmt.Sprintf("step-%d", step), size, namespaces...)
			return err
		})
	})
	if err != nil {
		return p, err
	}
	logf("for each: %.1f ms of CPU of the operator in %.2f reconciles, %.1f ms of the control plane",
		float64(p.CPU.Microseconds())/1000/float64(size), float64(p.Reconciles)/float64(size), float64(p.ControlCPU.Microseconds())/1000/float64(size))
	return p, nil
}

// measure returns what f cost until the operator is idle again.
func (l *lab) measure(ctx context.Context, f func() error) (c cost, err error) {
	reconciles, err := l.reconciles(ctx)
	if err != nil {
		return c, err
	}
	pids := controlPlane()
	before, controlBefore := cpu(l.current.pid()), cpus(pids)
	if err := f(); err != nil {
		return c, err
	}
	if err := quiet(ctx, l.current.pid()); err != nil {
		return c, err
	}
	c.CPU, c.ControlCPU = cpu(l.current.pid())-before, cpus(pids)-controlBefore
	total, err := l.reconciles(ctx)
	c.Reconciles = total - reconciles
	return c, err
}

// reconciles returns how often the operator has reconciled anything since it started.
func (l *lab) reconciles(ctx context.Context) (int, error) {
	metrics, err := l.scrape(ctx)
	if err != nil {
		return 0, err
	}
	return parseReconciles(string(metrics)), nil
}

// parseReconciles adds up controller_runtime_reconcile_total.
func parseReconciles(metrics string) int {
	sum := 0.0
	for _, n := range samples(metrics, "controller_runtime_reconcile_total") {
		sum += n
	}
	return int(sum)
}

// samples returns the labels and the value of each sample of a metric.
func samples(metrics, name string) iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		for line := range strings.Lines(metrics) {
			labels, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
			labels, named := strings.CutPrefix(labels, name+"{")
			n, err := strconv.ParseFloat(value, 64)
			if ok && named && err == nil && !yield(labels, n) {
				return
			}
		}
	}
}

// measureNamespaces measures the growth in many namespaces.
func (l *lab) measureNamespaces(ctx context.Context) error {
	spread := &spreadResults{Namespaces: l.namespaces}
	l.results.Spread = spread
	var namespaces []string
	for i := range l.namespaces {
		namespaces = append(namespaces, fmt.Sprintf("%s-%d", namespaceScale, i))
	}
	for _, ns := range append(namespaces, namespaceTenant) {
		if err := l.namespace(ctx, ns); err != nil {
			return err
		}
	}
	if _, _, err := l.create(ctx, "tenant", tenants, namespaceTenant); err != nil {
		return err
	}
	for i, size := range l.sizes() {
		p, err := l.grow(ctx, i, size, namespaces...)
		if err != nil {
			return err
		}
		if spread.Growth, err = l.grown(ctx, p, size, spread.Growth); err != nil {
			return err
		}
	}
	return nil
}

// measurePair creates a batch with the operator and one without. Which of them comes
// first alternates, so that a machine that becomes slower does not favor one.
func (l *lab) measurePair(ctx context.Context, raw rawObjects, i, size int) (batch, error) {
	b := batch{Size: size}
	owned := func() (err error) {
		b.cost, err = l.measure(ctx, func() error {
			return l.profileWhile(ctx, fmt.Sprintf("batch-%d.cpu", i), profileFor, func() (err error) {
				b.Makespan, b.Median, err = l.create(ctx, fmt.Sprintf("step-%d", i), size, namespaceScale)
				return err
			})
		})
		return err
	}
	unowned := func() error {
		c, err := l.measure(ctx, func() (err error) {
			b.Raw, err = l.createRaw(ctx, raw, fmt.Sprintf("batch-%d", i), size)
			return err
		})
		b.RawCPU = c.clusterCPU()
		return err
	}
	order := []func() error{owned, unowned}
	if i%2 == 1 {
		slices.Reverse(order)
	}
	for _, f := range order {
		if err := errors.Join(f(), settle(ctx)); err != nil {
			return b, err
		}
	}
	logf("batch %d of %d: %s with the operator, %s without (%.2f), operator %.1f ms of CPU per object", i+1, size,
		round(b.Makespan), round(b.Raw), ratio(b.Makespan, b.Raw), float64(b.CPU.Microseconds())/1000/float64(size))
	return b, nil
}

// settle waits until the control plane has done its own clean-up.
func settle(ctx context.Context) error {
	pids := controlPlane()
	for range 30 {
		before := cpus(pids)
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
		if cpus(pids)-before < 300*time.Millisecond {
			return nil
		}
	}
	return nil
}

func cpus(pids map[string]int) (sum time.Duration) {
	for pid := range maps.Values(pids) {
		sum += cpu(pid)
	}
	return sum
}

// create creates WebServers, in turn in each of the namespaces, and waits until all
// are Ready.
func (l *lab) create(ctx context.Context, prefix string, n int, namespaces ...string) (makespan, median time.Duration, err error) {
	var keys []id
	for i := range n {
		keys = append(keys, id{webServers, namespaces[i%len(namespaces)], fmt.Sprintf("%s-%d", prefix, i)})
	}
	sent := make([]time.Time, n)
	began := time.Now()
	err = inParallel(ctx, n, func(i int) error {
		sent[i] = time.Now()
		_, err := l.client.Resource(webServers).Namespace(keys[i].namespace).Create(ctx, webServer(keys[i].namespace, keys[i].name), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("creating a WebServer: %w", err)
	}
	return l.awaitReady(ctx, keys, sent, began)
}

// awaitReady returns the time until all objects were Ready, and the median of the time
// from the creation of an object until it was.
func (l *lab) awaitReady(ctx context.Context, keys []id, sent []time.Time, began time.Time) (makespan, median time.Duration, err error) {
	var ready []time.Time
	err = wait(ctx, limit(len(keys)), "all objects to become Ready", func() (ok bool) {
		ready, ok = l.seen.readyTimes(keys)
		return ok
	})
	if err != nil {
		return 0, 0, err
	}
	took := make([]time.Duration, len(keys))
	for i := range keys {
		took[i] = ready[i].Sub(sent[i])
	}
	slices.Sort(took)
	return slices.MaxFunc(ready, time.Time.Compare).Sub(began), took[len(took)/2], nil
}

// limit is the time limit for work on n objects.
func limit(n int) time.Duration { return patience + time.Duration(n)*time.Second }

// rawObjects are the children of a WebServer as JSON, in which placeholders stand for
// its name and its namespace.
type rawObjects []rawObject

type rawObject struct {
	gvr  schema.GroupVersionResource
	yaml string
}

const namePlaceholder, namespacePlaceholder = "name-of-object", "namespace-of-object"

// rawChildren returns what platform-operator render prints for a WebServer, without
// what makes it a child.
func (l *lab) rawChildren(ctx context.Context) (rawObjects, error) {
	file := filepath.Join(l.dir, "webserver.yaml")
	text, err := yaml.Marshal(webServer(namespacePlaceholder, namePlaceholder).Object)
	if err != nil {
		return nil, fmt.Errorf("writing a WebServer: %w", err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, fmt.Errorf("writing a WebServer: %w", err)
	}
	out, err := command(ctx, nil, l.operator, "render", "-f", file)
	if err != nil {
		return nil, err
	}
	resources := map[string]string{
		"ConfigMap": "configmaps", "ControllerRevision": "controllerrevisions", "Deployment": "deployments", "Service": "services",
		"PodDisruptionBudget": "poddisruptionbudgets", "NetworkPolicy": "networkpolicies",
	}
	var objects rawObjects
	for doc := range strings.SplitSeq(out, "\n---\n") {
		var u unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			return nil, fmt.Errorf("reading the children: %w", err)
		}
		resource, ok := resources[u.GetKind()]
		if !ok {
			return nil, fmt.Errorf("a WebServer has a child of kind %q, which this program cannot create", u.GetKind())
		}
		release(&u)
		raw, err := yaml.Marshal(u.Object)
		if err != nil {
			return nil, fmt.Errorf("writing a child: %w", err)
		}
		objects = append(objects, rawObject{u.GroupVersionKind().GroupVersion().WithResource(resource), string(raw)})
	}
	return objects, nil
}

// release removes what makes an object, and the pods of a Deployment, a child: the
// operator must not cache them.
func release(u *unstructured.Unstructured) {
	u.SetOwnerReferences(nil)
	u.SetAnnotations(nil)
	const managedBy = "app.kubernetes.io/managed-by"
	unstructured.RemoveNestedField(u.Object, "metadata", "labels", managedBy)
	unstructured.RemoveNestedField(u.Object, "spec", "template", "metadata", "labels", managedBy)
}

// createRaw creates children without the operator, and waits until all Deployments are
// available. It returns the time that this took.
func (l *lab) createRaw(ctx context.Context, raw rawObjects, prefix string, n int) (time.Duration, error) {
	var keys []id
	for i := range n {
		keys = append(keys, id{deployments, namespaceRaw, fmt.Sprintf("%s-%d", prefix, i)})
	}
	sent := make([]time.Time, n)
	began := time.Now()
	err := inParallel(ctx, n, func(i int) error {
		sent[i] = time.Now()
		names := strings.NewReplacer(namePlaceholder, keys[i].name, namespacePlaceholder, namespaceRaw)
		for _, o := range raw {
			var u unstructured.Unstructured
			if err := yaml.Unmarshal([]byte(names.Replace(o.yaml)), &u.Object); err != nil {
				return err
			}
			if _, err := l.client.Resource(o.gvr).Namespace(namespaceRaw).Create(ctx, &u, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("creating children without the operator: %w", err)
	}
	makespan, _, err := l.awaitReady(ctx, keys, sent, began)
	return makespan, err
}

// inParallel calls do with 0 to n-1.
func inParallel(ctx context.Context, n int, do func(int) error) error {
	next := make(chan int)
	errs := make(chan error, parallel)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for range parallel {
		wg.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					errs <- err
					cancel()
					return
				}
			}
		})
	}
	for i := range n {
		select {
		case next <- i:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	wg.Wait()
	close(errs)
	return cmp.Or(<-errs, context.Cause(ctx))
}

// grown restarts the operator after a step, completes its point, and returns the points
// with it.
func (l *lab) grown(ctx context.Context, p point, created int, before []point) ([]point, error) {
	p.Created, p.Objects = created, created
	if len(before) > 0 {
		p.Objects += before[len(before)-1].Objects
	}
	_, p.Peak = memory(l.current.pid())
	if err := l.stop(l.current); err != nil {
		return nil, err
	}
	var err error
	if l.current, err = l.start(ctx); err != nil {
		return nil, err
	}
	p.Start = l.current.leadingAt.Sub(l.current.began)
	err = l.profileWhile(ctx, fmt.Sprintf("restart-%d.cpu", p.Objects), profileFor, func() (err error) {
		p.FirstEdit, err = l.editTenant(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := quiet(ctx, l.current.pid()); err != nil {
		return nil, err
	}
	p.RestartCPU = cpu(l.current.pid())
	p.Rest, _ = memory(l.current.pid())
	logf("%d WebServers: restart %s of CPU, workers after %s, first edit %s, %.0f MiB at rest, %.0f MiB before the restart", p.Objects,
		round(p.RestartCPU), round(p.Start), p.FirstEdit.Round(time.Millisecond), p.Rest, p.Peak)
	return append(before, p), nil
}

// editTenant changes the image of an object of the other user, and returns the time
// until its Deployment changed.
func (l *lab) editTenant(ctx context.Context) (time.Duration, error) {
	key := id{deployments, namespaceTenant, fmt.Sprintf("tenant-%d", l.edited%tenants)}
	l.edited++
	before, _ := l.seen.get(key)
	image := firstImage
	if before.image == firstImage {
		image = secondImage
	}
	began := time.Now()
	if err := l.patch(ctx, webServers, key.namespace, key.name, `{"spec":{"image":"`+image+`"}}`); err != nil {
		return 0, fmt.Errorf("changing an image: %w", err)
	}
	var changed []time.Time
	err := wait(ctx, limit(l.objects), "a Deployment to change", func() (ok bool) {
		changed, ok = l.seen.imageTimes([]id{key}, image)
		return ok
	})
	if err != nil {
		return 0, err
	}
	return changed[0].Sub(began), nil
}

// measureRest measures what all objects cost while nothing changes.
func (l *lab) measureRest(ctx context.Context) error {
	r := l.results.Load
	if err := quiet(ctx, l.current.pid()); err != nil {
		return err
	}
	r.RestMemory, _ = memory(l.current.pid())
	if err := l.profile(ctx, "rest.heap", "heap"); err != nil {
		return err
	}
	before := cpu(l.current.pid())
	if err := sleep(ctx, restFor); err != nil {
		return err
	}
	r.RestCPU = 100 * (cpu(l.current.pid()) - before).Seconds() / restFor.Seconds()
	var times []time.Duration
	for range 5 {
		began := time.Now()
		metrics, err := l.scrape(ctx)
		if err != nil {
			return err
		}
		r.ScrapeBytes = len(metrics)
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	r.ScrapeTime = times[len(times)/2]
	for range idleEdits {
		took, err := l.editTenant(ctx)
		if err != nil {
			return err
		}
		r.TenantIdle = append(r.TenantIdle, took)
		if err := quiet(ctx, l.current.pid()); err != nil {
			return err
		}
	}
	logf("at rest: %.1f MiB, %.2f %% of a core; /metrics %d kB in %s; an edit takes %s", r.RestMemory, r.RestCPU,
		r.ScrapeBytes/1000, round(r.ScrapeTime), quantile(r.TenantIdle, 0.5).Round(time.Millisecond))
	return nil
}

func (l *lab) scrape(ctx context.Context) ([]byte, error) {
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // on this machine
	defer client.CloseIdleConnections()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/metrics", l.current.metricsPort), nil)
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	q.Header.Set("Authorization", "Bearer "+l.scraper)
	a, err := client.Do(q)
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	defer a.Body.Close()
	metrics, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("reading metrics: %s: %w", a.Status, err)
	}
	return metrics, nil
}

// profileFor is for how many seconds the CPU is profiled.
const profileFor = 5

// profileOf returns for how many seconds the CPU is profiled while that many objects are
// created: at least as long as profileFor, and less than it takes.
func profileOf(created int) int { return min(max(profileFor, created/50), 6*profileFor) }

// profileWhile profiles the CPU of the operator while f runs, and for that many seconds.
func (l *lab) profileWhile(ctx context.Context, file string, seconds int, f func() error) error {
	profiled := make(chan error, 1)
	go func() { profiled <- l.profile(ctx, file, "profile?seconds="+strconv.Itoa(seconds)) }()
	return errors.Join(f(), <-profiled)
}

// profile writes a profile of the operator to a file in the folder of the flag
// -profiles. Without the flag, it does nothing.
func (l *lab) profile(ctx context.Context, file, path string) error {
	if l.profiles == "" {
		return nil
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/debug/pprof/%s", l.current.profilePort, path), nil)
	if err != nil {
		return fmt.Errorf("profiling: %w", err)
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return fmt.Errorf("profiling: %w", err)
	}
	defer a.Body.Close()
	raw, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != http.StatusOK {
		return fmt.Errorf("profiling: %s: %w", a.Status, err)
	}
	if err := os.MkdirAll(l.profiles, 0o750); err != nil {
		return fmt.Errorf("writing the profile: %w", err)
	}
	if err := os.WriteFile(filepath.Join(l.profiles, file), raw, 0o600); err != nil {
		return fmt.Errorf("writing the profile: %w", err)
	}
	return nil
}

// measureEdits changes the images of many objects at once, and meanwhile those of the
// other user one after the other.
func (l *lab) measureEdits(ctx context.Context) error {
	r := l.results.Load
	var keys, children []id
	l.seen.mu.Lock()
	for k := range l.seen.objects {
		if k.resource == webServers && k.namespace == namespaceScale && len(keys) < l.edits {
			keys = append(keys, k)
			children = append(children, id{deployments, k.namespace, k.name})
		}
	}
	l.seen.mu.Unlock()
	r.Edits = len(keys)
	logf("changing %d images", len(keys))
	before := cpu(l.current.pid())
	var err error
	r.AdmissionBurst, err = l.measureAdmission(ctx, func() error {
		began := time.Now()
		changed, tenant := make(chan struct{}), make(chan error, 1)
		go func() { tenant <- l.editTenantUntil(ctx, changed) }()
		finish := sync.OnceValue(func() error { close(changed); return <-tenant })
		defer func() { _ = finish() }()
		err := inParallel(ctx, len(keys), func(i int) error {
			return l.patch(ctx, webServers, keys[i].namespace, keys[i].name, `{"spec":{"image":"`+thirdImage+`"}}`)
		})
		if err != nil {
			return fmt.Errorf("changing an image: %w", err)
		}
		logf("all changes are sent")
		if err := wait(ctx, limit(len(keys)), "all Deployments to change", func() bool {
			_, ok := l.seen.imageTimes(children, thirdImage)
			return ok
		}); err != nil {
			return err
		}
		if err := finish(); err != nil {
			return err
		}
		var ready []time.Time
		if err := wait(ctx, limit(len(keys)), "all objects to become Ready", func() (ok bool) {
			ready, ok = l.seen.readyTimes(keys)
			return ok
		}); err != nil {
			return err
		}
		r.EditsTime = slices.MaxFunc(ready, time.Time.Compare).Sub(began)
		return nil
	})
	if err != nil {
		return err
	}
	if err := quiet(ctx, l.current.pid()); err != nil {
		return err
	}
	r.EditsCPU = cpu(l.current.pid()) - before
	r.RestAfterEdits, _ = memory(l.current.pid())
	logf("%d images changed in %s; an edit of another user meanwhile: median %s, maximum %s", len(keys), round(r.EditsTime),
		quantile(r.TenantBurst, 0.5).Round(time.Millisecond), quantile(r.TenantBurst, 1).Round(time.Millisecond))
	return nil
}

// editTenantUntil changes an object of the other user each second until end is closed.
// It waits for the last change.
func (l *lab) editTenantUntil(ctx context.Context, end <-chan struct{}) error {
	for {
		select {
		case <-end:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second):
		}
		took, err := l.editTenant(ctx)
		if err != nil {
			return err
		}
		l.results.Load.TenantBurst = append(l.results.Load.TenantBurst, took)
	}
}

// measureFailover ends the leader while another replica waits, and changes an object
// at the same time.
func (l *lab) measureFailover(ctx context.Context) error {
	next, err := l.standby()
	if err != nil {
		return err
	}
	// Its caches are filled when it has become idle.
	if err := sleep(ctx, quietFor); err != nil {
		return err
	}
	if err := quiet(ctx, next.pid()); err != nil {
		return err
	}
	l.serveAdmission(next)
	if err := l.admissionServes(ctx); err != nil {
		return err
	}
	stopped := make(chan error, 1)
	go func(op *operator) { stopped <- l.stop(op) }(l.current)
	took, err := l.editTenant(ctx)
	if err := errors.Join(err, <-stopped); err != nil {
		return err
	}
	l.current = next
	l.results.Load.Failovers = append(l.results.Load.Failovers, took)
	logf("failover: an edit takes %s", took.Round(time.Millisecond))
	return next.lead(ctx)
}

func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(d))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func ratio(a, b time.Duration) float64 { return a.Seconds() / max(b.Seconds(), 0.001) }

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
