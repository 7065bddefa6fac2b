package model

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Op is an operation of a chain. Its name contains everything that it needs, so
// that a chain is a list of names.
type Op struct {
	// Name is the name of the operation in a chain.
	Name string
	// Kinds are the kinds that it applies to; none means all.
	Kinds []string
	// Early reports whether it is useful before the object exists.
	Early bool
	// Fault reports whether it disturbs the operator rather than the cluster. It
	// affects the next operation, which follows immediately.
	Fault bool
	// Touches reports whether it changes a child that the operator repairs, and
	// Scales whether it may leave fewer pods.
	Touches, Scales bool

	do     func(context.Context, *World) error
	fields []string // what it changes: fields of the spec, or other parts of the cluster
	patch  string   // of the spec
}

// ends are the operations that last until they are undone, and those that undo them,
// which follow soon: while most of them last, the model can expect little.
var ends = map[string]string{
	"pause": "resume", "suspend": "suspend-off", "quota": "quota-off", "quota-limits": "quota-off", "limit-range": "quota-off", "webhook-down": "quota-off",
	"nodes-full": "nodes-added", "nodes-full-1": "nodes-added", "node-lost": "node-back", "pin-1": "unpin", "pin-99": "unpin",
	"halt": "rollback",
}

// opBrief is for chains in which a revision is healthy after a minute, as in a cluster: in
// others, it is healthy at once.
const opBrief = "image-brief"

// For reports whether the operation applies to a kind.
func (o Op) For(k *Kind) bool { return len(o.Kinds) == 0 || slices.Contains(o.Kinds, k.Name) }

var (
	deployed = []string{"webserver", "demoapplication", "memcached"}
	web      = []string{"webserver", "demoapplication"}
	nginx    = []string{"webserver"}
	demo     = []string{"demoapplication"}
	immortal = []string{"immortalcontainer"}
)

// set returns an operation that merges a patch into the spec. In the patch, $IMAGE
// is the kind's image and $REPLICAS its field for the number of pods.
func set(name, patch string, kinds []string) Op {
	return Op{
		Name: name, Kinds: kinds, Early: true, fields: fieldsOf(patch), patch: patch,
		do: func(ctx context.Context, w *World) error {
			w.counter++
			return w.edit(ctx, w.kind.expand(patch, w.counter))
		},
	}
}

// fieldsOf returns the fields that a patch of a spec changes. Those of rollout are
// independent settings, so each is a field of its own.
func fieldsOf(patch string) []string {
	var fields []string
	for field, value := range decode(patch) {
		rollout, _ := value.(map[string]any)
		if field != "rollout" || len(rollout) == 0 {
			fields = append(fields, field)
			continue
		}
		for setting := range rollout {
			fields = append(fields, field+"."+setting)
		}
	}
	slices.Sort(fields)
	return fields
}

// expand replaces the variables of a patch. $COUNT is a time, which depends on n.
func (k *Kind) expand(s string, n int) string {
	return strings.NewReplacer("$IMAGE", k.Image, "$REPLICAS", k.Replicas,
		"$COUNT", fmt.Sprintf("2026-01-01T%02d:%02d:%02dZ", n/3600%24, n/60%60, n%60)).Replace(s)
}

// patchChild returns an operation that changes a child like kubectl patch.
func patchChild(name string, ref func(*Kind) Ref, how types.PatchType, patch string, kinds []string) Op {
	return Op{
		Name: name, Kinds: kinds, Touches: true, fields: []string{kindOf(ref)},
		do: func(ctx context.Context, w *World) error {
			return w.patchChild(ctx, ref(w.kind), how, strings.NewReplacer("$CONTAINER", w.kind.Container, "$NAME", ref(w.kind).Name).Replace(patch))
		},
	}
}

// deleteChild returns an operation that deletes a child.
func deleteChild(name string, ref func(*Kind) Ref, kinds []string) Op {
	return Op{
		Name: name, Kinds: kinds, Touches: true, fields: []string{kindOf(ref)},
		do: func(ctx context.Context, w *World) error { return w.deleteChild(ctx, ref(w.kind)) },
	}
}

