//go:build chart

package charts_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

// pods returns the pod templates of the Deployment and of the uninstall Job.
func pods(t *testing.T, objects []*unstructured.Unstructured) map[string]corev1.PodTemplateSpec {
	t.Helper()
	all := map[string]corev1.PodTemplateSpec{}
	for _, o := range objects {
		if o.GetKind() != "Deployment" && o.GetKind() != "Job" {
			continue
		}
		var j batchv1.Job // a Deployment has its template in the same field
		template, _, err := unstructured.NestedMap(o.Object, "spec", "template")
		if err != nil {
			t.Fatal(err)
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"spec": map[string]any{"template": template}}, &j); err != nil {
			t.Fatal(err)
		}
		all[o.GetKind()] = j.Spec.Template
	}
	return all
}

// violations returns how a pod violates the Pod Security Standard restricted, and
// the stricter rules of this project.
func violations(t *testing.T, p corev1.PodTemplateSpec) []string {
	t.Helper()
	strict, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, r := range strict.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}, &p.ObjectMeta, &p.Spec) {
		if !r.Allowed {
			found = append(found, r.ForbiddenReason+": "+r.ForbiddenDetail)
		}
	}
	if a := p.Spec.AutomountServiceAccountToken; a == nil || *a {
		found = append(found, "a token that is good for a year is mounted")
	}
	if l := p.Spec.EnableServiceLinks; l == nil || *l {
		found = append(found, "names of Services become variables")
	}
	if p.Spec.NodeSelector[corev1.LabelOSStable] != "linux" {
		found = append(found, "the pod may be scheduled to a node with another operating system")
	}
	for _, v := range p.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if tok := s.ServiceAccountToken; tok != nil && (tok.ExpirationSeconds == nil || *tok.ExpirationSeconds > 3600) {
				found = append(found, "the token is good for more than an hour")
			}
		}
	}
	for _, c := range p.Spec.Containers {
		if ro := c.SecurityContext; ro == nil || ro.ReadOnlyRootFilesystem == nil || !*ro.ReadOnlyRootFilesystem {
			found = append(found, c.Name+" may write to its image")
		}
		if _, limited := c.Resources.Limits[corev1.ResourceMemory]; !limited {
			found = append(found, c.Name+" may take all memory of a node")
		}
	}
	return found
}

func TestPods_AreRestricted(t *testing.T) {
	t.Parallel()
	for name, objects := range renderings(t) {
		t.Run(name, func(t *testing.T) {
			all := pods(t, objects)
			if len(all) == 0 {
				t.Fatal("there are no pods")
			}
			for kind, p := range all {
				for _, f := range violations(t, p) {
					t.Errorf("%s: %s", kind, f)
				}
			}
		})
	}
}

func TestPods_ViolationsAreDetected(t *testing.T) {
	t.Parallel()
	objects := parse(t, template(t))
	for want, loosen := range map[string]func(*corev1.PodTemplateSpec){
		"privileged":      func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].SecurityContext.Privileged = new(true) },
		"runAsNonRoot":    func(p *corev1.PodTemplateSpec) { p.Spec.SecurityContext = nil },
		"host namespaces": func(p *corev1.PodTemplateSpec) { p.Spec.HostNetwork = true },
		"hostPath": func(p *corev1.PodTemplateSpec) {
			p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
		},
		"allowPrivilegeEscalation": func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil },
		"unrestricted capabilities": func(p *corev1.PodTemplateSpec) {
			p.Spec.Containers[0].SecurityContext.Capabilities.Drop = nil
		},
		"good for a year":          func(p *corev1.PodTemplateSpec) { p.Spec.AutomountServiceAccountToken = nil },
		"more than an hour":        func(p *corev1.PodTemplateSpec) { token(t, p).ExpirationSeconds = new(int64(7200)) },
		"write to its image":       func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem = nil },
		"become variables":         func(p *corev1.PodTemplateSpec) { p.Spec.EnableServiceLinks = nil },
		"another operating system": func(p *corev1.PodTemplateSpec) { p.Spec.NodeSelector = nil },
		"memory of a node":         func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].Resources.Limits = nil },
	} {
		p := pods(t, objects)["Deployment"]
		loosen(&p)
		if got := strings.Join(violations(t, p), "\n"); !strings.Contains(got, want) {
			t.Errorf("want %q, got %q", want, got)
		}
	}
}

