package compare

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// result is which kinds of differences there are.
type result struct{ lacks, extra bool }

var (
	holds = result{}
	lacks = result{lacks: true}
	extra = result{extra: true}
	both  = result{lacks: true, extra: true}
)

func compare(live any, stated map[string]any, exclusive []string) (r result) {
	for _, d := range Compare(live, stated, exclusive) {
		r.lacks, r.extra = r.lacks || !d.IsExtra(), r.extra || d.IsExtra()
	}
	return r
}

func decoded(t *testing.T, doc string) map[string]any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil { // decodes numbers as float64, as for an intent
		t.Fatal(err)
	}
	return m
}

// live decodes a pod as a cache returns it.
func live(t *testing.T, doc string) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(doc), p); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestCompare(t *testing.T) {
	for name, tc := range map[string]struct {
		stated, live string
		want         result
	}{
		"nothing stated":                 {`{}`, `spec: {nodeName: n1}`, holds},
		"kind is not in a cached object": {`{apiVersion: v1, kind: Pod}`, `{}`, holds},
		"variables in order": {
			`spec: {containers: [{name: a, env: [{name: A, value: "1"}, {name: B, value: $(A)}]}]}`,
			`spec: {containers: [{name: a, env: [{name: A, value: "1"}, {name: X}, {name: B, value: $(A)}]}]}`, holds,
		},
		"variables in another order": {
			`spec: {containers: [{name: a, env: [{name: A, value: "1"}, {name: B, value: $(A)}]}]}`,
			`spec: {containers: [{name: a, env: [{name: B, value: $(A)}, {name: A, value: "1"}]}]}`, lacks,
		},
		"init containers in another order": {`spec: {initContainers: [{name: a}, {name: b}]}`, `spec: {initContainers: [{name: b}, {name: a}]}`, lacks},
		"containers in another order":      {`spec: {containers: [{name: a}, {name: b}]}`, `spec: {containers: [{name: b}, {name: a}]}`, holds},
		"equal string":                     {`spec: {nodeName: n1}`, `spec: {nodeName: n1}`, holds},
		"other string":                     {`spec: {nodeName: n1}`, `spec: {nodeName: n2}`, lacks},
		"absent string":                    {`spec: {nodeName: n1}`, `{}`, lacks},
		"string stated, number there":      {`spec: {terminationGracePeriodSeconds: "30"}`, `spec: {terminationGracePeriodSeconds: 30}`, lacks},
		"number stated, string there":      {`spec: {nodeName: 1}`, `spec: {nodeName: "1"}`, lacks},
		"map stated, string there":         {`spec: {nodeName: {}}`, `spec: {nodeName: n1}`, lacks},
		"list stated, string there":        {`spec: {nodeName: []}`, `spec: {nodeName: n1}`, lacks},
		"field newer than our types":       {`spec: {notYet: 1}`, `spec: {nodeName: n1}`, lacks},
		"null states nothing":              {`spec: {nodeName: null}`, `spec: {nodeName: n1}`, holds},

		"pointer to number":              {`spec: {terminationGracePeriodSeconds: 30}`, `spec: {terminationGracePeriodSeconds: 30}`, holds},
		"pointer to another number":      {`spec: {terminationGracePeriodSeconds: 30}`, `spec: {terminationGracePeriodSeconds: 31}`, lacks},
		"nil pointer is not 0":           {`spec: {terminationGracePeriodSeconds: 0}`, `{}`, lacks},
		"nil pointer is not false":       {`spec: {automountServiceAccountToken: false}`, `{}`, lacks},
		"pointer to false":               {`spec: {automountServiceAccountToken: false}`, `spec: {automountServiceAccountToken: false}`, holds},
		"false is not true":              {`spec: {automountServiceAccountToken: false}`, `spec: {automountServiceAccountToken: true}`, lacks},
		"absent bool is false":           {`spec: {hostNetwork: false}`, `{}`, holds},
		"nil struct":                     {`spec: {securityContext: {runAsUser: 1}}`, `{}`, lacks},
		"empty struct stated, nil there": {`spec: {securityContext: {}}`, `{}`, lacks},
		"empty struct stated, there":     {`spec: {securityContext: {}}`, `spec: {securityContext: {runAsUser: 1}}`, holds},

		"quantity equal in value":  {quantity("cpu", "1000m"), quantity("cpu", "1"), holds},
		"the other way":            {quantity("cpu", "1"), quantity("cpu", "1000m"), holds},
		"binary and decimal":       {quantity("memory", "1Ki"), quantity("memory", "1024"), holds},
		"quantity differs":         {quantity("cpu", "1"), quantity("cpu", "1001m"), lacks},
		"quantity absent":          {quantity("cpu", "1"), quantity("memory", "1"), lacks},
		"quantity of zero":         {quantity("cpu", "0"), quantity("memory", "1"), lacks},
		"quantity that is none":    {quantity("cpu", "much"), quantity("cpu", "1"), lacks},
		"additional quantities":    {quantity("cpu", "1"), `spec: {containers: [{name: a, resources: {limits: {cpu: "1", memory: 1Gi}}}]}`, holds},
		"port by number":           {port(`80`), port(`80`), holds},
		"port by name":             {port(`http`), port(`http`), holds},
		"port by another number":   {port(`80`), port(`81`), lacks},
		"port by another name":     {port(`http`), port(`https`), lacks},
		"number as a name":         {port(`"80"`), port(`80`), lacks},
		"name of digits is a name": {port(`80`), port(`"80"`), lacks},

		"map holds":               {`metadata: {labels: {a: b}}`, `metadata: {labels: {a: b, c: d}}`, holds},
		"map value differs":       {`metadata: {labels: {a: b}}`, `metadata: {labels: {a: c}}`, lacks},
		"map key absent":          {`metadata: {labels: {a: b}}`, `metadata: {labels: {c: d}}`, lacks},
		"nil map":                 {`metadata: {labels: {a: b}}`, `{}`, lacks},
		"empty map stated":        {`metadata: {labels: {}}`, `{}`, holds},
		"empty value, key absent": {`metadata: {labels: {a: ""}}`, `metadata: {labels: {c: d}}`, lacks},

		"elements by name, in any order": {
			`spec: {containers: [{name: a, image: x}, {name: b, image: z}]}`,
			`spec: {containers: [{name: b, image: z}, {name: a, image: x}]}`, holds,
		},
		"additional elements stay":    {`spec: {containers: [{name: a, image: x}]}`, `spec: {containers: [{name: side, image: z}, {name: a, image: x}]}`, holds},
		"element differs":             {`spec: {containers: [{name: a, image: x}]}`, `spec: {containers: [{name: a, image: z}]}`, lacks},
		"element absent":              {`spec: {containers: [{name: a}]}`, `spec: {containers: [{name: b}]}`, lacks},
		"no element at all":           {`spec: {containers: [{name: a}]}`, `{}`, lacks},
		"element that is no map":      {`spec: {containers: [a]}`, `spec: {containers: [{name: a}]}`, lacks},
		"element without its key":     {`spec: {containers: [{image: x}]}`, `spec: {containers: [{name: a, image: x}]}`, lacks},
		"mounts by path, not by name": {mounts("cache", "/a"), mounts("cache", "/b"), lacks},
		"owners by UID": {
			`metadata: {ownerReferences: [{uid: "1", name: a, kind: K, apiVersion: v}]}`,
			`metadata: {ownerReferences: [{uid: "2", name: a, kind: K, apiVersion: v}]}`, lacks,
		},
		"port number of another protocol": {ports("53", "UDP"), ports("53", "TCP"), lacks},
		"both protocols":                  {ports("53", "UDP"), `spec: {containers: [{name: a, ports: [{containerPort: 53, protocol: TCP}, {containerPort: 53, protocol: UDP}]}]}`, holds},
		"protocol not stated is TCP":      {`spec: {containers: [{name: a, ports: [{containerPort: 53}]}]}`, ports("53", "TCP"), holds},
		"protocol not stated is not UDP":  {`spec: {containers: [{name: a, ports: [{containerPort: 53}]}]}`, ports("53", "UDP"), lacks},

		"spread of one key in two ways": {
			spread(`{topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, maxSkew: 1}`, `{topologyKey: zone, whenUnsatisfiable: DoNotSchedule, maxSkew: 5}`),
			spread(`{topologyKey: zone, whenUnsatisfiable: DoNotSchedule, maxSkew: 5}`, `{topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, maxSkew: 1}`), holds,
		},
		"spread in the other way": {
			spread(`{topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, maxSkew: 1}`),
			spread(`{topologyKey: zone, whenUnsatisfiable: DoNotSchedule, maxSkew: 1}`), lacks,
		},
		"additional spread constraint": {
			spread(`{topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, maxSkew: 1}`),
			spread(`{topologyKey: zone, whenUnsatisfiable: DoNotSchedule, maxSkew: 1}`, `{topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, maxSkew: 1, labelSelector: {}}`), holds,
		},

		"atomic list":                  {command("a", "b"), command("a", "b"), holds},
		"atomic list in another order": {command("a", "b"), command("b", "a"), lacks},
		"atomic list with more":        {command("a"), command("a", "b"), lacks},
		"atomic list with less":        {command("a", "b"), command("a"), lacks},
		"atomic list of structs": {
			`spec: {tolerations: [{key: a}]}`, `spec: {tolerations: [{key: a, effect: NoSchedule}]}`, holds,
		},
		"inlined struct":          {`spec: {volumes: [{name: v, configMap: {name: c}}]}`, `spec: {volumes: [{name: v, configMap: {name: c}}]}`, holds},
		"inlined struct differs":  {`spec: {volumes: [{name: v, configMap: {name: c}}]}`, `spec: {volumes: [{name: v, configMap: {name: d}}]}`, lacks},
		"emptyDir is there":       {`spec: {volumes: [{name: v, emptyDir: {}}]}`, `spec: {volumes: [{name: v, emptyDir: {}}]}`, holds},
		"emptyDir with a limit":   {`spec: {volumes: [{name: v, emptyDir: {}}]}`, `spec: {volumes: [{name: v, emptyDir: {sizeLimit: 1Gi}}]}`, holds},
		"emptyDir became another": {`spec: {volumes: [{name: v, emptyDir: {}}]}`, `spec: {volumes: [{name: v, hostPath: {path: /}}]}`, both},
	} {
		t.Run(name, func(t *testing.T) {
			if got := compare(live(t, tc.live), decoded(t, tc.stated), nil); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func quantity(name, q string) string {
	return `spec: {containers: [{name: a, resources: {limits: {` + name + `: "` + q + `"}}}]}`
}

func port(p string) string {
	return `spec: {containers: [{name: a, readinessProbe: {tcpSocket: {port: ` + p + `}}}]}`
}

func ports(n, protocol string) string {
	return `spec: {containers: [{name: a, ports: [{containerPort: ` + n + `, protocol: ` + protocol + `}]}]}`
}

func mounts(name, path string) string {
	return `spec: {containers: [{name: a, volumeMounts: [{name: ` + name + `, mountPath: ` + path + `}]}]}`
}

func spread(constraints ...string) string {
	return `spec: {topologySpreadConstraints: [` + strings.Join(constraints, ", ") + `]}`
}

func command(words ...string) string {
	return `spec: {containers: [{name: a, command: [` + strings.Join(words, ", ") + `]}]}`
}

func TestCompare_ExclusivePaths(t *testing.T) {
	const env, args, path = "spec.containers[a].env", "spec.containers[a].args", "spec.containers[a].ports"
	for name, tc := range map[string]struct {
		stated, live string
		exclusive    []string
		want         result
	}{
		"not stated, not there":  {`spec: {containers: [{name: a}]}`, `spec: {containers: [{name: a}]}`, []string{env, args}, holds},
		"not stated, but there":  {`spec: {containers: [{name: a}]}`, `spec: {containers: [{name: a, args: [x]}]}`, []string{env, args}, extra},
		"as stated":              {`spec: {containers: [{name: a, env: [{name: E, value: v}]}]}`, `spec: {containers: [{name: a, env: [{name: E, value: v}]}]}`, []string{env}, holds},
		"more than stated":       {`spec: {containers: [{name: a, env: [{name: E}]}]}`, `spec: {containers: [{name: a, env: [{name: E}, {name: F}]}]}`, []string{env}, extra},
		"less than stated":       {`spec: {containers: [{name: a, env: [{name: E}, {name: F}]}]}`, `spec: {containers: [{name: a, env: [{name: E}]}]}`, []string{env}, lacks},
		"another than stated":    {`spec: {containers: [{name: a, env: [{name: E}]}]}`, `spec: {containers: [{name: a, env: [{name: F}]}]}`, []string{env}, both},
		"value differs, no more": {`spec: {containers: [{name: a, env: [{name: E, value: v}]}]}`, `spec: {containers: [{name: a, env: [{name: E, value: w}]}]}`, []string{env}, lacks},
		"renumbered port":        {ports("80", "TCP"), ports("81", "TCP"), []string{path}, both},
		"port of other protocol": {ports("53", "UDP"), ports("53", "TCP"), []string{path}, both},
		"of another container":   {`spec: {containers: [{name: a}]}`, `spec: {containers: [{name: a}, {name: b, args: [x]}]}`, []string{args}, holds},
		"of a whole container list": {
			`spec: {containers: [{name: a}]}`, `spec: {containers: [{name: a}, {name: b}]}`, []string{"spec.containers"}, extra,
		},
		"seen though something else is lacking": {
			`spec: {nodeName: n1, containers: [{name: a, image: x}]}`, `spec: {nodeName: n2, containers: [{name: a, image: z, args: [z]}]}`, []string{args}, both,
		},
		// Both together would be refused.
		"variable with another source": {
			`spec: {containers: [{name: a, env: [{name: E, value: v}]}]}`, `spec: {containers: [{name: a, env: [{name: E, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]}]}`, nil, both,
		},
		"volume with another source": {
			`spec: {volumes: [{name: a, emptyDir: {}}]}`, `spec: {volumes: [{name: a, configMap: {name: a}}]}`, nil, both,
		},
		"volume became an empty directory": {
			`spec: {volumes: [{name: a, configMap: {name: a}}]}`, `spec: {volumes: [{name: a, emptyDir: {}}]}`, nil, both,
		},
		"parent not stated": {`{}`, `spec: {containers: [{name: a, args: [x]}]}`, []string{args}, holds},
		"at the top":        {`{}`, `spec: {nodeName: n1}`, []string{"spec"}, extra},
		"map as stated":     {`spec: {nodeSelector: {a: b}}`, `spec: {nodeSelector: {a: b}}`, []string{"spec.nodeSelector"}, holds},
		"map with more":     {`spec: {nodeSelector: {a: b}}`, `spec: {nodeSelector: {a: b, c: d}}`, []string{"spec.nodeSelector"}, extra},
		"map with another":  {`spec: {nodeSelector: {a: b}}`, `spec: {nodeSelector: {c: d}}`, []string{"spec.nodeSelector"}, both},
		"map not stated":    {`spec: {}`, `spec: {nodeSelector: {c: d}}`, []string{"spec.nodeSelector"}, extra},
		"unknown path":      {`spec: {nodeName: n1}`, `spec: {nodeName: n1}`, []string{"spec.notYet"}, holds},
		"label of that name is no field": {
			`{metadata: {labels: {args: x}}, spec: {containers: [{name: a}]}}`, `{metadata: {labels: {args: x, env: y}}, spec: {containers: [{name: a}]}}`, []string{env, args}, holds,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := compare(live(t, tc.live), decoded(t, tc.stated), tc.exclusive); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

// What is claimed from other managers is what is reported.
func TestCompare_NamesOnlyTheAdditions(t *testing.T) {
	stated := decoded(t, `spec: {nodeSelector: {a: b}, containers: [{name: a, env: [{name: E}], ports: [{containerPort: 53, protocol: TCP}]}]}`)
	p := live(t, `spec: {nodeSelector: {a: b, c: d}, containers: [
    {name: x}, {name: a, tty: true, env: [{name: E}, {name: F}], ports: [{containerPort: 53, protocol: UDP}, {containerPort: 53, protocol: TCP}]}]}`)
	var got []string
	for _, d := range Compare(p, stated, []string{"spec.nodeSelector", "spec.containers", "spec.containers[a].env", "spec.containers[a].ports"}) {
		got = append(got, d.String())
	}
	want := []string{
		"spec.containers[a].env[F] would be removed", "spec.containers[a].ports[53] would be removed", "spec.containers[x] would be removed",
		"spec.nodeSelector.c would be removed",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("additions (-want +got):\n%s", d)
	}
}

// A value is a default only in the field whose default it is.
func TestCompare_KnowsWhoseDefaultsAreGiven(t *testing.T) {
	quarter := intstr.FromString("25%")
	for name, tc := range map[string]struct {
		live      any
		stated    string
		exclusive string
		want      result
	}{
		"of a Deployment": {
			&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Strategy: appsv1.DeploymentStrategy{
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &quarter, MaxUnavailable: &quarter},
			}}},
			`spec: {strategy: {rollingUpdate: {}}}`, "spec.strategy.rollingUpdate", holds,
		},
		"of a PodDisruptionBudget": {
			&policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &quarter}},
			`spec: {minAvailable: 1}`, "spec.maxUnavailable", both,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := compare(tc.live, decoded(t, tc.stated), []string{tc.exclusive}); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestCompare_TypesThatPodsLack(t *testing.T) {
	noon := metav1.NewTime(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
	quarter := intstr.FromString("25%")
	for name, tc := range map[string]struct {
		live   any
		stated string
		want   result
	}{
		"bytes":        {&corev1.Secret{Data: map[string][]byte{"k": []byte("hello")}}, `data: {k: aGVsbG8=}`, holds},
		"other bytes":  {&corev1.Secret{Data: map[string][]byte{"k": []byte("hellO")}}, `data: {k: aGVsbG8=}`, lacks},
		"absent bytes": {&corev1.Secret{}, `data: {k: aGVsbG8=}`, lacks},
		"port number":  {&corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80, Protocol: "TCP"}}}}, `spec: {ports: [{port: 80, protocol: TCP}]}`, holds},
		"port of both protocols": {
			&corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "t", Port: 53, Protocol: "TCP"}, {Name: "u", Port: 53, Protocol: "UDP"}}}},
			`spec: {ports: [{name: u, port: 53, protocol: UDP}, {name: t, port: 53, protocol: TCP}]}`, holds,
		},
		"port of the other protocol": {
			&corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 53, Protocol: "TCP"}}}}, `spec: {ports: [{port: 53, protocol: UDP}]}`, lacks,
		},
		"precise time":         {&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: noon.Time}}}, `spec: {renewTime: "2026-01-02T12:00:00.000000Z"}`, holds},
		"another precise time": {&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: noon.Time}}}, `spec: {renewTime: "2026-01-02T12:00:00.000001Z"}`, lacks},
		"duration": {&struct {
			D metav1.Duration `json:"d"`
		}{metav1.Duration{Duration: 90 * time.Second}}, `d: 1m30s`, holds},
		"another duration": {&struct {
			D metav1.Duration `json:"d"`
		}{metav1.Duration{Duration: 90 * time.Second}}, `d: 1m31s`, lacks},
		"percentage": {
			&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &quarter}}}},
			`spec: {strategy: {rollingUpdate: {maxSurge: 25%}}}`, holds,
		},
		"percentage is no number": {
			&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &quarter}}}},
			`spec: {strategy: {rollingUpdate: {maxSurge: 25}}}`, lacks,
		},
		"time":          {&corev1.Pod{Status: corev1.PodStatus{StartTime: &noon}}, `status: {startTime: "2026-01-02T12:00:00Z"}`, holds},
		"other time":    {&corev1.Pod{Status: corev1.PodStatus{StartTime: &noon}}, `status: {startTime: "2026-01-02T12:00:01Z"}`, lacks},
		"quantity":      {&corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("1k")}}}, `spec: {hard: {pods: "1000"}}`, holds},
		"bare quantity": {&corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("1")}}}, `spec: {hard: {pods: 1}}`, lacks},
	} {
		t.Run(name, func(t *testing.T) {
			if got := compare(tc.live, decoded(t, tc.stated), nil); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

// The fields of types are shared by all workers.
func TestCompare_IsSafeForConcurrentUse(t *testing.T) {
	stated := decoded(t, ports("80", "TCP"))
	done := make(chan result)
	for range 8 {
		go func() { done <- compare(live(t, ports("80", "TCP")), stated, nil) }()
	}
	for range 8 {
		if got := <-done; got != holds {
			t.Errorf("got %+v", got)
		}
	}
}

func TestCompare_NamesTheDifferences(t *testing.T) {
	for name, tc := range map[string]struct {
		stated, live string
		want         []string
	}{
		"equal":                  {`spec: {nodeName: n1}`, `spec: {nodeName: n1}`, nil},
		"other string":           {`spec: {nodeName: n1}`, `spec: {nodeName: n2}`, []string{"spec.nodeName would change"}},
		"absent string":          {`spec: {nodeName: n1}`, `spec: {restartPolicy: Always}`, []string{"spec.nodeName would be added"}},
		"absent struct":          {`spec: {nodeName: n1}`, `{}`, []string{"spec would be added"}},
		"unknown field":          {`spec: {fromTheFuture: 1}`, `spec: {nodeName: n1}`, []string{"spec.fromTheFuture would change"}},
		"quantity":               {`spec: {overhead: {cpu: 1000m}}`, `spec: {overhead: {cpu: 1}}`, nil},
		"other quantity":         {`spec: {overhead: {cpu: 1000m}}`, `spec: {overhead: {cpu: 2}}`, []string{"spec.overhead.cpu would change"}},
		"by two keys":            {`spec: {containers: [{name: a, ports: [{containerPort: 53, protocol: UDP}]}]}`, `spec: {containers: [{name: a, ports: [{containerPort: 53, protocol: TCP}]}]}`, []string{"spec.containers[a].ports[53] would be added"}},
		"in order":               {`spec: {tolerations: [{key: a}]}`, `spec: {tolerations: [{key: b}]}`, []string{"spec.tolerations[0].key would change"}},
		"a map stated, no map":   {`spec: {nodeName: {}}`, `spec: {nodeName: n1}`, []string{"spec.nodeName would change"}},
		"a list stated, no list": {`spec: {nodeName: [a]}`, `spec: {nodeName: n1}`, []string{"spec.nodeName would change"}},
	} {
		t.Run(name, func(t *testing.T) {
			stated, live := decoded(t, tc.stated), live(t, tc.live)
			var got []string
			for _, d := range Compare(live, stated, nil) {
				got = append(got, d.String())
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("differences (-want +got):\n%s", d)
			}
		})
	}
}
