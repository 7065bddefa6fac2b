//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/platform-operator/platform-operator/e2e/benchmark"
)

// cause is why the pods of a change, or some of those that serve, do not become ready.
type cause struct {
	name  string
	blame blame
	// object is shop, of a kind, and spec what it serves with.
	kind kind
	spec string
	// change is the change of the spec, and mend the one that ends a cause of the revision.
	change, mend string
	// begin and end are for causes that are not in the spec. The change follows begin, and
	// prepare comes before the object.
	prepare, begin, end func(*causeRun) error
	alone               bool // it concerns the whole cluster
	// reason is what kubectl get shows, and says a part of the message in -o wide.
	reason, says string
	// heals is how soon it heals after its end, if Kubernetes needs longer than usual.
	heals time.Duration
}

// blame is what a cause has to lead to.
type blame int

const (
	certain     blame = iota // named within 45 s, rolled back within 90 s
	gradual                  // rolled back before the deadline: each attempt takes time
	uncertain                // rolled back at the deadline
	environment              // never rolled back, healed within 90 s after it ends
)

const (
	mostUntilNamed, mostUntilBack, mostUntilHealed = 45 * time.Second, 90 * time.Second, 90 * time.Second
	// causeDeadline is the progress deadline of all causes that are to last as long as
	// it.
	causeDeadline = time.Minute
)

// causeRun is a cause as it happens.
type causeRun struct {
	incidentRun
	cause
	reader                   reader
	object                   string
	named, decided, recovers time.Duration
}