// TestDeployment_RunsOnDifferentNodes checks that the replicas are distributed by
// nodes, also in a cluster whose nodes have no zone, and that one node is enough.
func TestDeployment_RunsOnDifferentNodes(t *testing.T) {
	t.Parallel()
	for name, objects := range renderings(t) {
		spec := pods(t, objects)["Deployment"].Spec
		var keys []string
		for _, c := range spec.TopologySpreadConstraints {
			keys = append(keys, c.TopologyKey+" "+string(c.WhenUnsatisfiable))
			// Pods of the previous template do not count, nor do nodes with taints, such as
			// a control plane or a node that is cordoned or lost.
			if c.MaxSkew != 1 || c.MinDomains != nil || c.NodeTaintsPolicy == nil || *c.NodeTaintsPolicy != corev1.NodeInclusionPolicyHonor ||
				!slices.Equal(c.MatchLabelKeys, []string{"pod-template-hash"}) {
				t.Errorf("%s: constraint %+v", name, c)
			}
		}
		// The scheduler ignores nodes that lack the label of one of the preferences, so
		// that there can be only one.
		if want := []string{"kubernetes.io/hostname DoNotSchedule", "topology.kubernetes.io/zone ScheduleAnyway"}; !slices.Equal(keys, want) {
			t.Errorf("%s: constraints %q, want %q", name, keys, want)
		}
	}
}

// TestDeployment_LimitsItsMemory checks that the garbage collector knows the limit of
// the container, minus what it does not count.
func TestDeployment_LimitsItsMemory(t *testing.T) {
	t.Parallel()
	for limit, want := range map[string]string{
		"512Mi": "435MiB", "1Gi": "870MiB", "2G": "1621MiB", "400M": "324MiB", "600000Ki": "498MiB", "536870912": "435MiB", "null": "",
	} {
		d := pods(t, parse(t, template(t, "--set", "resources.limits.memory="+limit, "--set", "crds.enabled=false")))["Deployment"]
		got := ""
		for _, e := range d.Spec.Containers[0].Env {
			if e.Name == "GOMEMLIMIT" {
				got = e.Value
			}
		}
		if got != want {
			t.Errorf("limit %s: GOMEMLIMIT is %q, want %q", limit, got, want)
		}
		bytes := d.Spec.Containers[0].Resources.Limits.Memory().Value()
		var mib int64
		if _, err := fmt.Sscanf(got, "%dMiB", &mib); want != "" && (err != nil || mib<<20 > bytes*9/10 || mib<<20 < bytes*8/10) {
			t.Errorf("limit %s: GOMEMLIMIT %q is not between 80 and 90 %% of it", limit, got)
		}
	}
}

// TestPods_SchedulingIsConfigurable checks the values that both pods have in common, and
// that a topology spread constraint without a selector applies to the operator's pods.
func TestPods_SchedulingIsConfigurable(t *testing.T) {
	t.Parallel()
	all := pods(t, parse(t, template(t, "--set", "hostUsers=false", "--set", "priorityClassName=high", "--set", "nodeSelector.disk=ssd",
		"--set", "imagePullSecrets[0].name=registry")))
	for kind, p := range all {
		type settings struct {
			HostUsers  *bool
			Class      string
			Nodes      map[string]string
			Registries []corev1.LocalObjectReference
		}
		want := settings{new(false), "high", map[string]string{"disk": "ssd", "kubernetes.io/os": "linux"}, []corev1.LocalObjectReference{{Name: "registry"}}}
		got := settings{p.Spec.HostUsers, p.Spec.PriorityClassName, p.Spec.NodeSelector, p.Spec.ImagePullSecrets}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
	if len(all) != 2 {
		t.Errorf("%d pods", len(all))
	}
	production := pods(t, parse(t, template(t, "-f", filepath.Join(chart, "values-production.yaml"), "--set", "nameOverride=my")))["Deployment"]
	required := 0
	for _, c := range production.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			required++
		}
		if c.LabelSelector.MatchLabels["app.kubernetes.io/name"] != "my" || len(c.MatchLabelKeys) != 1 {
			t.Errorf("%s selects %v", c.TopologyKey, c.LabelSelector)
		}
	}
	if required != 1 {
		t.Errorf("%d constraints are required in production, want that on nodes", required)
	}
}

