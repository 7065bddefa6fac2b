//go:build e2e

package e2e

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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
	// reason is what kubectl get shows, and says a part of the message in -o wide. reason is
	// empty if the object stays Ready.
	reason, says string
	// truth and remedy match the words by which a user recognises the true cause and the
	// right remedy: a field, an object or a command.
	truth, remedy string
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
	aside                    // the same, but the pods serve, and nothing is rolled out
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
	// toCause and toRemedy are the screens that were needed.
	toCause, toRemedy int
}

// screens are what users look at, in this order: kubectl get, and one command after it.
var screens = []struct {
	commands int
	command  []string
}{
	{1, []string{"kubectl", "get"}},
	{2, []string{"kubectl", "get", "-o", "wide"}},
	{2, []string{"../bin/kubectl-platform", "status"}},
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

	denies := func(name string) func(*causeRun) error {
		return func(r *causeRun) error {
			server, err := r.otherRegistry()
			if err != nil {
				return err
			}
			r.Cleanup(func() { _ = registry(name, "") })
			return registry(name, server)
		}
	}
	both := func(all ...func(*causeRun) error) func(*causeRun) error {
		return func(r *causeRun) (err error) {
			for _, f := range all {
				err = errors.Join(err, f(r))
			}
			return err
		}
	}
	const exposed = `{"expose":{"type":"Ingress","hosts":["NAMESPACE.example.com"],"ingress":{"ingressClassName":"nosuch"}}}`

	return []cause{
		{name: "the image does not exist", kind: webServerKind, spec: web + `}`, change: `{"image":"nginx:nosuch"}`, mend: other, reason: "ImagePull", says: "nginx:nosuch", truth: `nginx:nosuch: not found`, remedy: `Correct the image`},
		{
			name: "the image of a cache does not exist", kind: memcachedKind, spec: `{size: 2, image: "memcached:1.6.18"}`,
			change: `{"image":"memcached:nosuch"}`, mend: `{"image":"memcached:1.6"}`, reason: "ImagePull", says: "memcached:nosuch", truth: `memcached:nosuch: not found`, remedy: `Correct the image`,
		},
		{name: "the command is not in the image", kind: demoApplicationKind, spec: app + `}`, change: `{"command":["/nosuch"]}`, mend: noScript, reason: "Crash|ContainerNotCreated", truth: `exec: "/nosuch"`, remedy: `Correct spec.command`},
		{name: "the container exits at once", kind: webServerKind, spec: web + `}`, change: `{"image":"nginx:crash"}`, mend: other, reason: "Crash", truth: `this image always fails`, remedy: `logs .*--previous|Change the spec`},
		{
			name: "a worker exits two seconds after its start", kind: demoApplicationKind, spec: `{image: "nginx:1.27.3", replica: 3}`,
			change: script("sleep 2; echo unknown flag; exit 1"), mend: noScript, reason: "Crash", truth: `unknown flag`, remedy: `logs .*--previous|Change the spec`,
		},
		{
			name: "the container exits eight seconds after it is ready", blame: gradual, kind: demoApplicationKind, spec: app + `}`,
			change: script("nginx; sleep 8; echo lost; exit 3"), mend: noScript, reason: "Crash", says: "code 3", truth: `code 3: .*lost`, remedy: `logs .*--previous|Change the spec`,
		},
		{
			name: "the container needs more memory than its limit", kind: demoApplicationKind, spec: app + `}`,
			change: `{"command":["sh","-c","exec tail -c 200m /dev/zero"],"resources":{"limits":{"memory":"16Mi"}}}`, mend: `{"command":null,"resources":{"limits":null}}`,
			reason: "Crash", says: "137", truth: `OOMKilled`, remedy: `spec.resources.limits.memory`,
		},
		{
			name: "nginx rejects the configuration", kind: webServerKind, spec: web + `}`, change: `{"config":{"inline":"retrun 200;"}}`, mend: `{"config":null}`,
			reason: "ConfigInvalid", truth: `unknown directive "retrun"`, remedy: `Correct spec.config`,
		},

		{
			name: "a script does not begin with #!", kind: demoApplicationKind, spec: app + `}`,
			begin:  yaml(`{apiVersion: v1, kind: ConfigMap, metadata: {name: script}, data: {run: "echo hello"}}`),
			change: `{"command":["/s/run"],"pod":{"volumes":[{"name":"s","configMap":{"name":"script","defaultMode":493}}],"volumeMounts":[{"name":"s","mountPath":"/s"}]}}`,
			mend:   `{"command":null,"pod":null}`, reason: "Crash", truth: `exec /s/run: exec format error`, remedy: `Begin the script with #!`,
		},

		{name: "the container never answers", blame: uncertain, kind: webServerKind, spec: web + `}`, change: `{"image":"nginx:mute"}`, mend: other, reason: "NotReady", truth: `probe failed`, remedy: `the program in the container`},
		{
			name: "the container listens on another port", blame: uncertain, kind: demoApplicationKind, spec: app + `}`,
			change: `{"ports":[{"port":80,"targetPort":9999}]}`, mend: `{"ports":[{"port":80}]}`, reason: "NotReady", truth: `:9999: connect: connection refused`, remedy: `the ports in the spec`,
		},
		{
			name: "the path of the readiness probe does not exist", blame: uncertain, kind: demoApplicationKind, spec: app + `}`,
			change: `{"probes":{"readiness":{"httpGet":{"path":"/nosuch","port":80}}}}`, mend: `{"probes":null}`,
			reason: "NotReady", truth: `statuscode: 404`, remedy: `spec.probes`,
		},
		{
			name: "the image runs as root under Restricted", blame: uncertain, kind: demoApplicationKind, spec: app + `}`,
			change: `{"security":{"profile":"Restricted"}}`, mend: `{"security":null}`,
			reason: "ContainerNotCreated", truth: `runAsNonRoot`, remedy: `spec.security.runAsUser`,
		},
		{
			name: "the Secret for the registry has the wrong type", blame: uncertain, kind: webServerKind, spec: web + `}`,
			begin:  both(denies("denied.example"), run("create", "secret", "generic", "login", "--from-literal=username=me")),
			change: `{"image":"denied.example/library/nginx:1.27.4","imagePullSecrets":[{"name":"login"}]}`, mend: `{"image":"nginx:1.27.4","imagePullSecrets":null}`,
			reason: "ImagePull", truth: `authorization failed|no basic auth|401`, remedy: `kubernetes.io/dockerconfigjson`,
		},
		{
			name: "the image is for another architecture", blame: uncertain, kind: webServerKind, spec: web + `}`, begin: denies("mainframe.example"),
			change: `{"image":"mainframe.example/s390x/nginx:1.27.4"}`, mend: other, reason: "ImagePull", truth: `no match for platform`, remedy: `architecture of the nodes`,
		},
		{
			name: "an admission policy denies the pods", blame: uncertain, kind: webServerKind, spec: web + `}`, begin: yaml(policy), change: other, mend: first,
			end:    run("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", "NAMESPACE"),
			reason: "AdmissionRefused", says: "1.27.4 is not approved", truth: `1.27.4 is not approved`, remedy: `Change the spec as the message requires`,
		},

		{
			name: "a quota is exhausted", blame: environment, kind: webServerKind, spec: web + `}`, begin: quota("pods=2"), change: other,
			end: run("delete", "quota", "small"), reason: "QuotaExceeded", says: "exceeded quota: small", truth: `exceeded quota: small`, remedy: `Raise the quota`,
		},
		{
			name: "a quota requires limits", blame: environment, kind: webServerKind, spec: web + `}`, begin: quota("limits.cpu=1"), change: other,
			end: run("delete", "quota", "small"), reason: "QuotaExceeded", says: "must specify limits.cpu", truth: `must specify limits.cpu`, remedy: `spec.resources`,
		},
		{
			name: "a LimitRange refuses the request", blame: environment, kind: demoApplicationKind, spec: app + `}`, change: other,
			begin: yaml(`{apiVersion: v1, kind: LimitRange, metadata: {name: small}, spec: {limits: [{type: Container, min: {cpu: 20m}}]}}`),
			end:   run("delete", "limitrange", "small"), reason: "AdmissionRefused", says: "minimum cpu usage", truth: `minimum cpu usage per Container is 20m`, remedy: `spec.resources`,
		},
		{
			name: "an admission webhook is down", blame: environment, kind: webServerKind, spec: web + `}`, begin: yaml(webhook), change: other,
			end: run("delete", "validatingwebhookconfiguration", "NAMESPACE"), reason: "WebhookFailed", says: "mesh.example.com", truth: `mesh.example.com`, remedy: `Repair the webhook`,
		},
		{
			name: "the namespace enforces Pod Security", blame: environment, kind: demoApplicationKind, spec: app + `}`, change: other,
			begin: run("label", "namespace", "NAMESPACE", "pod-security.kubernetes.io/enforce=restricted"),
			end:   run("label", "namespace", "NAMESPACE", "pod-security.kubernetes.io/enforce-"), reason: "AdmissionRefused", says: "security.profile", truth: `violates PodSecurity`, remedy: `spec.security.profile`,
		},
		{
			name: "no node can run the pods", blame: environment, kind: webServerKind, spec: web + `}`, change: `{"pod":{"nodeSelector":{"NAMESPACE":"true"}}}`,
			end: run("label", "node", "--all", "NAMESPACE=true"), reason: "Unschedulable", truth: `node affinity/selector`, remedy: `spec.pod.nodeSelector`,
		},
		{
			name: "a ConfigMap of the environment is missing", blame: environment, kind: demoApplicationKind, spec: app + `}`,
			change: `{"envFrom":[{"configMapRef":{"name":"absent"}}]}`, end: run("create", "configmap", "absent"), reason: "ReferenceNotFound", says: "absent", truth: `configmap "absent" not found`, remedy: `Create the object`,
		},
		{
			name: "a Secret of a volume is missing", blame: environment, kind: demoApplicationKind, spec: app + `}`,
			change: `{"pod":{"volumes":[{"name":"s","secret":{"secretName":"absent"}}],"volumeMounts":[{"name":"s","mountPath":"/s"}]}}`,
			end:    run("create", "secret", "generic", "absent"), heals: 150 * time.Second, reason: "ReferenceNotFound", says: "absent", truth: `secret "absent" not found`, remedy: `Create the object`,
		},
		{
			name: "a ConfigMap lacks a key", blame: environment, kind: demoApplicationKind, spec: app + `}`,
			begin:  run("create", "configmap", "settings", "--from-literal=other=1"),
			change: `{"env":[{"name":"LEVEL","valueFrom":{"configMapKeyRef":{"name":"settings","key":"level"}}}]}`,
			end:    run("patch", "configmap", "settings", "--type=merge", "-p", `{"data":{"level":"1"}}`),
			reason: "ReferenceNotFound", truth: `couldn't find key level in ConfigMap`, remedy: `Add the key`,
		},
		{
			name: "a Secret of a volume lacks a key", blame: environment, kind: demoApplicationKind, spec: app + `}`,
			begin:  run("create", "secret", "generic", "settings", "--from-literal=other=1"),
			change: `{"pod":{"volumes":[{"name":"s","secret":{"secretName":"settings","items":[{"key":"absent","path":"x"}]}}],"volumeMounts":[{"name":"s","mountPath":"/s"}]}}`,
			end:    run("patch", "secret", "settings", "--type=merge", "-p", `{"stringData":{"absent":"1"}}`), heals: 150 * time.Second,
			reason: "ReferenceNotFound", truth: `references non-existent secret key: absent`, remedy: `Add the key`,
		},
		{
			name: "a PersistentVolumeClaim is never bound", blame: environment, kind: demoApplicationKind, spec: app + `}`,
			begin:  yaml(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {storageClassName: nosuch, accessModes: [ReadWriteMany], resources: {requests: {storage: 1Mi}}}}`),
			change: `{"pod":{"volumes":[{"name":"d","persistentVolumeClaim":{"claimName":"data"}}],"volumeMounts":[{"name":"d","mountPath":"/d"}]}}`,
			end: yaml(`{apiVersion: v1, kind: PersistentVolume, metadata: {name: NAMESPACE}, spec: {storageClassName: nosuch, accessModes: [ReadWriteMany],
capacity: {storage: 1Mi}, hostPath: {path: /tmp}, claimRef: {namespace: NAMESPACE, name: data}}}`),
			reason: "Unschedulable", truth: `class.* "nosuch" not found`, remedy: `storage class of the PersistentVolumeClaim`,
		},
		{
			name: "the registry does not answer", blame: environment, kind: webServerKind, spec: web + `}`, change: `{"image":"absent.example/library/nginx:1.27.4","imagePullPolicy":"Always"}`,
			begin: func(*causeRun) error { return registry("absent.example", "http://10.10.10.1:1") }, end: func(*causeRun) error { return registry("absent.example", "") },
			reason: "ImagePull", says: "registry cannot be reached", truth: `connection refused`, remedy: `the registry or the network`,
		},
		{
			name: "a pod is evicted", blame: environment, kind: demoApplicationKind,
			spec:   app + `, pod: {volumes: [{name: e, emptyDir: {sizeLimit: 1Mi}}], volumeMounts: [{name: e, mountPath: /e}]}}`,
			begin:  run("exec", "deployment/shop", "--", "dd", "if=/dev/zero", "of=/e/full", "bs=1M", "count=9"),
			reason: "Progressing", truth: `exceeds the limit`, remedy: `raise the limit`,
		},
		{
			name: "the node port is taken", blame: aside, kind: demoApplicationKind, spec: app + `}`,
			begin:  yaml(`{apiVersion: v1, kind: Service, metadata: {name: other}, spec: {type: NodePort, ports: [{port: 80, nodePort: 32123}]}}`),
			change: `{"ports":[{"port":80,"nodePort":32123}]}`, end: run("delete", "service", "other"),
			reason: "NodePortUnavailable", truth: `32123.* already allocated`, remedy: `Choose another one`,
		},
		{
			name: "another Ingress has the name", blame: aside, kind: webServerKind, spec: web + `}`,
			begin:  yaml(`{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: shop}, spec: {ingressClassName: nosuch, defaultBackend: {service: {name: shop-service, port: {number: 80}}}}}`),
			change: exposed, end: run("delete", "ingress", "shop"), reason: "Conflict", truth: `Ingress "shop" exists already`, remedy: `Delete or rename it`,
		},
		{
			name: "the ingress class does not exist", blame: aside, kind: webServerKind, spec: web + `}`, change: exposed, mend: `{"expose":null}`,
			truth: `class nosuch, no address`, remedy: `Check the ingress class`,
		},
		{
			name: "the cluster has no load balancers", blame: aside, kind: webServerKind, spec: web + `}`,
			change: `{"service":{"type":"LoadBalancer"}}`, mend: `{"service":{"type":"ClusterIP"}}`,
			truth: `no load balancer has been provisioned`, remedy: `spec.service.type`,
		},
		{
			name: "the cluster has no metrics for an autoscaler", blame: aside, alone: true, kind: demoApplicationKind, spec: app + `}`,
			begin:  func(r *causeRun) error { return r.metricsServer("0") },
			change: `{"replica":null,"autoscaling":{"minReplicas":2,"maxReplicas":3,"targetCPUUtilizationPercentage":80}}`,
			end:    func(r *causeRun) error { return r.metricsServer("1") }, heals: 3 * time.Minute,
			reason: "AutoscalingFailed", truth: `unable to get metrics for resource cpu`, remedy: `Install metrics-server`,
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
			end:   func(r *causeRun) error { return r.node("start") }, reason: "NodeLost", says: "node2", truth: `node2.* does not respond`, remedy: `Repair the node`,
		},
	}
}

// registry makes another server answer for one of the names of the registry, or, if it is
// empty, the registry itself.
func registry(name, server string) error {
	for _, n := range []string{"node1", "node2"} {
		dir := filepath.Join(filepath.Dir(os.Getenv("KUBECONFIG")), n, "etc", "certs.d", name)
		err := os.RemoveAll(dir)
		if server != "" && err == nil {
			err = errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "hosts.toml"), fmt.Appendf(nil, "server = %q\n", server), 0o644))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// otherRegistry starts a registry that has images of another architecture only, below
// s390x/, and wants a login for all others.
func (r *causeRun) otherRegistry() (string, error) {
	const index = "application/vnd.oci.image.index.v1+json"
	body := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:%064d","size":2,
"platform":{"architecture":"s390x","os":"linux"}}]}`, index, 0)
	listener, err := (&net.ListenConfig{}).Listen(r.Context(), "tcp", "10.10.10.1:0")
	if err != nil {
		return "", err
	}
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !strings.HasPrefix(req.URL.Path, "/v2/s390x/") {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", index)
		w.Header().Set("Docker-Content-Digest", fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(body))))
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = io.WriteString(w, body)
	})}
	go func() { _ = s.Serve(listener) }()
	r.Cleanup(func() { _ = s.Close() })
	return "http://" + listener.Addr().String(), nil
}