func causes() []cause {
	const (
		web   = `{image: "nginx:1.27.3", replicas: 2, service: {type: ClusterIP}`
		app   = `{image: "nginx:1.27.3", replica: 2, resources: {requests: {cpu: 10m}}, ports: [{port: 80}]`
		other = `{"image":"nginx:1.27.4"}`
		first = `{"image":"nginx:1.27.3"}`
	)
	script := func(s string) string { return `{"command":["sh","-c","` + s + `"]}` }
	const noScript = `{"command":null}`
	run := func(args ...string) func(*causeRun) error {
		return func(r *causeRun) error { return r.kubectl(r.here(args)...) }
	}
	yaml := func(text string) func(*causeRun) error {
		return func(r *causeRun) error { return r.apply(r.here([]string{text})[0]) }
	}
	quota := func(hard string) func(*causeRun) error {
		return func(r *causeRun) error {
			return errors.Join(r.kubectl("create", "quota", "small", "--hard="+hard),
				r.kubectl("wait", "--for=jsonpath={.status.hard}", "quota/small", longEnough))
		}
	}
	const webhook = `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: NAMESPACE},
webhooks: [{name: mesh.example.com, admissionReviewVersions: [v1], sideEffects: None, failurePolicy: Fail, timeoutSeconds: 2,
clientConfig: {service: {namespace: NAMESPACE, name: nosuch}}, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}},
rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}]}`
	const policy = `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: NAMESPACE}, spec: {
matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]},
validations: [{expression: "object.spec.containers.all(c, !c.image.endsWith('1.27.4'))", message: "1.27.4 is not approved"}]}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: NAMESPACE}, spec: {policyName: NAMESPACE,
validationActions: [Deny], matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}}}}`

	return []cause{
		{name: "the image does not exist", kind: webServerKind, spec: web + `}`, change: `{"image":"nginx:nosuch"}`, mend: other, reason: "ImagePull", says: "nginx:nosuch"},
		{
			name: "the image of a cache does not exist", kind: memcachedKind, spec: `{size: 2, image: "memcached:1.6.18"}`,
			change: `{"image":"memcached:nosuch"}`, mend: `{"image":"memcached:1.6"}`, reason: "ImagePull", says: "memcached:nosuch",
		},
		{name: "the command is not in the image", kind: demoApplicationKind, spec: app + `}`, change: `{"command":["/nosuch"]}`, mend: noScript, reason: "Crash|ContainerNotCreated"},
		{name: "the container exits at once", kind: webServerKind, spec: web + `}`, change: `{"image":"nginx:crash"}`, mend: other, reason: "Crash"},
		{
			name: "a worker exits two seconds after its start", kind: demoApplicationKind, spec: `{image: "nginx:1.27.3", replica: 3}`,
			change: script("sleep 2; echo unknown flag; exit 1"), mend: noScript, reason: "Crash",
		},
		{
			name: "the container exits eight seconds after it is ready", blame: gradual, kind: demoApplicationKind, spec: app + `}`,
			change: script("nginx; sleep 8; echo lost; exit 3"), mend: noScript, reason: "Crash", says: "code 3",
		},
		{
			name: "the container needs more memory than its limit", kind: demoApplicationKind, spec: app + `}`,
			change: `{"command":["sh","-c","exec tail -c 200m /dev/zero"],"resources":{"limits":{"memory":"16Mi"}}}`, mend: `{"command":null,"resources":{"limits":null}}`,
			reason: "Crash", says: "137",
		},
		{
			name: "nginx rejects the configuration", kind: webServerKind, spec: web + `}`, change: `{"config":{"inline":"retrun 200;"}}`, mend: `{"config":null}`,
			reason: "ConfigInvalid",
		},

		{name: "the container never answers", blame: uncertain, kind: webServerKind, spec: web + `}`, change: `{"image":"nginx:mute"}`, mend: other, reason: "NotReady"},
		{
			name: "the container listens on another port", blame: uncertain, kind: demoApplicationKind, spec: app + `}`,
			change: `{"ports":[{"port":80,"targetPort":9999}]}`, mend: `{"ports":[{"port":80}]}`, reason: "NotReady",
		},
		{
			name: "an admission policy denies the pods", blame: uncertain, kind: webServerKind, spec: web + `}`, begin: yaml(policy), change: other, mend: first,
			end:    run("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", "NAMESPACE"),
			reason: "AdmissionRefused", says: "1.27.4 is not approved",
		},

		{
			name: "a quota is exhausted", blame: environment, kind: webServerKind, spec: web + `}`, begin: quota("pods=2"), change: other,
			end: run("delete", "quota", "small"), reason: "QuotaExceeded", says: "exceeded quota: small",
		},
		{
			name: "a quota requires limits", blame: environment, kind: webServerKind, spec: web + `}`, begin: quota("limits.cpu=1"), change: other,
			end: run("delete", "quota", "small"), reason: "QuotaExceeded", says: "must specify limits.cpu",
		},
		{
			name: "a LimitRange refuses the request", blame: environment, kind: demoApplicationKind, spec: app + `}`, change: other,
			begin: yaml(`{apiVersion: v1, kind: LimitRange, metadata: {name: small}, spec: {limits: [{type: Container, min: {cpu: 20m}}]}}`),
			end:   run("delete", "limitrange", "small"), reason: "AdmissionRefused", says: "minimum cpu usage",
		},
		{
			name: "an admission webhook is down", blame: environment, kind: webServerKind, spec: web + `}`, begin: yaml(webhook), change: other,
			end: run("delete", "validatingwebhookconfiguration", "NAMESPACE"), reason: "WebhookFailed", says: "mesh.example.com",
		},
		{
			name: "the namespace enforces Pod Security", blame: environment, kind: demoApplicationKind, spec: app + `}`, change: other,
			begin: run("label", "namespace", "NAMESPACE", "pod-security.kubernetes.io/enforce=restricted"),
			end:   run("label", "namespace", "NAMESPACE", "pod-security.kubernetes.io/enforce-"), reason: "AdmissionRefused", says: "security.profile",
		},
		{
			name: "no node can run the pods", blame: environment, kind: webServerKind, spec: web + `}`, change: `{"pod":{"nodeSelector":{"NAMESPACE":"true"}}}`,
			end: run("label", "node", "--all", "NAMESPACE=true"), reason: "Unschedulable",
		},
		{
			name: "a ConfigMap of the environment is missing", blame: environment, kind: demoApplicationKind, spec: app + `}`,
			change: `{"envFrom":[{"configMapRef":{"name":"absent"}}]}`, end: run("create", "configmap", "absent"), reason: "ReferenceNotFound", says: "absent",
		},
		{
			name: "a Secret of a volume is missing", blame: environment, kind: demoApplicationKind, spec: app + `}`,
			change: `{"pod":{"volumes":[{"name":"s","secret":{"secretName":"absent"}}],"volumeMounts":[{"name":"s","mountPath":"/s"}]}}`,
			end:    run("create", "secret", "generic", "absent"), heals: 150 * time.Second, reason: "ReferenceNotFound", says: "absent",
		},
		{
			name: "the registry does not answer", blame: environment, kind: webServerKind, spec: web + `}`, change: `{"image":"absent.example/library/nginx:1.27.4"}`,
			begin: func(*causeRun) error { return registry("absent.example", true) }, end: func(*causeRun) error { return registry("absent.example", false) },
			reason: "ImagePull", says: "registry cannot be reached",
		},
		{
			name: "a pod is evicted", blame: environment, kind: demoApplicationKind,
			spec:   app + `, pod: {volumes: [{name: e, emptyDir: {sizeLimit: 1Mi}}], volumeMounts: [{name: e, mountPath: /e}]}}`,
			begin:  run("exec", "deployment/shop", "--", "dd", "if=/dev/zero", "of=/e/full", "bs=1M", "count=9"),
			reason: "Progressing",
		},
		{
			name: "a node is lost during a rollout", blame: environment, alone: true, kind: webServerKind,
			spec: `{image: "nginx:1.27.3", replicas: 4, service: {type: ClusterIP}}`,
			prepare: func(r *causeRun) error {
				// The operator runs on the other node, which is not what is measured.
				return errors.Join(
					r.kubectl("cordon", "node2"), r.operator("rollout", "restart", "deployment/"+operatorName),
					r.operator("rollout", "status", "deployment/"+operatorName, longEnough), r.kubectl("uncordon", "node2"))
			},
			begin: func(r *causeRun) error { return errors.Join(r.patch(other), r.node("kill")) },
			end:   func(r *causeRun) error { return r.node("start") }, reason: "NodeLost", says: "node2",
		},
	}
}