// TestNetworkPolicy checks which peers the values admit, on a real API server also in
// TestInstall.
func TestNetworkPolicy(t *testing.T) {
	t.Parallel()
	const server, monitoring = "ipBlock.cidr=192.0.2.0/28", "namespaceSelector.matchLabels.team=monitoring"
	port := func(name string) []networkingv1.NetworkPolicyPort {
		return []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromString(name)), Protocol: new(corev1.ProtocolTCP)}}
	}
	api := []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "192.0.2.0/28"}}}
	prometheus := []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "monitoring"}}}}
	for name, tc := range map[string]struct {
		args    []string
		ingress []networkingv1.NetworkPolicyIngressRule
		egress  []networkingv1.NetworkPolicyEgressRule
	}{
		"by default": {nil, []networkingv1.NetworkPolicyIngressRule{{Ports: port("webhook")}}, nil},
		"all peers": {
			[]string{"--set", "networkPolicy.webhookFrom[0]." + server, "--set", "networkPolicy.metricsFrom[0]." + monitoring, "--set", "networkPolicy.egress[0].to[0]." + server},
			[]networkingv1.NetworkPolicyIngressRule{{Ports: port("webhook"), From: api}, {Ports: port("metrics"), From: prometheus}},
			[]networkingv1.NetworkPolicyEgressRule{{To: api}},
		},
		"no webhooks": {[]string{"--set", "webhooks.enabled=false"}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, o := range parse(t, template(t, append(tc.args, "--set", "networkPolicy.enabled=true", "--set", "crds.enabled=false")...)) {
				if o.GetKind() != "NetworkPolicy" {
					continue
				}
				var got networkingv1.NetworkPolicy
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &got); err != nil {
					t.Fatal(err)
				}
				want := networkingv1.NetworkPolicySpec{PodSelector: got.Spec.PodSelector, Ingress: tc.ingress, Egress: tc.egress, PolicyTypes: []networkingv1.PolicyType{"Ingress"}}
				if tc.egress != nil {
					want.PolicyTypes = append(want.PolicyTypes, "Egress")
				}
				if diff := cmp.Diff(want, got.Spec, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				return
			}
			t.Error("there is no NetworkPolicy")
		})
	}
}

func token(t *testing.T, p *corev1.PodTemplateSpec) *corev1.ServiceAccountTokenProjection {
	t.Helper()
	for _, v := range p.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.ServiceAccountToken != nil {
				return s.ServiceAccountToken
			}
		}
	}
	t.Fatal("there is no token")
	return nil
}

// A key that a map has twice is an error for some tools, and the last one wins for others.
func TestPods_LabelsOfTheChartWin(t *testing.T) {
	t.Parallel()
	manifests := template(t, "--set-json", `podLabels={"app.kubernetes.io/name":"mine","team":"a"}`, "--set", "crds.enabled=false")
	for doc := range strings.SplitSeq(string(manifests), "\n---\n") {
		var o unstructured.Unstructured
		if err := yaml.UnmarshalStrict([]byte(doc), &o.Object); err != nil {
			t.Errorf("%v:\n%s", err, doc)
		}
		labels, _, _ := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
		if len(labels) > 0 && (labels["app.kubernetes.io/name"] != "platform-operator" || labels["team"] != "a") {
			t.Errorf("%s has pods with the labels %v", o.GetKind(), labels)
		}
	}
}

// With an injected sidecar, for example, the Job of the hook would never complete.
func TestHook_HasThePodMetadataOfTheValues(t *testing.T) {
	t.Parallel()
	for _, o := range parse(t, template(t, "--set", "podAnnotations.a=b", "--set", "podLabels.c=d")) {
		if o.GetKind() != "Job" {
			continue
		}
		annotation, _, _ := unstructured.NestedString(o.Object, "spec", "template", "metadata", "annotations", "a")
		label, _, _ := unstructured.NestedString(o.Object, "spec", "template", "metadata", "labels", "c")
		if annotation != "b" || label != "d" {
			t.Errorf("its pods have the annotation %q and the label %q", annotation, label)
		}
		return
	}
	t.Error("there is no Job")
}
