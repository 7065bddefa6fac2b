//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/platform-operator/platform-operator/e2e/benchmark"
)

const (
	// attackFor is how long each attack lasts.
	attackFor = 30 * time.Second
	// mostRefused is the share of ordinary requests that may be refused meanwhile.
	mostRefused = 0.01
	// mostMemory is the memory of a replica in MiB, at most: half of the limit of the chart.
	mostMemory = 256
	// mostWrites is how many writes per second a fight about a CA bundle may cost.
	mostWrites = 1
)

// hostile attacks the operator.
type hostile struct {
	*testing.T
	prometheus prometheus
	reader     reader
	ns         string
	addresses  []string

	mu      sync.Mutex
	took    []time.Duration // of ordinary requests
	refused int
	cause   string
}

var hostileTried = []struct {
	name string
	do   func(*hostile) (shows string, err error)
}{
	{"none", func(*hostile) (string, error) { time.Sleep(attackFor / 2); return "", nil }},
	{"500 requests with endless headers", func(h *hostile) (string, error) { return h.attack("headers", "-connections=500") }},
	{"70 requests whose bodies do not end", func(h *hostile) (string, error) { return h.attack("bodies", "-connections=70") }},
	{"300 new connections per second", func(h *hostile) (string, error) { return h.attack("requests", "-connections=30", "-pause=100ms") }},
	{"another writer of the CA bundle", (*hostile).fight},
	{"2000 ConfigMaps of 32 KiB with forged annotations", func(h *hostile) (string, error) { return h.forge() }},
	{"the same without admission policies", (*hostile).forgeWithoutPolicies},
	{"500 stalled objects in a namespace", (*hostile).stall},
}

// TestCampaignHostile attacks the operator while ordinary requests are sent, and writes the table of
// incidentsPage.
func TestCampaignHostile(t *testing.T) {
	campaign(t, "campaign-hostile")
	only := regexp.MustCompile(os.Getenv("ATTACKS"))
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	h := &hostile{T: t, prometheus: newPrometheus(t), reader: newReader(t), ns: namespace(t)}
	shorten(t)
	h.prometheus.install()
	h.prometheus.targetsUp()
	const pods = "app.kubernetes.io/name=platform-operator"
	for ip := range strings.FieldsSeq(kubectl(t, "-n", operatorNamespace, "get", "pods", "-l", pods, "-o", "jsonpath={.items[*].status.podIP}")) {
		h.addresses = append(h.addresses, ip+":9443")
	}
	restarts := func() string {
		return kubectl(t, "-n", operatorNamespace, "get", "pods", "-l", pods, "-o", "jsonpath={.items[*].metadata.name} {.items[*].status.containerStatuses[*].restartCount}")
	}
	before := restarts()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go h.probe(ctx)
	var table strings.Builder
	fmt.Fprintf(&table, "`make campaign-hostile`, %s\n\n| attack | ordinary requests | refused | 99 %% within | MiB before | MiB at most | seen |\n|---|---:|---:|---:|---:|---:|---|\n", machine(t))
	for _, a := range hostileTried {
		if !only.MatchString(a.name) {
			continue
		}
		memory := h.memory(0)
		h.take()
		began := time.Now()
		seen, err := a.do(h)
		took, refused, cause := h.take()
		most := h.memory(time.Since(began) + 5*time.Second)
		row := fmt.Sprintf("| %s | %d | %d | %.2fs | %d | %d | %s |\n", a.name, len(took), refused,
			took[len(took)*99/100].Seconds(), memory, most, seen)
		t.Log(row, cause)
		table.WriteString(row)
		if err != nil || float64(refused) > mostRefused*float64(len(took)) || most > mostMemory {
			t.Errorf("%s: %d of %d requests were refused: %s; %d MiB; %v", a.name, refused, len(took), cause, most, err)
		}
	}
	if after := restarts(); after != before {
		t.Errorf("replicas were restarted: %s, before %s", after, before)
	}
	if t.Failed() || only.String() != "" {
		return
	}
	if err := benchmark.WriteSection(incidentsPage, "# Incidents", "<!-- hostile: written by make campaign-hostile; changes by hand are overwritten -->", "<!-- hostile: end -->", table.String()); err != nil {
		t.Error(err)
	}
}

