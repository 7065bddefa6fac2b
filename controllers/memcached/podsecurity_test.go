package memcached

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
			m, o := in()
			d, _ := typed(t, m, o)
			if got := refusals(t, d.Spec.Template); got != "" {
				t.Errorf("refused: %s", got)
			}
			c := d.Spec.Template.Spec.Containers[0].SecurityContext
			if chosen := m.Spec.Security != nil; !chosen && !*c.ReadOnlyRootFilesystem {
				t.Error("the root file system can be written")
			} else if u := *d.Spec.Template.Spec.SecurityContext.RunAsUser; !chosen && u != 11211 {
				t.Errorf("it runs as user %d", u)
			}
		})
	}
}
