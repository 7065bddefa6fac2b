//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/platform-operator/platform-operator/e2e/load"
)

const (
	// promoteWithin and abortWithin are how long the operator may take to write the
	// Deployment after the spec was changed, or the hold is over.
	promoteWithin, abortWithin = 5 * time.Second, 2 * time.Second
	canaryHold                 = 20 * time.Second
)

// canaryStage is a DemoApplication under load, whose canaries have one pod.
type canaryStage struct {
	blockStage
	healthy string // the hash of the template of the revision before the canary

	mu       sync.Mutex
	replicas int // the smallest number since the last change of it
	problems []string
}

// TestCampaignCanary edits, scales and deletes pods while a canary is held, and kills the
// leader: the share of the canary is that of one pod, and no request fails. Then it aborts,
// promotes by hand and after a time, and rolls out what fails. CANARY_EVENTS is the
// number of random events.
func TestCampaignCanary(t *testing.T) {
	campaign(t, "campaign-canary")
	s := &canaryStage{blockStage: newBlockStage(t), replicas: 4}
	s.apply(app("  replica: 4\n  rollout: {maxSurge: 2, maxUnavailable: 0, canary: {promote: Manual}}\n"))
	s.ready()
	s.healthy = s.template()
	l, err := load.Start(t.Context(), load.Config{
		URL:  "http://" + s.kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}") + "/",
		Rate: 50, Least: 250, Most: 1_000_000, Limit: 30 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.edit("nginx:1.27.3")
	s.held()
	s.prints("1 20", "get", "demoapp", "web", "-o", "jsonpath={.status.canary.readyPods} {.status.canary.trafficPercent}")
	if out, err := run(t.Context(), "", "kubectl", "-n", s.ns, "rollout", "status", "deploy/web", "--timeout=1s"); err == nil || !strings.Contains(out, "1 out of 4 new replicas") {
		t.Errorf("kubectl rollout status during the hold: %s %v", out, err)
	}
	s.disturb()

	s.edit("nginx:1.27.4") // back to what serves
	s.writes("aborted", abortWithin, "nginx:1.27.4 2")
	s.ready()
	s.edit("nginx:1.27.3")
	s.held()
	s.patch("demoapp/web", fmt.Sprintf(`{"rollout":{"promotedRevision":%s}}`, s.kubectl("get", "demoapp", "web", "-o", "jsonpath={.status.canary.revision}")))
	s.writes("promoted by hand", promoteWithin, "nginx:1.27.3 2")
	s.ready()
	s.kubectl("rollout", "status", "deploy/web", "--timeout=1s")

	s.healthy = s.template()
	s.patch("demoapp/web", fmt.Sprintf(`{"image":"nginx:1.23.1","rollout":{"canary":{"promote":"Automatic","holdSeconds":%d}}}`, int(canaryHold.Seconds())))
	s.held()
	began := time.Now()
	s.prints("nginx:1.23.1 2", "get", "deploy", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image} {.spec.strategy.rollingUpdate.maxSurge}")
	if took := time.Since(began); took > canaryHold+promoteWithin {
		t.Errorf("promoted after %s", took)
	}
	s.ready()
	s.edit("nginx:is-not-there")
	s.rolledBack("demoapp/web")
	l.End()
	if result := l.Wait(); result.Failed() > 0 {
		t.Errorf("requests failed: %s", result)
	} else {
		t.Logf("%d requests, none failed", result.Requests)
	}
	if got := len(strings.Fields(s.kubectl("get", "replicasets,hpa,pdb", "-l", "app=web", "-o", "name"))); got > 8 {
		t.Errorf("%d ReplicaSets, autoscalers and budgets", got)
	}
	leads(t)
}

// disturb lets random events happen while a canary is held.
func (s *canaryStage) disturb() {
	s.Helper()
	ctx, stop := context.WithCancel(s.Context())
	var watching sync.WaitGroup
	watching.Go(func() { s.watch(ctx) })
	n, err := strconv.Atoi(os.Getenv("CANARY_EVENTS"))
	if err != nil {
		n = 20
	}
	images := []string{"nginx:1.27.3", "nginx:1.23.1"}
	for i := range n {
		switch event := rand.IntN(10); { //nolint:gosec // not a secret
		case i%10 == 5:
			if err := killLeader(&scene{ctx: s.Context()}); err != nil {
				s.Error(err)
			}
			leads(s.T)
		case event < 2:
			s.Logf("%s edit", time.Now().UTC().Format(time.TimeOnly))
			s.edit(images[i%2])
		case event < 6:
			s.Logf("%s scale", time.Now().UTC().Format(time.TimeOnly))
			s.scale(3 + rand.IntN(5)) //nolint:gosec // as above
		default:
			pods, err := s.list(s.Context())
			if err != nil || len(pods) == 0 {
				s.Errorf("%d pods, %v", len(pods), err)
				continue
			}
			s.Logf("%s delete", time.Now().UTC().Format(time.TimeOnly))
			s.kubectl("delete", "pod", pods[rand.IntN(len(pods))].name, "--wait=false") //nolint:gosec // as above
		}
		time.Sleep(3 * time.Second)
	}
	s.scale(4)
	s.held()
	stop()
	watching.Wait()
	for _, p := range s.problems {
		s.Error(p)
	}
}

func (s *canaryStage) edit(image string) {
	s.Helper()
	s.patch("demoapp/web", fmt.Sprintf(`{"image":%q}`, image))
}

func (s *canaryStage) scale(n int) {
	s.Helper()
	s.mu.Lock()
	s.replicas = min(s.replicas, n)
	s.mu.Unlock()
	s.patch("demoapp/web", fmt.Sprintf(`{"replica":%d}`, n))
	s.prints(strconv.Itoa(n), "get", "deploy", "web", "-o", "jsonpath={.spec.replicas}")
	s.mu.Lock()
	s.replicas = n
	s.mu.Unlock()
}

func (s *canaryStage) template() string {
	s.Helper()
	return s.kubectl("get", "deploy", "web", "-o", `jsonpath={.spec.template.metadata.annotations.platform-operator\.io/template}`)
}

// held waits until the canary is held, and the spec was observed.
func (s *canaryStage) held() {
	s.Helper()
	s.heldIs("demoapp", "Canary")
}

func (s *canaryStage) heldIs(kind, reason string) {
	s.Helper()
	eventually(s.T, "the hold", func() error {
		out, err := run(s.Context(), "", "kubectl", "-n", s.ns, "get", kind, "web", "-o", `jsonpath={.metadata.generation} {.status.observedGeneration} {.status.conditions[?(@.type=="Ready")].reason}`)
		if f := strings.Fields(out); err == nil && (len(f) != 3 || f[0] != f[1] || f[2] != reason) {
			err = errors.New(out)
		}
		return err
	})
}

// writes waits until the Deployment has an image and the maxSurge of the spec.
func (s *canaryStage) writes(step string, within time.Duration, want string) {
	s.Helper()
	began := time.Now()
	s.prints(want, "get", "deploy", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image} {.spec.strategy.rollingUpdate.maxSurge}")
	took := time.Since(began)
	s.Logf("%s after %s", step, took.Round(10*time.Millisecond))
	if took > within {
		s.Errorf("%s after %s", step, took)
	}
}

// canaryPod is a pod that is not being deleted.
type canaryPod struct {
	name, template string
	ready          bool
}

func (s *canaryStage) list(ctx context.Context) ([]canaryPod, error) {
	out, err := run(ctx, "", "kubectl", "-n", s.ns, "get", "pods", "-l", "app=web", "-o",
		`jsonpath={range .items[*]}{.metadata.name},{.metadata.annotations.platform-operator\.io/template},{.status.conditions[?(@.type=="Ready")].status},{.metadata.deletionTimestamp}{"\n"}{end}`)
	var all []canaryPod
	for line := range strings.Lines(out) {
		if f := strings.Split(strings.TrimSpace(line), ","); len(f) == 4 && f[3] == "" {
			all = append(all, canaryPod{f[0], f[1], f[2] == "True"})
		}
	}
	return all, err
}

// watch checks that there are as many pods of the earlier revision as replicas, except for
// those that were deleted a moment ago, and at most one more than one of the canary.
func (s *canaryStage) watch(ctx context.Context) {
	seen := map[string]int{}
	for ctx.Err() == nil {
		pods, err := s.list(ctx)
		if err != nil {
			continue
		}
		earlier, canary := 0, 0
		for _, p := range pods {
			switch {
			case p.template == s.healthy:
				earlier++
			case p.ready:
				canary++
			}
		}
		s.mu.Lock()
		n := s.replicas
		s.mu.Unlock()
		seen[fmt.Sprintf("%d pods", canary)]++
		if canary > 2 || earlier < n-1 {
			s.problems = append(s.problems, fmt.Sprintf("%s: %d pods of the canary are ready, and there are %d of the earlier revision, of %d replicas", time.Now().UTC().Format(time.TimeOnly), canary, earlier, n))
		}
		time.Sleep(200 * time.Millisecond)
	}
	s.Logf("samples with as many ready pods of a canary: %v", seen)
}

// TestCampaignCanary_Judged rolls out versions of a WebServer that answer a fifth of the
// requests with 500, at five requests a second to the canary: each is rolled back within
// brokenWithin, for that reason. A version without errors is promoted, and one without
// requests is not. CANARY_VERSIONS is the number of broken versions.
func TestCampaignCanary_Judged(t *testing.T) {
	campaign(t, "campaign-canary")
	const brokenWithin = 30 * time.Second
	s := &canaryStage{blockStage: newBlockStage(t)}
	get := func(path string) string {
		t.Helper()
		return s.kubectl("get", "webserver", "web", "-o", "jsonpath="+path)
	}
	s.apply(`{apiVersion: my.domain/v1, kind: WebServer, metadata: {name: web}, spec: {image: "nginx:1.27.4", replicas: 1, service: {type: ClusterIP},
		content: {files: {index.html: "1"}}, rollout: {canary: {holdSeconds: 40, maxErrorRatio: "5%"}}}}`)
	awaitReady(t, s.ns, "webserver/web")
	s.healthy = s.template()
	url := "http://" + s.kubectl("get", "service", "web-service", "-o", "jsonpath={.spec.clusterIP}") + "/"
	start := func() *load.Load {
		t.Helper()
		l, err := load.Start(t.Context(), load.Config{URL: url, Rate: 10, Most: 1_000_000, Limit: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := start()
	n, err := strconv.Atoi(os.Getenv("CANARY_VERSIONS"))
	if err != nil {
		n = 3
	}
	for i := range n {
		s.patch("webserver/web", fmt.Sprintf(`{"config":{"http":"split_clients $request_id $broken { 20%% 1; * ''; }","inline":"# %d\nif ($broken) { return 500; }"}}`, i))
		s.heldIs("webserver", "Canary")
		ready, err := time.Parse(time.RFC3339, get("{.status.canary.since}"))
		if err != nil {
			t.Fatal(err)
		}
		s.prints("RolledBack", "get", "webserver", "web", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].reason}`)
		stopped, err := time.Parse(time.RFC3339, get("{.status.lastActions[0].time}"))
		if err != nil {
			t.Fatal(err)
		}
		after := stopped.Sub(ready)
		t.Logf("stopped after %s: %s", after, get("{.status.lastActions[0].message}"))
		if after > brokenWithin {
			t.Errorf("version %d was stopped after %s", i, after)
		}
		if got := get("{.status.lastActions[0].reason} {.status.lastActions[0].type}"); got != "ErrorRatioExceeded Rollback" {
			t.Errorf("the action of version %d: %s", i, got)
		}
		if i == 0 {
			t.Log(s.kubectl("get", "webserver", "web"), "\n", get(`{.status.conditions[?(@.type=="Ready")].message}`))
		}
		s.prints("1 1 1", "get", "deploy", "web", "-o", "jsonpath={.status.replicas} {.status.updatedReplicas} {.status.availableReplicas}")
		if got := s.template(); got != s.healthy {
			t.Errorf("version %d: another revision serves", i)
		}
	}
	l.End()
	t.Logf("with the broken versions: %s", l.Wait())

	l = start()
	s.patch("webserver/web", `{"config":null,"content":{"files":{"index.html":"2"}}}`)
	s.heldIs("webserver", "Canary")
	s.prints("1 1 1", "get", "deploy", "web", "-o", "jsonpath={.status.replicas} {.status.updatedReplicas} {.status.availableReplicas}")
	awaitReady(t, s.ns, "webserver/web")
	l.End()
	if result := l.Wait(); result.Failed() > 0 {
		t.Errorf("requests failed during the promotion: %s", result)
	}
	if restarts := s.kubectl("get", "pods", "-o", "jsonpath={.items[*].status.initContainerStatuses[?(@.name==\"judge\")].lastState.terminated.message}"); !strings.Contains(restarts, "within the limit of 5%") {
		t.Errorf("the verdict: %q", restarts)
	}

	address := s.kubectl("get", "pods", "-o", "jsonpath={.items[0].status.podIP}")
	if counts, err := page(t.Context(), "http://"+net.JoinHostPort(address, "9182")+"/metrics"); err != nil || !strings.Contains(counts, `webserver_http_responses_total{code="2xx"} `) {
		t.Errorf("metrics after the hold: %s %v", counts, err)
	}

	s.patch("webserver/web", `{"content":{"files":{"index.html":"3"}}}`)
	s.heldIs("webserver", "NotJudged")
	t.Log(get(`{.status.conditions[?(@.type=="Ready")].message}`))
}

// TestCampaignCanary_FewErrors rolls out versions of several WebServers at the same time that
// answer 2 % of the requests with 500, at five requests a second to each canary: by a limit of
// 5 %, all are promoted. CANARY_ROUNDS is the number of versions of each.
func TestCampaignCanary_FewErrors(t *testing.T) {
	campaign(t, "campaign-canary")
	const servers, hold = 16, 60
	s := &canaryStage{blockStage: newBlockStage(t)}
	name := func(i int) string { return fmt.Sprintf("web-%d", i) }
	for i := range servers {
		s.apply(fmt.Sprintf(`{apiVersion: my.domain/v1, kind: WebServer, metadata: {name: %s}, spec: {image: "nginx:1.27.4", replicas: 1, service: {type: ClusterIP},
			content: {files: {index.html: "1"}}, rollout: {canary: {holdSeconds: %d, maxErrorRatio: "5%%"}}}}`, name(i), hold))
	}
	var loads []*load.Load
	for i := range servers {
		awaitReady(t, s.ns, "webserver/"+name(i))
		l, err := load.Start(t.Context(), load.Config{
			URL:  "http://" + s.kubectl("get", "service", name(i)+"-service", "-o", "jsonpath={.spec.clusterIP}") + "/",
			Rate: 10, Most: 1_000_000, Limit: 30 * time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		loads = append(loads, l)
	}
	rounds, err := strconv.Atoi(os.Getenv("CANARY_ROUNDS"))
	if err != nil {
		rounds = 2
	}
	for round := range rounds {
		for i := range servers {
			s.patch("webserver/"+name(i), fmt.Sprintf(`{"config":{"http":"split_clients $request_id $broken { 2%% 1; * ''; }","inline":"# %d\nif ($broken) { return 500; }"}}`, round))
		}
		for i := range servers {
			eventually(t, "the end of the hold", func() error {
				out, err := run(t.Context(), "", "kubectl", "-n", s.ns, "get", "webserver", name(i), "-o",
					`jsonpath={.metadata.generation} {.status.observedGeneration} {.status.conditions[?(@.type=="Ready")].reason}`)
				if f := strings.Fields(out); err == nil && (len(f) != 3 || f[0] != f[1] || f[2] != "Serving" && f[2] != "RolledBack") {
					err = errors.New(out)
				}
				return err
			})
		}
	}
	stopped := s.kubectl("get", "webservers", "-o", `jsonpath={range .items[*]}{.status.lastActions[*].message}{end}`)
	judged := strings.Count(s.kubectl("get", "pods", "-o", "jsonpath={.items[*].status.initContainerStatuses[?(@.name==\"judge\")].lastState.terminated.message}"), "within the limit of 5%")
	if stopped != "" || judged < servers {
		t.Errorf("%d of %d canaries passed the last round, and stopped were: %s", judged, servers, stopped)
	}
	for _, l := range loads {
		l.End()
		t.Log(l.Wait())
	}
	t.Logf("%d versions with 2 %% errors, none stopped", rounds*servers)
}

// TestCampaignCanary_Metrics judges versions of a DemoApplication by the counter in its
// metrics, which it increases by itself: one with errors is rolled back, one without that
// counter is not, and is promoted when the spec names the one that it has.
func TestCampaignCanary_Metrics(t *testing.T) {
	campaign(t, "campaign-canary")
	s := &canaryStage{blockStage: newBlockStage(t)}
	version := func(samples string) string {
		return fmt.Sprintf(`n=0; while :; do n=$((n+10)); printf '%s' >/usr/share/nginx/html/metrics; sleep 1; done & exec nginx -g 'daemon off;'`, samples)
	}
	change := func(samples string) {
		t.Helper()
		s.patch("demoapp/web", fmt.Sprintf(`{"args":[%q]}`, version(samples)))
	}
	const good = `http_requests_total{code="200"} '$n'\n`
	s.apply(app(fmt.Sprintf("  command: [sh, -c]\n  args: [%q]\n  rollout: {canary: {holdSeconds: 20, maxErrorRatio: 5%%}}\n", version(good))))
	s.ready()
	change(good + `http_requests_total{code="500"} '$((n/5))'\n`)
	s.rolledBack("demoapp/web")
	s.prints("ErrorRatioExceeded", "get", "demoapp", "web", "-o", "jsonpath={.status.lastActions[0].reason}")

	change(`requests{class="2xx"} '$n'\n`)
	s.heldIs("demoapp", "NotJudged")
	message := s.kubectl("get", "demoapp", "web", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].message}`)
	if t.Log(message); !strings.Contains(message, "has no counter http_requests_total. Correct rollout.requestCounter") {
		t.Error("the message does not name the field")
	}
	s.patch("demoapp/web", `{"rollout":{"requestCounter":{"name":"requests","label":"class"}}}`)
	s.ready()
}