func workloadOf(k *Kind) Ref { return k.Workload }
func serviceOf(k *Kind) Ref  { return Ref{"Service", k.Service} }
func policyOf(k *Kind) Ref   { return Ref{"NetworkPolicy", k.Policy} }
func hpaOf(*Kind) Ref        { return Ref{"HorizontalPodAutoscaler", objectName} }
func pdbOf(*Kind) Ref        { return Ref{"PodDisruptionBudget", objectName} }
func ingressOf(*Kind) Ref    { return Ref{"Ingress", objectName} }

func kindOf(ref func(*Kind) Ref) string {
	return ref(&Kind{Workload: Ref{Kind: "Workload"}}).Kind
}

// other returns an operation with code of its own.
func other(name string, kinds []string, do func(context.Context, *World) error) Op {
	group, _, _ := strings.Cut(name, "-")
	return Op{Name: name, Kinds: kinds, do: do, fields: []string{group}}
}

func early(o Op) Op   { o.Early = true; return o }
func touches(o Op) Op { o.Touches = true; return o }
func scales(o Op) Op  { o.Scales = true; return o }

// What operations change besides fields of the spec and children: pods, what the operator
// knows about earlier revisions, and what keeps pods from running.
const (
	fieldPods         = "pods"
	fieldHistory      = "history"
	fieldSurroundings = "surroundings"
)

func ofField(field string, o Op) Op { o.fields = []string{field}; return o }

// catalogue returns all operations.
var catalogue = sync.OnceValue(func() []Op {
	return slices.Concat(lifeOps(), specOps(), webOps(), immortalOps(), inputOps(), childOps(), clusterOps(), faultOps())
})

// lifeOps returns the operations that create and delete the object.
func lifeOps() []Op {
	return []Op{
		early(other("create", nil, func(ctx context.Context, w *World) error { return w.create(ctx) })),
		other("recreate", nil, func(ctx context.Context, w *World) error {
			if err := w.remove(ctx, false); err != nil {
				return err
			}
			return w.create(ctx)
		}),
		set("pause", `{"paused":true}`, nil),
		set("resume", `{"paused":null}`, nil),
	}
}

// specOps returns the operations that change fields of several kinds.
func specOps() []Op {
	return []Op{
		set("image-2", `{"image":"$IMAGE:1.27.2"}`, nil),
		set("image-3", `{"image":"$IMAGE:1.27.3"}`, nil),
		set("image-latest", `{"image":"$IMAGE:latest"}`, nil),
		set("image-crash", `{"image":"$IMAGE:crash"}`, nil),
		set(opBrief, `{"image":"$IMAGE:brief"}`, deployed),
		set("image-late", `{"image":"$IMAGE:late"}`, nil),
		set("image-missing", `{"image":"$IMAGE:missing"}`, nil),
		set("scale-0", `{"$REPLICAS":0}`, deployed),
		set("scale-1", `{"$REPLICAS":1}`, deployed),
		set("scale-3", `{"$REPLICAS":3}`, deployed),
		set("scale-5", `{"$REPLICAS":5}`, deployed),
		set("halt", `{"rollout":{"onFailure":"Halt"}}`, deployed),
		set("rollback", `{"rollout":{"onFailure":"Rollback"}}`, deployed),
		set("pin-1", `{"rollout":{"pinnedRevision":1}}`, deployed),
		set("pin-99", `{"rollout":{"pinnedRevision":99}}`, deployed),
		set("unpin", `{"rollout":{"pinnedRevision":null}}`, deployed),
		set("restart", `{"rollout":{"restartedAt":"$COUNT"}}`, deployed),
		set("unavailable-0", `{"rollout":{"maxUnavailable":0,"maxSurge":1}}`, deployed),
		set("unavailable-1", `{"rollout":{"maxUnavailable":1,"maxSurge":0}}`, deployed),
		set("history-1", `{"rollout":{"revisionHistoryLimit":1}}`, deployed),
		set("history-0", `{"rollout":{"revisionHistoryLimit":0}}`, deployed),
		set("rollout-unset", `{"rollout":{"maxSurge":null,"maxUnavailable":null,"minReadySeconds":null,"onFailure":null,"revisionHistoryLimit":null,"pinnedRevision":null}}`, deployed),
		set("isolate", `{"networkPolicy":{"preset":"Isolated"}}`, nil),
		set("isolate-off", `{"networkPolicy":null}`, nil),
		set("budget", `{"podDisruptionBudget":{"maxUnavailable":2}}`, deployed),
		set("budget-unset", `{"podDisruptionBudget":null}`, deployed),
		set("pod-labels", `{"pod":{"labels":{"team":"a"}}}`, nil),
		set("pod-annotations", `{"pod":{"annotations":{"example.com/a":"b"}}}`, nil),
		set("pod-unset", `{"pod":null}`, nil),
		set("resources", `{"resources":{"requests":{"cpu":"100m"},"limits":{"cpu":"1"}}}`, nil),
		set("placement", `{"pod":{"nodeSelector":{"kubernetes.io/os":"linux"},"tolerations":[{"key":"a","operator":"Exists"}],"terminationGracePeriodSeconds":7}}`, nil),
		set("min-ready", `{"rollout":{"minReadySeconds":1,"progressDeadlineSeconds":2}}`, deployed),
		set("deadline-long", `{"rollout":{"progressDeadlineSeconds":600}}`, deployed),
		set("isolate-range", `{"networkPolicy":{"preset":"Isolated","from":[{"ipBlock":{"cidr":"192.0.2.0/24"}}]}}`, nil),
		set("service-annotations", `{"service":{"annotations":{"example.com/a":"b"}}}`, deployed),
		set("service-unset", `{"service":null}`, deployed),
		set("security", `{"security":{"runAsUser":1001}}`, nil),
		set("security-unset", `{"security":null}`, nil),
	}
}

