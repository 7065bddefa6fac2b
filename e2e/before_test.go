//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/platform-operator/platform-operator/e2e/load"
)

// TestRollout_RunsACommandBefore changes an application under load: first with a command
// that fails, then with one that succeeds. The leader is killed while each runs.
func TestRollout_RunsACommandBefore(t *testing.T) {
	campaign(t, "campaign-e2e")
	s := newBlockStage(t)
	const object = "demoapp/web"
	s.apply(app(`  env: [{name: WHO, value: app}]
  networkPolicy: {preset: Isolated}
  rollout: {maxUnavailable: 0, before: {command: [sh, -c, 'echo "first for $WHO"'], env: [{name: WHO, value: shop}]}}
`))
	s.ready()
	image := func(want string) {
		t.Helper()
		if got := s.kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}"); got != want {
			t.Errorf("the Deployment has image %s, want %s", got, want)
		}
	}
	job := func() string {
		t.Helper()
		return s.kubectl("get", "jobs", "-l", "app.kubernetes.io/managed-by=platform-operator", "--sort-by=.metadata.creationTimestamp", "-o", "jsonpath={.items[-1:].metadata.name}")
	}
	if got := s.kubectl("logs", "job/"+job()); got != "first for shop" {
		t.Errorf("the command printed %q", got)
	}
	before := s.kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}")

	l, err := load.Start(t.Context(), load.Config{
		URL:  "http://" + s.kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}") + "/",
		Rate: 50, Least: 250, Most: 50 * int(3*patience.Seconds()), Limit: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	change := func(command string) {
		t.Helper()
		s.patch(object, fmt.Sprintf(`{"image":"nginx:1.27.3","rollout":{"before":{"command":["sh","-c",%q]}}}`, command))
		s.prints("BeforeRollout", "get", object, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].reason}`)
		image(before)
		if err := killLeader(&scene{ctx: t.Context()}); err != nil {
			t.Fatal(err)
		}
	}
	change("sleep 15; echo table exists; exit 3")
	name := job()
	// A child without the label is not in the cache.
	s.kubectl("label", "job", name, "app.kubernetes.io/managed-by-")
	s.stalled(object, "RolloutFailed")
	if got := s.kubectl("get", object, "-o", `jsonpath={.status.lastActions[0].message}`); got != "The command before the rollout failed (exit code 3): table exists." {
		t.Errorf("the action is %q", got)
	}
	image(before)
	leads(t)
	change("sleep 15; echo done")
	s.ready()
	image("nginx:1.27.3")
	l.End()
	if result := l.Wait(); result.Failed() > 0 {
		t.Errorf("requests failed: %s", result)
	} else {
		t.Logf("%d requests, none failed", result.Requests)
	}
	created := s.kubectl("get", "events", "--field-selector=involvedObject.kind=Job,reason=SuccessfulCreate", "-o", `jsonpath={range .items[*]}{.involvedObject.name} {.count}{"\n"}{end}`)
	if lines := strings.Split(strings.TrimSpace(created), "\n"); len(lines) != 3 || strings.Contains(created, " 2") {
		t.Errorf("three revisions have the pods:\n%s", created)
	}
	if got := strings.Fields(s.kubectl("get", "jobs", "-o", "name")); len(got) != 1 {
		t.Errorf("the Jobs that are kept are %s", got)
	}
	s.prints("", "get", object, "-o", "jsonpath={.status.revisions.failedBefore}")
	leads(t)
}
