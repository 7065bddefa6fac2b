package resources

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
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
	Drain(pod, c, o.Pod, 5)
	OnNodes(pod, config.Pods{TolerationSeconds: 30, UserNamespaces: true})
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

func TestTemplateRules_AllowTheDefaultSpread(t *testing.T) {
	pod, c := built()
	o := options(t, `{}`)
	o.Selector = map[string]string{"app": "web"}
	Customize(pod, c, o)
	rules := TemplateRules{Profile: common.SecurityBaseline, Containers: []string{"app"}}
	if found := rules.Violations(Template(o.Selector, pod.WithContainers(c))); len(found) > 0 {
		t.Error(found)
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
		"spec.initContainers[fetch].securityContext.allowPrivilegeEscalation",
		"spec.initContainers[fetch].securityContext.capabilities.drop",
		"spec.initContainers[proxy].securityContext.allowPrivilegeEscalation",
		"spec.initContainers[proxy].securityContext.capabilities.drop",
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
		`spec.containers[b].image: Forbidden: the platform configuration allows images only from registry.example, and this is other.example/b:1`,
		`spec.initContainers[test].image: Forbidden: the platform configuration rejects images without a fixed version, such as registry.example/a: specify a version or a digest`,
		`spec.priorityClassName: Invalid value: "system-node-critical": system priority classes are not allowed`,
	}
	if diff := cmp.Diff(want, messages(NotAllowed(p, Generated{Containers: []string{"test"}}, template))); diff != "" {
		t.Errorf("not allowed (-want +got):\n%s", diff)
	}
}

func messages(errs field.ErrorList) []string {
	var all []string
	for _, e := range errs {
		all = append(all, e.Error())
	}
	return all
}

// strictest allows nothing that the platform configuration can refuse.
func strictest() config.Platform {
	p := config.Default()
	p.Images = config.Images{Allowed: []string{"registry.example"}, Latest: config.LatestRefuse, Pull: config.PullAlways}
	p.Pods = config.Pods{
		UnlistedKeys: config.KeysRefuse, LeastProfile: common.SecurityRestricted,
		MaxTerminationGracePeriodSeconds: 1, MaxEmptyDirSize: resource.MustParse("1"),
	}
	return p
}

// A rule that admission enforces and that is not read from a template would not apply
// to an earlier revision.
func TestNotAllowed_ReadsEverySettingThatAdmissionRestricts(t *testing.T) {
	own := Generated{Labels: map[string]string{"app": "web"}, Volumes: []string{"run", "tmp"}}
	template := templateOfEverything(t, common.SecurityBaseline)
	template.WithAnnotations(map[string]string{annotationEvictable: "run,tmp,site"})
	settings := reflect.ValueOf(settingsOf(template, own, field.NewPath("spec")))
	for i := range settings.NumField() {
		// CheckServiceAccount refuses service accounts, also of a template that runs.
		if name := settings.Type().Field(i).Name; settings.Field(i).IsZero() != (name == "ServiceAccount") {
			t.Errorf("%s: %+v", name, settings.Field(i))
		}
	}
	var got []string
	for _, e := range NotAllowed(strictest(), own, template) {
		got = append(got, e.Field)
	}
	slices.Sort(got)
	want := []string{
		"metadata.annotations[cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes]",
		"metadata.annotations[note]",
		"metadata.labels[team]",
		"spec.containers[app].image",
		"spec.containers[app].securityContext.allowPrivilegeEscalation",
		"spec.containers[app].securityContext.capabilities.drop",
		"spec.initContainers[fetch]",
		"spec.initContainers[fetch].image",
		"spec.initContainers[fetch].imagePullPolicy",
		"spec.initContainers[fetch].securityContext.allowPrivilegeEscalation",
		"spec.initContainers[fetch].securityContext.capabilities.drop",
		"spec.initContainers[proxy]",
		"spec.initContainers[proxy].image",
		"spec.initContainers[proxy].imagePullPolicy",
		"spec.initContainers[proxy].securityContext.allowPrivilegeEscalation",
		"spec.initContainers[proxy].securityContext.capabilities.drop",
		"spec.priorityClassName",
		"spec.runtimeClassName",
		"spec.securityContext.runAsNonRoot",
		"spec.terminationGracePeriodSeconds",
		"spec.tolerations[a].key",
		"spec.volumes[site].image.pullPolicy",
		"spec.volumes[site].image.reference",
		"spec.volumes[user0-tmp].emptyDir.sizeLimit",
	}
	if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
		t.Errorf("not allowed (-want +got):\n%s", diff)
	}
	template.Annotations[annotationEvictable] = "run,tmp" // as the operator sets it
	if keys := settingsOf(template, own, field.NewPath("spec")).Annotations.Values; len(keys) != 1 {
		t.Errorf("annotations of the user: %v", keys)
	}
}