// webOps returns the operations for the kinds that serve HTTP.
func webOps() []Op {
	return []Op{
		set("autoscale", `{"$REPLICAS":null,"resources":{"requests":{"cpu":"100m"}},"autoscaling":{"minReplicas":2,"maxReplicas":10,"targetCPUUtilizationPercentage":70}}`, web),
		set("autoscale-4", `{"$REPLICAS":null,"resources":{"requests":{"cpu":"100m"}},"autoscaling":{"minReplicas":4,"maxReplicas":6,"targetCPUUtilizationPercentage":70}}`, web),
		set("autoscale-off", `{"autoscaling":null}`, web),
		set("autoscale-off-3", `{"autoscaling":null,"$REPLICAS":3}`, web),
		set("expose", `{"expose":{"type":"Ingress","hosts":["a.example.com"],"gateway":null}}`, web),
		set("expose-gateway", `{"expose":{"type":"Gateway","hosts":["a.example.com"],"ingress":null,"gateway":{"parentRef":{"name":"public"}}}}`, web),
		set("liveness", `{"probes":{"liveness":{"tcpSocket":{"port":80}},"startup":{"tcpSocket":{"port":80},"failureThreshold":60}}}`, web),
		set("expose-off", `{"expose":null}`, web),
		set("monitor", `{"monitoring":{"enabled":true}}`, web),
		set("monitor-off", `{"monitoring":null}`, web),
		set("node-port", `{"service":{"type":"NodePort"}}`, web),
		set("load-balancer", `{"service":{"type":"LoadBalancer"}}`, web),
		set("cluster-ip", `{"service":{"type":"ClusterIP"}}`, web),
		set("volume-secret", `{"pod":{"volumes":[{"name":"s","secret":{"secretName":"secret"}}],"volumeMounts":[{"name":"s","mountPath":"/s","readOnly":true}]}}`, web),
		set("volume-cm", `{"pod":{"volumes":[{"name":"c","configMap":{"name":"cm"}}],"volumeMounts":[{"name":"c","mountPath":"/c","readOnly":true}]}}`, web),

		set("config", `{"config":{"inline":"location /a { return 204; }","configMapRef":null}}`, nginx),
		set("config-http", `{"config":{"http":"map $uri $a { default b; }"}}`, nginx),
		set("config-cm", `{"config":{"inline":null,"configMapRef":{"name":"cm"}}}`, nginx),
		set("config-unset", `{"config":null}`, nginx),
		set("content", `{"content":{"files":{"index.html":"hello"},"configMapRef":null}}`, nginx),
		set("content-cm", `{"content":{"files":null,"configMapRef":{"name":"cm"}}}`, nginx),
		set("content-unset", `{"content":null}`, nginx),
		set("tls", `{"tls":{"secretRef":{"name":"secret"}}}`, nginx),
		set("http3", `{"tls":{"secretRef":{"name":"secret"},"http3":true}}`, nginx),
		set("tls-unset", `{"tls":null}`, nginx),

		set("env", `{"env":[{"name":"A","value":"1"}]}`, demo),
		set("env-unset", `{"env":null,"envFrom":null}`, demo),
		set("env-cm", `{"envFrom":[{"configMapRef":{"name":"cm"}}]}`, demo),
		set("env-secret", `{"envFrom":[{"secretRef":{"name":"secret"}}]}`, demo),
		set("command", `{"command":["nginx"],"args":["-g","daemon off;"]}`, demo),
		set("command-unset", `{"command":null,"args":null}`, demo),
		set("ports-2", `{"ports":[{"name":"a","port":80},{"name":"b","port":81,"targetPort":8081}]}`, demo),
		set("ports-other", `{"ports":[{"port":8080}]}`, demo),
		set("ports-none", `{"ports":null}`, demo),
		set("profile-restricted", `{"security":{"profile":"Restricted","runAsUser":101}}`, demo),
	}
}

