//go:build chart

package charts_test

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
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
		"good for a year":    func(p *corev1.PodTemplateSpec) { p.Spec.AutomountServiceAccountToken = nil },
		"more than an hour":  func(p *corev1.PodTemplateSpec) { token(t, p).ExpirationSeconds = new(int64(7200)) },
		"write to its image": func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem = nil },
		"memory of a node":   func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].Resources.Limits = nil },
	} {
		p := pods(t, objects)["Deployment"]
		loosen(&p)
		if got := strings.Join(violations(t, p), "\n"); !strings.Contains(got, want) {
			t.Errorf("want %q, got %q", want, got)
		}
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