// probe sends ordinary requests.
func (h *hostile) probe(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		_, err := h.of("my.domain/v1", "webservers", "default").Create(ctx, web("default", "probe", map[string]any{"type": "ClusterIP"}), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		h.mu.Lock()
		h.took = append(h.took, time.Since(began))
		if err != nil && ctx.Err() == nil {
			h.refused++
			h.cause = err.Error()
		}
		h.mu.Unlock()
		time.Sleep(50 * time.Millisecond)
	}
}

// take returns what the probe has seen since the last call, sorted.
func (h *hostile) take() (took []time.Duration, refused int, cause string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	took, refused, cause = h.took, h.refused, h.cause
	h.took, h.refused, h.cause = nil, 0, ""
	slices.Sort(took)
	return took, refused, cause
}

// memory returns the highest resident memory of a replica within a time, or now, in MiB.
func (h *hostile) memory(within time.Duration) int {
	expr := `max(process_resident_memory_bytes{job="` + metricsJob + `"})`
	if within > 0 {
		if scraped := h.number(fmt.Sprintf(`min(avg_over_time(up{job=%q}[%ds]))`, metricsJob, int(within.Seconds()))); scraped < 0.8 {
			h.Errorf("only %.0f %% of the scrapes succeeded", 100*scraped)
		}
		expr = fmt.Sprintf(`max(max_over_time(process_resident_memory_bytes{job=%q}[%ds]))`, metricsJob, int(within.Seconds()))
	}
	return int(h.number(expr)) >> 20
}

// number returns the value of an expression.
func (h *hostile) number(expr string) float64 {
	all, err := h.prometheus.query(expr)
	if err != nil || len(all) != 1 {
		h.Errorf("%s is %v: %v", expr, all, err)
		return 0
	}
	n, err := strconv.ParseFloat(fmt.Sprint(all[0].Value[1]), 64)
	if err != nil {
		h.Error(err)
	}
	return n
}

func (h *hostile) of(version, resource, ns string) dynamic.ResourceInterface {
	gv, err := schema.ParseGroupVersion(version)
	if err != nil {
		h.Error(err)
	}
	r := h.reader.objects.Resource(gv.WithResource(resource))
	if ns == "" {
		return r
	}
	return r.Namespace(ns)
}

// web returns a WebServer without pods.
func web(ns, name string, service map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "my.domain/v1", "kind": "WebServer", "metadata": map[string]any{"namespace": ns, "name": name},
		"spec": map[string]any{"image": "nginx:1.27.4", "replicas": int64(0), "service": service},
	}}
}

// attack runs e2e/hostile in a pod.
func (h *hostile) attack(name string, args ...string) (string, error) {
	command := slices.Concat([]string{"-n", h.ns, "run", name, "--image=hostile:1", "--restart=Never", "--", "-attack=" + name, "-for=" + attackFor.String()}, args, h.addresses)
	if _, err := run(h.Context(), "", "kubectl", command...); err != nil {
		return "", err
	}
	_, err := run(h.Context(), "", "kubectl", "-n", h.ns, "wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/"+name, "--timeout="+patience.String())
	opened, logs := run(h.Context(), "", "kubectl", "-n", h.ns, "logs", name)
	return strings.TrimSpace(opened) + " connections", errors.Join(err, logs)
}