// immortalOps returns the operations for ImmortalContainers, and for fields that
// only Memcached has.
func immortalOps() []Op {
	mc := []string{"memcached"}
	return []Op{
		set("suspend", `{"suspend":true}`, immortal),
		set("suspend-off", `{"suspend":null}`, immortal),
		set("i-env", `{"env":[{"name":"A","value":"1"}]}`, immortal),
		set("i-env-unset", `{"env":null,"envFrom":null}`, immortal),
		set("i-command", `{"command":["sleep"],"args":["1"]}`, immortal),
		touches(life("pod-fails", immortal, 1, func(_ *Cluster, p *corev1.Pod) { end(p, corev1.PodFailed, "", 1) })),
		set("memory", `{"memory":{"size":"128Mi"}}`, mc),
		set("memory-unset", `{"memory":null}`, mc),
		set("connections", `{"maxConnections":2048}`, mc),
		set("image-unset", `{"image":null}`, mc),
	}
}

// inputOps returns the operations that change the ConfigMap and the Secret that
// specs refer to.
func inputOps() []Op {
	cm := func(text string) func(context.Context, *World) error {
		return func(ctx context.Context, w *World) error { return w.writeInput(ctx, "ConfigMap", text) }
	}
	return []Op{
		early(other("cm-write", web, cm("# 1"))),
		early(other("cm-change", web, cm("# 2"))),
		early(other("cm-delete", web, func(ctx context.Context, w *World) error { return w.deleteInput(ctx, "ConfigMap") })),
		early(other("secret-write", web,
			func(ctx context.Context, w *World) error { return w.writeInput(ctx, "Secret", "a") })),
		early(other("secret-delete", web, func(ctx context.Context, w *World) error { return w.deleteInput(ctx, "Secret") })),
	}
}

