package policy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/webhooks"
	"github.com/platform-operator/platform-operator/webhooks/policy"
)

// strict is a platform configuration that restricts everything.
func strict() config.Platform {
	p := config.Default()
	p.Images = config.Images{Allowed: []string{"registry.example", "docker.io/library"}, Latest: config.LatestRefuse}
	p.MaxReplicas = 5
	p.ServiceTypes = []corev1.ServiceType{corev1.ServiceTypeClusterIP}
	p.WebServer.ServiceType = corev1.ServiceTypeClusterIP
	p.Gateways = []config.Gateway{{Namespace: "gateways", Name: "public", From: []string{"team-*"}}}
	p.Hosts = []config.Hosts{{Namespaces: []string{"team-a"}, Hosts: []string{"*.a.example.com"}}}
	p.Annotations = []string{"cert-manager.io/issuer", "example.com/*"}
	p.PriorityClasses = []string{"batch-*"}
	return p
}

// judge validates an object of a kind with this spec in namespace team-a.
func judge(t *testing.T, kind, spec string, p config.Platform) policy.Verdict {
	t.Helper()
	for _, k := range webhooks.Kinds() {
		if k.GVK.Kind != kind {
			continue
		}
		obj := k.New()
		if err := yaml.UnmarshalStrict([]byte("metadata: {namespace: team-a, name: a}\nspec: "+spec), obj); err != nil {
			t.Fatal(err)
		}
		return k.Judge(obj, p)
	}
	t.Fatalf("there is no kind %s", kind)
	return policy.Verdict{}
}

