package resources

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/config"
)

// templateOfEverything returns a template with every field that a user can set.
func templateOfEverything(t *testing.T, profile common.SecurityProfile) *corev1ac.PodTemplateSpecApplyConfiguration {
	t.Helper()
	o := options(t, everything)
	o.Selector, o.ReadinessPort = map[string]string{"app": "web"}, 80
	pod, c := built()
	secure, confined := SecurityContexts(&common.Security{
		RunAsUser: new(int64(1)), RunAsGroup: new(int64(0)), FSGroup: new(int64(0)), ReadOnlyRootFilesystem: new(false),
	}, SecurityDefaults{Profile: profile})
	Customize(pod, c.WithSecurityContext(confined).WithPorts(corev1ac.ContainerPort().WithName("http").WithContainerPort(80)), o)
	Drain(pod, c, 5)
	return Template(PodLabels(o.Pod, o.Selector), pod.WithSecurityContext(secure).WithContainers(c)).WithAnnotations(PodAnnotations(o.Pod))
}

func TestTemplateRules_AllowEveryFieldOfASpec(t *testing.T) {
	for _, profile := range []common.SecurityProfile{common.SecurityRestricted, common.SecurityBaseline} {
		rules := TemplateRules{Profile: profile, Containers: []string{"app"}}
		template := templateOfEverything(t, profile)
		if found := rules.Violations(template); len(found) > 0 {
			t.Errorf("%s: %v", profile, found)
		}
		// A revision that was lost is restored from the Deployment.
		if found := rules.Violations(defaulted(t, template)); len(found) > 0 {
			t.Errorf("%s, from a Deployment: %v", profile, found)
		}
	}
}

// defaulted returns the template as the API server returns it in a Deployment.
func defaulted(t *testing.T, template *corev1ac.PodTemplateSpecApplyConfiguration) *corev1ac.PodTemplateSpecApplyConfiguration {
	t.Helper()
	live := corev1.PodTemplateSpec{}
	convert(t, template, &live)
	live.Spec.DNSPolicy, live.Spec.SchedulerName = corev1.DNSClusterFirst, corev1.DefaultSchedulerName
	live.Spec.DeprecatedServiceAccount = live.Spec.ServiceAccountName
	c := &live.Spec.Containers[0]
	c.TerminationMessagePath = corev1.TerminationMessagePathDefault
	c.Env[3].ValueFrom.FieldRef.APIVersion = "v1"
	from := &corev1ac.PodTemplateSpecApplyConfiguration{}
	convert(t, live, from)
	return from
}

func convert(t *testing.T, from, to any) {
	t.Helper()
	raw, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(raw, to)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Restricted is the profile of a kind that sets none.
func TestTemplateRules_RefuseALessStrictProfile(t *testing.T) {
	want := []string{
		"spec.containers[app].securityContext.allowPrivilegeEscalation",
		"spec.containers[app].securityContext.capabilities.drop",
		"spec.securityContext.runAsNonRoot",
	}
	got := TemplateRules{Containers: []string{"app"}}.Violations(templateOfEverything(t, common.SecurityBaseline))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
}

func TestNotAllowed_ExceptsTheImagesOfThePlatform(t *testing.T) {
	p := config.Default()
	p.Images = config.Images{Allowed: []string{"registry.example"}, Latest: config.LatestRefuse}
	p.PriorityClasses = []string{"*"}
	template := corev1ac.PodTemplateSpec().WithSpec(corev1ac.PodSpec().WithPriorityClassName("system-node-critical").
		WithInitContainers(corev1ac.Container().WithName("test").WithImage("registry.example/a")).
		WithContainers(
			corev1ac.Container().WithName("a").WithImage("registry.example/a:1"),
			corev1ac.Container().WithName("b").WithImage("other.example/b:1"),
			corev1ac.Container().WithName("exporter").WithImage(p.WebServer.ExporterImage),
		))
	want := []string{
		`spec.containers[b].image "other.example/b:1"`,
		`spec.initContainers[test].image "registry.example/a"`,
		`spec.priorityClassName "system-node-critical"`,
	}
	if diff := cmp.Diff(want, NotAllowed(p, template)); diff != "" {
		t.Errorf("not allowed (-want +got):\n%s", diff)
	}
}