// childOps returns the operations that change and delete children manually.
func childOps() []Op {
	const merge, json, strategic = types.MergePatchType, types.JSONPatchType, types.StrategicMergePatchType
	return []Op{
		scales(deleteChild("delete-workload", workloadOf, nil)),
		deleteChild("delete-service", serviceOf, deployed),
		deleteChild("delete-policy", policyOf, nil),
		deleteChild("delete-hpa", hpaOf, web),
		deleteChild("delete-pdb", pdbOf, deployed),
		deleteChild("delete-ingress", ingressOf, web),
		patchChild("annotate-workload", workloadOf, merge, `{"metadata":{"annotations":{"example.com/note":"x"},"labels":{"x":"y"}}}`, nil),
		patchChild("drift-image", workloadOf, strategic, `{"spec":{"template":{"spec":{"containers":[{"name":"$CONTAINER","image":"other:1"}]}}}}`, deployed),
		patchChild("drift-env", workloadOf, strategic, `{"spec":{"template":{"spec":{"containers":[{"name":"$CONTAINER","env":[{"name":"DEBUG","value":"1"}]}]}}}}`, deployed),
		scales(patchChild("drift-replicas", workloadOf, merge, `{"spec":{"replicas":7}}`, deployed)),
		patchChild("drift-sidecar", workloadOf, strategic, `{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"other:1"}]}}}}`, deployed),
		patchChild("drift-sidecar-crash", workloadOf, strategic, `{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"other:crash"}]}}}}`, deployed),
		// The fields remain those of another manager, too.
		scales(patchChild("applied-by-others", workloadOf, types.ApplyPatchType, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"$NAME"},"spec":{`+
			`"replicas":7,"template":{"spec":{"nodeSelector":{"other":"true"},"containers":[{"name":"side","image":"other:1"}]}}}}`, deployed)),
		patchChild("drift-hostpid", workloadOf, merge, `{"spec":{"template":{"spec":{"hostPID":true}}}}`, deployed),
		patchChild("drift-strategy", workloadOf, merge, `{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}`, deployed),
		patchChild("rollout-pause", workloadOf, merge, `{"spec":{"paused":true}}`, deployed),
		patchChild("rollout-restart", workloadOf, merge, `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"2026-01-01T00:00:00Z"}}}}}`, deployed),
		patchChild("drift-service", serviceOf, json, `[{"op":"replace","path":"/spec/ports/0/port","value":1234}]`, deployed),
		patchChild("drift-policy", policyOf, merge, `{"spec":{"ingress":[{}]}}`, nil),
		patchChild("drift-pod-image", workloadOf, json, `[{"op":"replace","path":"/spec/containers/0/image","value":"other:1"}]`, immortal),
	}
}

// life returns an operation that changes the status of the newest pods that run.
func life(name string, kinds []string, most int, change func(*Cluster, *corev1.Pod)) Op {
	return ofField(fieldPods, other(name, kinds, func(ctx context.Context, w *World) error { return w.live(ctx, most, change) }))
}

// refusals are the messages of the API server about pods that it does not create.
var refusals = map[string]string{
	"quota":        "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1",
	"quota-limits": "failed quota: q: must specify limits.cpu for: o",
	"limit-range":  "minimum cpu usage per Container is 1, but request is 100m",
	"webhook-down": `Internal error occurred: failed calling webhook "sidecar.example.com": failed to call webhook: Post "https://sidecar.mesh.svc:443/inject?timeout=10s": dial tcp 10.0.0.1:443: connect: connection refused`,
	"quota-off":    "",
}

// clusterOps returns the operations that affect pods, their surroundings, revisions and the
// status.
func clusterOps() []Op {
	surroundings := func(name string, change func(*Cluster)) Op {
		return ofField(fieldSurroundings, early(other(name, deployed, func(_ context.Context, w *World) error { change(w.cluster); return nil })))
	}
	all := []Op{
		ofField(fieldPods, other("evict-pod", nil, func(ctx context.Context, w *World) error { return w.deletePods(ctx, 1) })),
		ofField(fieldPods, other("evict-all", nil, func(ctx context.Context, w *World) error { return w.deletePods(ctx, 100) })),
		ofField(fieldHistory, other("delete-revisions", deployed, func(ctx context.Context, w *World) error { return w.deleteRevisions(ctx) })),
		ofField(fieldHistory, other("erase-status", deployed, func(ctx context.Context, w *World) error { return w.eraseStatus(ctx) })),
		scales(other("autoscale-to-5", web, func(ctx context.Context, w *World) error { return w.scale(ctx, 5) })),
		surroundings("nodes-full", func(c *Cluster) { c.full, c.room = true, 0 }),
		surroundings("nodes-full-1", func(c *Cluster) { c.full, c.room = true, 1 }),
		surroundings("nodes-added", func(c *Cluster) { c.full = false }),
		surroundings("node-back", func(c *Cluster) { c.lost = map[types.UID]bool{} }),
		life("node-lost", deployed, 1, func(c *Cluster, p *corev1.Pod) {
			setPodCondition(p, corev1.PodReady, corev1.ConditionFalse, "")
			c.lost[p.UID] = true
		}),
		life("pod-restarts", nil, 1, func(_ *Cluster, p *corev1.Pod) {
			restart(p.Status.ContainerStatuses, corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: "no database"})
		}),
		life("nodes-reboot", nil, 100, reboot),
		life("pod-evicted", deployed, 1, func(_ *Cluster, p *corev1.Pod) { end(p, corev1.PodFailed, "Evicted", 137) }),
	}
	for name, message := range refusals {
		all = append(all, surroundings(name, func(c *Cluster) { c.refusal = message }))
	}
	return all
}