func TestJudge_StrictPlatform(t *testing.T) {
	const (
		web, demo, immortal, cache = webserverv1.Kind, demoapplicationv1.Kind, immortalv1alpha1.Kind, cachev1alpha1.Kind

		elsewhere = "Forbidden: the platform configuration allows images only from registry.example, docker.io/library, and this is evil.com/x:1"
		moving    = "Forbidden: the platform configuration rejects images without a fixed version, such as nginx: specify a version or a digest"
		tooMany   = "must be 5 or less, as set in the platform configuration"
		account   = "spec.pod.serviceAccountName: Forbidden: the platform configuration lets no object name a service account (serviceAccounts is false); remove serviceAccountName"
	)
	for name, tc := range map[string]struct {
		kind, spec string
		want       []string
	}{
		"web: valid":    {web, `{image: "nginx:1.27", replicas: 5, service: {type: ClusterIP}, expose: {type: Gateway, hosts: [x.a.example.com], gateway: {parentRef: {name: public, namespace: gateways}}}}`, nil},
		"web: image":    {web, `{image: "evil.com/x:1"}`, []string{"spec.image: " + elsewhere}},
		"web: content":  {web, `{image: "nginx:1", content: {image: {reference: "evil.com/x:1"}}}`, []string{"spec.content.image.reference: " + elsewhere}},
		"web: volume":   {web, `{image: "nginx:1", pod: {volumes: [{name: a, emptyDir: {}}, {name: b, image: {reference: "evil.com/x:1"}}]}}`, []string{"spec.pod.volumes[1].image.reference: " + elsewhere}},
		"web: latest":   {web, `{image: nginx, content: {image: {reference: "nginx:latest"}}}`, []string{"spec.image: " + moving, "spec.content.image.reference: Forbidden: the platform configuration rejects images without a fixed version, such as nginx:latest"}},
		"web: a digest": {web, `{image: "nginx:latest@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}`, nil},
		"web: both":     {web, `{image: evil.com/x}`, []string{"spec.image: Forbidden: the platform configuration allows images only from", "spec.image: Forbidden: the platform configuration rejects images without a fixed version"}},
		"web: replicas": {web, `{image: "nginx:1", replicas: 6}`, []string{"spec.replicas: Invalid value: 6: " + tooMany}},
		"web: autoscaled": {web, `{image: "nginx:1", autoscaling: {maxReplicas: 6}}`, []string{
			"spec.autoscaling.maxReplicas: Invalid value: 6: " + tooMany,
		}},
		"web: node port":     {web, `{image: "nginx:1", service: {nodePort: 30080}}`, []string{"spec.service.nodePort: Forbidden: the platform configuration allows only Services of type ClusterIP, and this field asks for a port of the nodes, as type NodePort does"}},
		"web: load balancer": {web, `{image: "nginx:1", service: {type: LoadBalancer, nodePort: 30080}}`, []string{"spec.service.type: Forbidden: the platform configuration allows only Services of type ClusterIP, and this field asks for type LoadBalancer", "spec.service.nodePort: Forbidden"}},
		"web: says no type":  {web, `{image: "nginx:1", service: {port: 8080}}`, nil},
		"web: Gateway":       {web, `{image: "nginx:1", expose: {type: Gateway, hosts: [x.a.example.com], gateway: {parentRef: {name: ops, namespace: gateways}}}}`, []string{`spec.expose.gateway.parentRef: Forbidden: the platform configuration does not let namespace "team-a" use Gateway gateways/ops: take one of the namespace's own, or gateways/public`}},
		"web: its own":       {web, `{image: "nginx:1", expose: {type: Gateway, hosts: [x.a.example.com], gateway: {parentRef: {name: any}}}}`, nil},
		"web: host":          {web, `{image: "nginx:1", expose: {type: Ingress, hosts: [x.a.example.com, a.example.com]}}`, []string{`spec.expose.hosts[1]: Forbidden: the platform configuration does not let namespace "team-a" claim "a.example.com": it may claim *.a.example.com`}},
		"web: account":       {web, `{image: "nginx:1", pod: {serviceAccountName: admin}}`, []string{account}},

		"web: annotations": {web, `{image: "nginx:1", service: {annotations: {example.com/a: b, a.example.com/a: b}}, expose: {type: Ingress, hosts: [x.a.example.com], ingress: {annotations: {cert-manager.io/issuer: a, cert-manager.io/cluster-issuer: a}}}}`, []string{
			"spec.service.annotations[a.example.com/a]: Forbidden: the platform configuration does not allow this annotation (annotations is [cert-manager.io/issuer, example.com/*]): remove it",
			"spec.expose.ingress.annotations[cert-manager.io/cluster-issuer]: Forbidden",
		}},
		"web: priority": {web, `{image: "nginx:1", pod: {priorityClassName: high}}`, []string{`spec.pod.priorityClassName: Forbidden: the platform configuration does not allow priority class "high" (priorityClasses is [batch-*]): use an allowed one, or remove priorityClassName`}},
		"web: a class":  {web, `{image: "nginx:1", pod: {priorityClassName: batch-low}}`, nil},

		"demo: annotations":   {demo, `{image: "nginx:1", service: {annotations: {a: b}}}`, []string{"spec.service.annotations[a]: Forbidden"}},
		"demo: priority":      {demo, `{image: "nginx:1", pod: {priorityClassName: high}}`, []string{"spec.pod.priorityClassName: Forbidden"}},
		"demo: valid":         {demo, `{image: "registry.example/x:1", replica: 5, ports: [{port: 80}]}`, nil},
		"demo: image":         {demo, `{image: "evil.com/x:1"}`, []string{"spec.image: " + elsewhere}},
		"demo: volume":        {demo, `{image: "nginx:1", pod: {volumes: [{name: b, image: {reference: "evil.com/x:1"}}]}}`, []string{"spec.pod.volumes[0].image.reference: " + elsewhere}},
		"demo: latest":        {demo, `{image: nginx}`, []string{"spec.image: " + moving}},
		"demo: replica":       {demo, `{image: "nginx:1", replica: 6}`, []string{"spec.replica: Invalid value: 6: " + tooMany}},
		"demo: autoscaled":    {demo, `{image: "nginx:1", autoscaling: {maxReplicas: 6}}`, []string{"spec.autoscaling.maxReplicas: Invalid value: 6: " + tooMany}},
		"demo: node ports":    {demo, `{image: "nginx:1", ports: [{port: 80}, {port: 81, nodePort: 30081}, {port: 82, nodePort: 30082}]}`, []string{"spec.ports[1].nodePort: Forbidden: the platform configuration allows only Services of type ClusterIP, and this field asks for a port of the nodes, as type NodePort does", "spec.ports[2].nodePort: Forbidden"}},
		"demo: load balancer": {demo, `{image: "nginx:1", service: {type: LoadBalancer}, ports: [{port: 81, nodePort: 30081}]}`, []string{"spec.service.type: Forbidden: the platform configuration allows only Services of type ClusterIP, and this field asks for type LoadBalancer", "spec.ports[0].nodePort: Forbidden"}},
		"demo: Gateway":       {demo, `{image: "nginx:1", expose: {type: Gateway, hosts: [x.a.example.com], gateway: {parentRef: {name: public, namespace: elsewhere}}}}`, []string{"spec.expose.gateway.parentRef: Forbidden: "}},
		"demo: host":          {demo, `{image: "nginx:1", expose: {type: Ingress, hosts: [b.c]}}`, []string{"spec.expose.hosts[0]: Forbidden: "}},
		"demo: account":       {demo, `{image: "nginx:1", pod: {serviceAccountName: admin}}`, []string{account}},

		"immortal: valid":    {immortal, `{image: "nginx:1"}`, nil},
		"immortal: image":    {immortal, `{image: "evil.com/x:1"}`, []string{"spec.image: " + elsewhere}},
		"immortal: latest":   {immortal, `{image: nginx}`, []string{"spec.image: " + moving}},
		"immortal: volume":   {immortal, `{image: "nginx:1", pod: {volumes: [{name: b, image: {reference: "evil.com/x:1"}}]}}`, []string{"spec.pod.volumes[0].image.reference: " + elsewhere}},
		"immortal: priority": {immortal, `{image: "nginx:1", pod: {priorityClassName: high}}`, []string{"spec.pod.priorityClassName: Forbidden"}},
		"immortal: account":  {immortal, `{image: "nginx:1", pod: {serviceAccountName: admin}}`, []string{account}},

		"cache: valid":             {cache, `{size: 5, image: "memcached:1.6"}`, nil},
		"cache: platform's image":  {cache, `{size: 5}`, nil},
		"cache: image":             {cache, `{size: 1, image: "evil.com/x:1"}`, []string{"spec.image: " + elsewhere}},
		"cache: latest":            {cache, `{size: 1, image: nginx}`, []string{"spec.image: " + moving}},
		"cache: annotations":       {cache, `{size: 1, service: {annotations: {a: b}}}`, []string{"spec.service.annotations[a]: Forbidden"}},
		"cache: priority":          {cache, `{size: 1, pod: {priorityClassName: high}}`, []string{"spec.pod.priorityClassName: Forbidden"}},
		"cache: size":              {cache, `{size: 6}`, []string{"spec.size: Invalid value: 6: " + tooMany}},
		"cache: account":           {cache, `{size: 1, pod: {serviceAccountName: admin}}`, []string{account}},
		"cache: all of it at once": {cache, `{size: 6, image: "evil.com/x:1", pod: {serviceAccountName: admin}}`, []string{"spec.image: " + elsewhere, "spec.size: Invalid", account}},
	} {
		t.Run(name, func(t *testing.T) {
			v := judge(t, tc.kind, tc.spec, strict())
			if len(v.Refused) != len(tc.want) {
				t.Fatalf("got %d errors, want %d: %v", len(v.Refused), len(tc.want), v.Refused)
			}
			for i, e := range v.Refused {
				if !strings.HasPrefix(e.Error(), tc.want[i]) {
					t.Errorf("got  %s\nwant %s…", e, tc.want[i])
				}
			}
			// A platform configuration that allows everything rejects nothing.
			open := config.Default()
			open.ServiceAccounts, open.Annotations, open.PriorityClasses = true, []string{"*"}, []string{"*"}
			open.Gateways = []config.Gateway{{Namespace: "gateways", Name: "ops"}, {Namespace: "gateways", Name: "public"}, {Namespace: "elsewhere", Name: "public"}}
			if v := judge(t, tc.kind, tc.spec, open); len(v.Refused) > 0 {
				t.Errorf("an open platform refuses %v", v.Refused)
			}
		})
	}
}