// registry makes one of the names of the registry refuse connections, or answer again.
func registry(name string, refuses bool) error {
	for _, n := range []string{"node1", "node2"} {
		dir := filepath.Join(filepath.Dir(os.Getenv("KUBECONFIG")), n, "etc", "certs.d", name)
		err := os.RemoveAll(dir) //nolint:gosec // the folder of the local cluster
		if refuses && err == nil {
			err = errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "hosts.toml"), []byte("server = \"http://10.10.10.1:1\"\n"), 0o644)) //nolint:gosec // as above
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// here replaces NAMESPACE by the namespace.
func (r *causeRun) here(texts []string) []string {
	return strings.Split(strings.ReplaceAll(strings.Join(texts, "\x00"), "NAMESPACE", r.ns), "\x00")
}

func (r *causeRun) patch(spec string) error {
	return r.kubectl("patch", r.object, "--type=merge", "-p", `{"spec":`+r.here([]string{spec})[0]+`}`)
}

func (r *causeRun) node(what string) error {
	_, err := run(r.Context(), "", "../bin/cluster", what, "node2")
	return err
}

// until waits until the object is as expected, and returns since when.
func (r *causeRun) until(start time.Time, what string, ok func(objectOf) bool) time.Duration {
	r.Helper()
	var took time.Duration
	if err := poll(r.Context(), what, func() error {
		o, err := r.reader.get(r.Context(), r.ns, r.object)
		took = time.Since(start)
		if err == nil && !ok(o) {
			err = fmt.Errorf("%+v", o.Status.Conditions)
		}
		return err
	}); err != nil {
		r.Errorf("%s: %v", r.name, err)
	}
	return took
}

func isReady(o objectOf) bool {
	ready := o.condition("Ready")
	return ready.Status == "True" && ready.ObservedGeneration == o.Metadata.Generation
}

// run lets the cause happen and end, and measures what the object reports.
func (r *causeRun) run() {
	check := func(what string, err error) {
		if err != nil {
			r.Fatalf("%s: %s: %v", r.name, what, err)
		}
	}
	r.object = r.kind.resource + "/shop"
	if r.prepare != nil {
		check("preparing it", r.prepare(r))
	}
	check("creating it", errors.Join(r.apply(r.kind.manifest("shop", r.spec)), r.ready(r.object)))
	if r.blame > gradual {
		check("its deadline", errors.Join(r.patch(fmt.Sprintf(`{"rollout":{"progressDeadlineSeconds":%.0f}}`, causeDeadline.Seconds())), r.ready(r.object)))
	}
	start := time.Now()
	if r.begin != nil {
		check("the cause", r.begin(r))
	}
	if r.change != "" {
		start = time.Now()
		check("the change", r.patch(r.change))
	}
	reason := regexp.MustCompile("^(" + r.reason + ")$")
	back := func(o objectOf) bool { return o.condition("Ready").Reason == "RolledBack" }
	r.named = r.until(start, "kubectl get to name "+r.reason, func(o objectOf) bool {
		ready := o.condition("Ready")
		return ready.Status == "False" && (reason.MatchString(ready.Reason) || back(o)) && strings.Contains(ready.Message, r.says)
	})
	if r.blame == environment {
		r.waits(start)
	} else {
		r.decided = r.until(start, "a rollback", func(o objectOf) bool { return back(o) && o.condition("Available").Status == "True" })
	}
	start = time.Now()
	if r.end != nil {
		check("the end of the cause", r.end(r))
	}
	if r.mend != "" {
		start = time.Now()
		check("the correction", r.patch(r.mend))
	}
	r.recovers = r.until(start, "Ready", isReady)
	r.judge()
}