// fight replaces the CA bundle of a webhook configuration by one that is trusted as well, as often
// as the operator restores its own, and returns how often that is.
func (h *hostile) fight() (string, error) {
	configurations := h.of("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", "")
	var own string
	set := func(bundle func(own string) string) (restored bool, err error) {
		c, err := configurations.Get(h.Context(), operatorName, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		webhooks, _, err := unstructured.NestedSlice(c.Object, "webhooks")
		for _, w := range webhooks {
			config := w.(map[string]any)["clientConfig"].(map[string]any)
			now, _ := config["caBundle"].(string)
			own = cmp.Or(own, now)
			restored = now == own
			config["caBundle"] = bundle(own)
		}
		if err = errors.Join(err, unstructured.SetNestedSlice(c.Object, webhooks, "webhooks")); err == nil {
			_, err = configurations.Update(h.Context(), c, metav1.UpdateOptions{FieldManager: "other"})
		}
		return restored, err
	}
	twice := func(own string) string {
		pem, err := base64.StdEncoding.DecodeString(own)
		if err != nil {
			h.Error(err)
		}
		return base64.StdEncoding.EncodeToString(slices.Concat(pem, pem))
	}
	writes, began := -1, time.Now() // the first is not by the operator
	for time.Since(began) < attackFor {
		restored, err := set(twice)
		if err == nil && restored {
			writes++
		}
		time.Sleep(10 * time.Millisecond)
	}
	_, err := set(func(own string) string { return own })
	perSecond := float64(writes) / attackFor.Seconds()
	if perSecond > mostWrites || writes < 1 {
		err = errors.Join(err, fmt.Errorf("the operator wrote %d times", writes))
	}
	return fmt.Sprintf("%.1f writes per second by the operator", perSecond), err
}

// forge creates ConfigMaps that look like children.
func (h *hostile) forge() (string, error) {
	const count = 2000
	ns := namespace(h.T)
	configMaps := h.of("v1", "configmaps", ns)
	created, err := h.create(count, configMaps, func(i int) *unstructured.Unstructured { return forged(ns, i) })
	time.Sleep(10 * time.Second) // two scrapes
	if created == 0 {
		err = nil
	}
	return fmt.Sprintf("%d created", created), err
}

func forged(ns string, i int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"k": strings.Repeat("x", 32<<10)},
		"metadata": map[string]any{
			"namespace": ns, "name": fmt.Sprintf("forged-%d", i), "labels": map[string]any{"app.kubernetes.io/managed-by": "platform-operator"},
			"annotations": map[string]any{"platform-operator.io/owner-uid": "0", "platform-operator.io/applied": "0"},
		},
	}}
}

func (h *hostile) forgeWithoutPolicies() (string, error) {
	const binding = operatorName + "-revisions"
	bindings := h.of("admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings", "")
	policy, err := bindings.Get(h.Context(), binding, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if err := bindings.Delete(h.Context(), binding, metav1.DeleteOptions{}); err != nil {
		return "", err
	}
	defer func() {
		policy.SetResourceVersion("")
		policy.SetUID("")
		if _, err := bindings.Create(context.WithoutCancel(h.Context()), policy, metav1.CreateOptions{}); err != nil {
			h.Error(err)
		}
	}()
	err = poll(h.Context(), "the policy not to apply", func() error {
		_, err := h.of("v1", "configmaps", h.ns).Create(h.Context(), forged(h.ns, 0), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
	if err != nil {
		return "", err
	}
	return h.forge()
}

// create creates objects, some at a time, and returns how many could be created, and why another
// could not.
func (h *hostile) create(count int, resource dynamic.ResourceInterface, object func(i int) *unstructured.Unstructured) (created int, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	const parallel = 8
	for worker := range parallel {
		wg.Go(func() {
			for i := worker; i < count; i += parallel {
				_, failed := resource.Create(h.Context(), object(i), metav1.CreateOptions{})
				mu.Lock()
				if failed == nil {
					created++
				} else {
					err = failed
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return created, err
}

// stall creates objects that cannot be reconciled, and returns how soon the alert about one in
// another namespace fires.
func (h *hostile) stall() (string, error) {
	const count, alertname = 500, "PlatformOperatorObjectStalled"
	taken := map[string]any{"type": "NodePort", "nodePort": int64(32753)}
	if err := apply(h.T, `{apiVersion: v1, kind: Service, metadata: {namespace: `+h.ns+`, name: holder}, spec: {type: NodePort, ports: [{port: 80, nodePort: 32753}]}}`); err != nil {
		return "", err
	}
	evil, victim := namespace(h.T), namespace(h.T)
	_, err := h.create(count, h.of("my.domain/v1", "webservers", evil), func(i int) *unstructured.Unstructured {
		return web(evil, fmt.Sprintf("web-%d", i), taken)
	})
	if err != nil {
		return "", err
	}
	expr := fmt.Sprintf(`sum(platform_operator_objects_abnormal{namespace=%q,state="Stalled"})`, evil)
	err = poll(h.Context(), "all objects to be stalled", func() error {
		all, err := h.prometheus.query(expr)
		if err == nil && (len(all) != 1 || fmt.Sprint(all[0].Value[1]) != strconv.Itoa(count)) {
			err = fmt.Errorf("stalled are %v", all)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	began := time.Now()
	if _, err := h.of("my.domain/v1", "webservers", victim).Create(h.Context(), web(victim, "shop", taken), metav1.CreateOptions{}); err != nil {
		return "", err
	}
	took, err := h.prometheus.fires(true, alertname, victim, began, patience)
	return fmt.Sprintf("ObjectStalled of another namespace fires after %.0f s", took.Seconds()), err
}