func TestJudge_Warnings(t *testing.T) {
	const alone = "spec.podDisruptionBudget: there may be a single pod, which a drain of its node evicts regardless of the budget: set at least two replicas"
	const (
		claim   = "spec.pod.volumes[0].persistentVolumeClaim: a rollout starts new pods first, which wait for ever if one node or pod alone can use it (ReadWriteOnce): set spec.rollout.strategy to Recreate, or to RollingUpdate if several can"
		apart   = `pod: {affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {webserver_cr: a}}}]}}}`
		exclude = "spec.pod.affinity.podAntiAffinity: the pods exclude each other, so that a rollout waits for ever without a node for one more: set spec.rollout.maxUnavailable to 1, or spec.rollout.strategy to RollingUpdate if there is such a node"
	)
	long := "registry.example/" + strings.Repeat("a", 500)
	for name, tc := range map[string]struct {
		kind, spec string
		want       []string
	}{
		"nothing":                 {webserverv1.Kind, `{image: "nginx:1"}`, nil},
		"latest":                  {webserverv1.Kind, `{image: "nginx:latest"}`, []string{"spec.image: nginx:latest has no fixed version, so that a rollback may not restore the previous image: specify a version or a digest"}},
		"no tag":                  {immortalv1alpha1.Kind, `{image: nginx}`, []string{"spec.image: nginx has no fixed version, so that a rollback may not restore the previous image: specify a version or a digest"}},
		"each image":              {demoapplicationv1.Kind, `{image: a, pod: {volumes: [{name: b, image: {reference: c}}], volumeMounts: [{name: b, mountPath: /b}]}}`, []string{"spec.image: a has no fixed version, so that a rollback may not restore the previous image: specify a version or a digest", "spec.pod.volumes[0].image.reference: c has no fixed version, so that a rollback may not restore the previous image: specify a version or a digest"}},
		"a long name is cut":      {webserverv1.Kind, `{image: "` + long + `"}`, []string{"spec.image: " + long[:80] + "… has no fixed version, so that a rollback may not restore the previous image: specify a version or a digest"}},
		"a budget for one":        {webserverv1.Kind, `{image: "nginx:1", podDisruptionBudget: {minAvailable: 1}}`, []string{alone}},
		"a budget for one, said":  {demoapplicationv1.Kind, `{image: "nginx:1", replica: 1, podDisruptionBudget: {maxUnavailable: 1}}`, []string{alone}},
		"a budget for one node":   {cachev1alpha1.Kind, `{size: 1, podDisruptionBudget: {maxUnavailable: 1}}`, []string{alone}},
		"a budget from one":       {webserverv1.Kind, `{image: "nginx:1", autoscaling: {maxReplicas: 4}, podDisruptionBudget: {maxUnavailable: 1}}`, []string{alone}},
		"a budget for two":        {webserverv1.Kind, `{image: "nginx:1", replicas: 2, podDisruptionBudget: {maxUnavailable: 1}}`, nil},
		"a budget from two":       {webserverv1.Kind, `{image: "nginx:1", autoscaling: {minReplicas: 2, maxReplicas: 4}, podDisruptionBudget: {maxUnavailable: 1}}`, nil},
		"a budget for none":       {webserverv1.Kind, `{image: "nginx:1", replicas: 0, podDisruptionBudget: {maxUnavailable: 1}}`, nil},
		"a port for none":         {webserverv1.Kind, `{image: "nginx:1", replicas: 0, service: {nodePort: 30080}}`, []string{"spec.service.nodePort: node port 30080 stays allocated although spec.replicas is 0, and nothing answers on it"}},
		"ports for none":          {demoapplicationv1.Kind, `{image: "nginx:1", replica: 0, ports: [{port: 80}, {port: 81, nodePort: 30081}]}`, []string{"spec.ports[1].nodePort: node port 30081 stays allocated although spec.replica is 0, and nothing answers on it"}},
		"no port for none":        {webserverv1.Kind, `{image: "nginx:1", replicas: 0}`, nil},
		"a port for one, implied": {webserverv1.Kind, `{image: "nginx:1", service: {nodePort: 30080}}`, nil},

		"a label of the operator":           {webserverv1.Kind, `{image: "nginx:1", pod: {labels: {app: shop, tier: web}}}`, []string{"spec.pod.labels[app]: the operator sets this label to another value, and selects the pods by it: remove it"}},
		"a label of the operator, the same": {immortalv1alpha1.Kind, `{image: "nginx:1", pod: {labels: {app: a}}}`, nil},
		"a volume that is not mounted":      {immortalv1alpha1.Kind, `{image: "nginx:1", pod: {volumes: [{name: a, emptyDir: {}}, {name: b, emptyDir: {}}], volumeMounts: [{name: a, mountPath: /a}]}}`, []string{`spec.pod.volumes[1]: volume "b" is not mounted: add it to spec.pod.volumeMounts`}},
		"a pinned revision":                 {webserverv1.Kind, `{image: "nginx:1", rollout: {pinnedRevision: 3}}`, []string{"spec.rollout.pinnedRevision: revision 3 serves, and changes of the pods have no effect, until this field is removed"}},
		"a variable before it is set":       {demoapplicationv1.Kind, `{image: "nginx:1", env: [{name: URL, value: "http://$(HOST):$(PORT)/$$(PATH)/$(URL)"}, {name: HOST, value: a}]}`, []string{"spec.env[0].value: $(HOST) is not replaced, because only variables that precede this one are"}},
		"a variable of itself":              {demoapplicationv1.Kind, `{image: "nginx:1", env: [{name: PATH, value: "$(PATH):/a"}]}`, []string{"spec.env[0].value: $(PATH) is not replaced, because only variables that precede this one are"}},
		"a variable of another source":      {demoapplicationv1.Kind, `{image: "nginx:1", envFrom: [{configMapRef: {name: a}}], env: [{name: URL, value: $(HOST)}, {name: HOST, value: a}]}`, nil},
		"a variable that is set":            {demoapplicationv1.Kind, `{image: "nginx:1", env: [{name: HOST, value: a}, {name: URL, value: $(HOST)}]}`, nil},

		"a claim":                    {demoapplicationv1.Kind, `{image: "nginx:1", pod: {volumes: [{name: a, persistentVolumeClaim: {claimName: a}}], volumeMounts: [{name: a, mountPath: /a}]}}`, []string{claim}},
		"a claim, read-only":         {demoapplicationv1.Kind, `{image: "nginx:1", pod: {volumes: [{name: a, persistentVolumeClaim: {claimName: a, readOnly: true}}], volumeMounts: [{name: a, mountPath: /a}]}}`, nil},
		"a claim, considered":        {demoapplicationv1.Kind, `{image: "nginx:1", rollout: {strategy: RollingUpdate}, pod: {volumes: [{name: a, persistentVolumeClaim: {claimName: a}}], volumeMounts: [{name: a, mountPath: /a}]}}`, nil},
		"a claim of one pod at most": {immortalv1alpha1.Kind, `{image: "nginx:1", pod: {volumes: [{name: a, persistentVolumeClaim: {claimName: a}}], volumeMounts: [{name: a, mountPath: /a}]}}`, nil},

		"pods that exclude each other":                 {webserverv1.Kind, `{image: "nginx:1", replicas: 3, ` + apart + `}`, []string{exclude}},
		"pods that exclude each other, by their kind":  {cachev1alpha1.Kind, `{size: 2, pod: {affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchExpressions: [{key: memcached_cr, operator: Exists}]}}]}}}}`, []string{exclude}},
		"pods that exclude each other, four":           {webserverv1.Kind, `{image: "nginx:1", replicas: 4, ` + apart + `}`, nil},
		"pods that exclude each other, one may end":    {webserverv1.Kind, `{image: "nginx:1", rollout: {maxUnavailable: 1}, ` + apart + `}`, nil},
		"pods that exclude each other, none may end":   {webserverv1.Kind, `{image: "nginx:1", replicas: 9, rollout: {maxUnavailable: 10%}, ` + apart + `}`, []string{exclude}},
		"pods that exclude each other, without others": {webserverv1.Kind, `{image: "nginx:1", rollout: {maxSurge: 0}, ` + apart + `}`, nil},
		"pods that exclude each other, all end":        {webserverv1.Kind, `{image: "nginx:1", rollout: {strategy: Recreate}, ` + apart + `}`, nil},
		"pods that exclude other pods":                 {webserverv1.Kind, `{image: "nginx:1", pod: {affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}]}}}}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			v := judge(t, tc.kind, tc.spec, config.Default())
			if diff := cmp.Diff(tc.want, v.Warnings); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(v.Refused) > 0 {
				t.Errorf("refused: %v", v.Refused)
			}
			for _, w := range v.Warnings {
				if len(w) > 256 {
					t.Errorf("the API server cuts off %q", w)
				}
			}
		})
	}
}

func TestJudge_LatestPolicy(t *testing.T) {
	for latest, want := range map[config.LatestPolicy][2]int{
		config.LatestAllow: {0, 0}, config.LatestWarn: {0, 1}, config.LatestRefuse: {1, 0},
	} {
		p := config.Default()
		p.Images.Latest = latest
		v := judge(t, webserverv1.Kind, `{image: nginx}`, p)
		if got := [2]int{len(v.Refused), len(v.Warnings)}; got != want {
			t.Errorf("%s: %d refused and %d warnings, want %d and %d", latest, got[0], got[1], want[0], want[1])
		}
	}
}

func TestScale(t *testing.T) {
	scale := func(n int32) *autoscalingv1.Scale {
		return &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: n}}
	}
	for name, tc := range map[string]struct {
		old, now int32
		want     string
	}{
		"within":                    {1, 5, ""},
		"beyond":                    {1, 6, "spec.replicas: Invalid value: 6: must be 5 or less, as set in the platform configuration"},
		"further beyond":            {7, 8, "spec.replicas: Invalid value: 8: must be 5 or less, as set in the platform configuration"},
		"less, but still beyond":    {8, 7, ""},
		"as many as before, beyond": {8, 8, ""},
		"to none":                   {8, 0, ""},
	} {
		got := ""
		if errs := policy.Scale(scale(tc.old), scale(tc.now), strict()); len(errs) > 0 {
			got = errs[0].Error()
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