// waits returns when the cause has lasted longer than the deadline of the rollout. Nothing
// may be rolled back, and what served before serves still.
func (r *causeRun) waits(start time.Time) {
	if r.end == nil {
		return
	}
	r.decided = r.until(start, "the object to wait", func(o objectOf) bool { return o.condition("Stalled").Status == "True" })
	for end := start.Add(causeDeadline + 20*time.Second); time.Now().Before(end); time.Sleep(time.Second) {
		o, err := r.reader.get(r.Context(), r.ns, r.object)
		if err == nil && (len(o.Status.LastActions) > 0 || o.condition("Available").Status != "True") {
			r.Fatalf("%s: %+v", r.name, o.Status)
		}
	}
}

// judge compares what was measured with what is promised.
func (r *causeRun) judge() {
	o, err := r.reader.get(r.Context(), r.ns, r.object)
	if err != nil {
		r.Fatal(err)
	}
	if rolledBack := len(o.Status.LastActions) > 0; rolledBack == (r.blame == environment) {
		r.Errorf("%s: rolled back: %v", r.name, rolledBack)
	}
	late := r.blame == certain && (r.named > mostUntilNamed || r.decided > mostUntilBack) || r.blame == environment && r.recovers > max(mostUntilHealed, r.heals)
	if late {
		r.Errorf("%s takes too long", r.name)
	}
	r.Logf("%s: named %s, decided %s, healed %s", r.name, r.named.Round(time.Second), r.decided.Round(time.Second), r.recovers.Round(time.Second))
}

// TestCampaignCauses measures how soon an object names what keeps its pods from serving, and
// what becomes of it; and writes a table of it if all of that is as documented.
func TestCampaignCauses(t *testing.T) {
	campaign(t, "campaign-causes")
	only := regexp.MustCompile(os.Getenv("CAUSES"))
	var runs []*causeRun
	start := func(t *testing.T, c cause) *causeRun {
		r := &causeRun{cause: c, incidentRun: incidentRun{prometheus: prometheus{t}, ns: namespace(t)}, reader: newReader(t)}
		runs = append(runs, r)
		return r
	}
	for _, alone := range []bool{false, true} {
		t.Run(map[bool]string{false: "together", true: "alone"}[alone], func(t *testing.T) {
			for _, c := range causes() {
				if c.alone != alone || !only.MatchString(c.name) {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					r := start(t, c)
					if !alone {
						t.Parallel()
					}
					r.run()
				})
			}
		})
	}
	if os.Getenv("CAUSES") != "" || t.Failed() {
		return
	}
	if err := writeCauses(t, runs); err != nil {
		t.Error(err)
	}
}

const (
	causesBegin = "<!-- causes: written by make campaign-causes; changes by hand are overwritten -->"
	causesEnd   = "<!-- causes: end -->"
)

func writeCauses(t *testing.T, runs []*causeRun) error {
	t.Helper()
	seconds := func(d time.Duration) string {
		if d == 0 {
			return ""
		}
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	var b strings.Builder
	b.WriteString("## Causes\n\n`make campaign-causes` keeps pods from becoming ready. [Certain](../api/common.md#rollouts) causes must be\n" +
		"named within 45 seconds and rolled back within 90. Those of the environment outlast the deadline of a minute.\n" +
		"Nothing may be rolled back for them, and the object must be Ready within 90 seconds after they end (a Secret\n" +
		"of a volume: 150).\n\n")
	fmt.Fprintf(&b, "%s\n\n", machine(t))
	b.WriteString("| cause | `Ready` shows | after | then | after | healed after |\n|---|---|---:|---|---:|---:|\n")
	for _, r := range runs {
		then := map[blame]string{certain: "rolled back", gradual: "rolled back", uncertain: "rolled back at the deadline", environment: "waits"}[r.blame]
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", r.name, strings.ReplaceAll("`"+r.reason+"`", "|", "` or `"), seconds(r.named), then, seconds(r.decided), seconds(r.recovers))
	}
	return benchmark.WriteSection(incidentsPage, "# Incidents", causesBegin, causesEnd, b.String())
}