// here replaces NAMESPACE by the namespace.
func (r *causeRun) here(texts []string) []string {
	return strings.Split(strings.ReplaceAll(strings.Join(texts, "\x00"), "NAMESPACE", r.ns), "\x00")
}

func (r *causeRun) patch(spec string) error {
	return r.kubectl("patch", r.object, "--type=merge", "-p", `{"spec":`+r.here([]string{spec})[0]+`}`)
}

func (r *causeRun) metricsServer(replicas string) error {
	_, err := run(r.Context(), "", "kubectl", "-n", "kube-system", "scale", "deployment/metrics-server", "--replicas="+replicas)
	return err
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

func isRolledBack(o objectOf) bool { return o.condition("Ready").Reason == "RolledBack" }

// isNamed waits until the object names the cause.
func (r *causeRun) isNamed(start time.Time) {
	reason := regexp.MustCompile("^(" + r.reason + ")$")
	if r.reason != "" {
		r.named = r.until(start, "kubectl get to name "+r.reason, func(o objectOf) bool {
			ready := o.condition("Ready")
			return ready.Status == "False" && (reason.MatchString(ready.Reason) || isRolledBack(o)) && strings.Contains(ready.Message, r.says)
		})
	}
	r.look()
	if r.reason == "" {
		r.named = time.Since(start)
	}
}

// look reads the screens of a user, until they show the true cause and the right remedy.
func (r *causeRun) look() {
	truth, remedy := regexp.MustCompile(r.truth), regexp.MustCompile(r.remedy)
	for end := time.Now().Add(mostUntilNamed); ; time.Sleep(time.Second) {
		var shown []string
		for _, s := range screens {
			// The plugin fails if the object is not Ready.
			out, _ := run(r.Context(), "", s.command[0], append(s.command[1:len(s.command):len(s.command)], r.object, "-n", r.ns)...)
			shown = append(shown, out)
		}
		toCause, toRemedy := slices.IndexFunc(shown, truth.MatchString), slices.IndexFunc(shown, remedy.MatchString)
		if toCause >= 0 && toRemedy >= 0 {
			r.toCause, r.toRemedy = max(r.toCause, toCause), max(r.toRemedy, toRemedy)
			return
		}
		if time.Now().After(end) {
			r.Errorf("%s: no screen shows %q and %q:\n%s", r.name, r.truth, r.remedy, strings.Join(shown, "\n"))
			return
		}
	}
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
	if r.blame == uncertain || r.blame == environment {
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
	r.isNamed(start)
	switch r.blame {
	case environment:
		r.waits(start)
	case aside:
	default:
		r.decided = r.until(start, "a rollback", func(o objectOf) bool { return isRolledBack(o) && o.condition("Available").Status == "True" })
		r.look() // most users come afterwards
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
	if rolledBack := len(o.Status.LastActions) > 0; rolledBack == (r.blame >= environment) {
		r.Errorf("%s: rolled back: %v", r.name, rolledBack)
	}
	late := r.blame == certain && (r.named > mostUntilNamed || r.decided > mostUntilBack) || r.blame >= environment && r.recovers > max(mostUntilHealed, r.heals)
	if late {
		r.Errorf("%s takes too long", r.name)
	}
	r.Logf("%s: screens %d and %d, named %s, decided %s, healed %s", r.name, r.toCause, r.toRemedy, r.named.Round(time.Second), r.decided.Round(time.Second), r.recovers.Round(time.Second))
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
	seconds := func(d time.Duration) string { return fmt.Sprintf("%.0f", d.Seconds()) }
	var b strings.Builder
	b.WriteString("## Causes\n\n`make campaign-causes` keeps pods from becoming ready. [Certain](../api/common.md#rollouts) causes must be\n" +
		"named within 45 seconds and rolled back within 90. Those of the environment outlast the deadline of a minute.\n" +
		"Nothing may be rolled back for them, and the object must be Ready within 90 seconds after they end (a Secret\n" +
		"of a volume: 150).\n\n" +
		"The true cause and the right remedy must be on the screen of `kubectl get`, or of one command after it\n" +
		"(`-o wide`, or `kubectl platform status`). Times are in seconds.\n\n")
	fmt.Fprintf(&b, "%s\n\n", machine(t))
	b.WriteString("| cause | `Ready` shows | after | commands | then | healed after |\n|---|---|---:|---:|---|---:|\n")
	for _, r := range runs {
		then := map[blame]string{certain: "rolled back", gradual: "rolled back", uncertain: "at the deadline", environment: "waits", aside: "serves"}[r.blame]
		if r.blame < environment {
			then += ", " + seconds(r.decided)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %d/%d | %s | %s |\n", r.name, strings.ReplaceAll("`"+cmp.Or(r.reason, "Serving")+"`", "|", "` or `"), seconds(r.named),
			screens[r.toCause].commands, screens[r.toRemedy].commands, then, seconds(r.recovers))
	}
	return benchmark.WriteSection(incidentsPage, "# Incidents", causesBegin, causesEnd, b.String())
}
