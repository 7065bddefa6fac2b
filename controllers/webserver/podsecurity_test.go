package webserver

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// refusals returns the violations of the Pod Security Standard "restricted", in its
// latest version, by a pod.
func refusals(t *testing.T, pod corev1.PodTemplateSpec) string {
	t.Helper()
	e, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := policy.AggregateCheckResults(e.EvaluatePod(
		api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}, &pod.ObjectMeta, &pod.Spec))
	return r.ForbiddenDetail()
}

func TestDesired_PodsMeetTheRestrictedStandard(t *testing.T) {
	for name, in := range cases(t) {
		t.Run(name, func(t *testing.T) {
			w, o := in()
			d, _ := typed(t, w, o)
			if got := refusals(t, d.Spec.Template); got != "" {
				t.Errorf("refused: %s", got)
			}
		})
	}
}

// Proves that the check above can fail.
func TestPodSecurityCheck_DetectsViolations(t *testing.T) {
	for name, loosen := range map[string]func(*corev1.PodSpec){
		"privilege escalation": func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.AllowPrivilegeEscalation = new(true) },
		"capabilities":         func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.Capabilities = nil },
		"root":                 func(p *corev1.PodSpec) { p.SecurityContext.RunAsUser = new(int64(0)) },
		"perhaps root":         func(p *corev1.PodSpec) { p.SecurityContext.RunAsNonRoot = nil },
		"no seccomp profile":   func(p *corev1.PodSpec) { p.SecurityContext.SeccompProfile = nil },
		"another sysctl":       func(p *corev1.PodSpec) { p.SecurityContext.Sysctls[0].Name = "kernel.msgmax" },
		"the node's files": func(p *corev1.PodSpec) {
			p.Volumes[0].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
		},
		"the node's network": func(p *corev1.PodSpec) { p.HostNetwork = true },
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := typed(t, sample(), Observed{})
			loosen(&d.Spec.Template.Spec)
			if got := refusals(t, d.Spec.Template); got == "" {
				t.Error("it is accepted")
			}
		})
	}
}
