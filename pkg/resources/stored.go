package resources

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// TemplateRules define which pod templates a kind generates. Everyone who can
// create ControllerRevisions can store another one.
type TemplateRules struct {
	// Profile is the least strict profile of the kind's pods. If it is "", it is
	// Restricted.
	Profile common.SecurityProfile
	// Containers are the names of the containers and init containers that the kind adds. A
	// spec sets other init containers.
	Containers []string
	// Commands matches the commands, arguments and hooks of containers, with spaces between
	// their words, if the kind generates them. If it is nil, a spec sets them and the environment.
	Commands *regexp.Regexp
}

// Violations returns the parts of a template that the kind generates from no
// spec, sorted. It lists what is allowed rather than what is not, so that a
// field that Kubernetes adds is not allowed either. Templates of earlier
// versions of the operator, and the defaults of the API server, are allowed.
func (r TemplateRules) Violations(t *corev1ac.PodTemplateSpecApplyConfiguration) []string {
	raw, err := json.Marshal(t)
	if err != nil {
		return []string{err.Error()}
	}
	var stated map[string]any
	if err := json.Unmarshal(raw, &stated); err != nil {
		return []string{err.Error()}
	}
	found := r.template()("", stated)
	if t.Spec != nil {
		found = append(found, r.missing(t.Spec)...)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// missing returns the fields that must be set because their defaults are not
// allowed.
func (r TemplateRules) missing(pod *corev1ac.PodSpecApplyConfiguration) []string {
	var found []string
	if pod.ServiceAccountName == nil && ptr.Deref(pod.AutomountServiceAccountToken, true) {
		found = append(found, "spec.automountServiceAccountToken")
	}
	if r.Profile == common.SecurityBaseline {
		return found
	}
	if s := pod.SecurityContext; s == nil {
		found = append(found, "spec.securityContext")
	} else {
		if !ptr.Deref(s.RunAsNonRoot, false) {
			found = append(found, "spec.securityContext.runAsNonRoot")
		}
		if s.SeccompProfile == nil {
			found = append(found, "spec.securityContext.seccompProfile")
		}
	}
	check := func(list string, containers []corev1ac.ContainerApplyConfiguration) {
		for _, c := range containers {
			at := fmt.Sprintf("spec.%s[%s].securityContext", list, ptr.Deref(c.Name, ""))
			s := c.SecurityContext
			if s == nil {
				found = append(found, at)
				continue
			}
			if ptr.Deref(s.AllowPrivilegeEscalation, true) {
				found = append(found, at+".allowPrivilegeEscalation")
			}
			if s.Capabilities == nil || !slices.Contains(s.Capabilities.Drop, "ALL") {
				found = append(found, at+".capabilities.drop")
			}
		}
	}
	check("containers", pod.Containers)
	check("initContainers", pod.InitContainers)
	return found
}

// rule returns the paths in a value that are not allowed.
type rule func(path string, value any) []string

func anything(string, any) []string { return nil }

// only allows some values.
func only(values ...any) rule {
	return func(path string, value any) []string {
		if slices.Contains(values, value) {
			return nil
		}
		return []string{path}
	}
}

// object allows fields, and others only if they are empty.
type object map[string]rule

func (o object) check(path string, value any) []string {
	fields, ok := value.(map[string]any)
	if !ok {
		return []string{path}
	}
	var found []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch allowed := o[name]; {
		case empty(fields[name]):
		case allowed == nil:
			found = append(found, below(path, name))
		default:
			found = append(found, allowed(below(path, name), fields[name])...)
		}
	}
	return found
}

func below(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

func empty(value any) bool {
	if v, ok := value.([]any); ok {
		return len(v) == 0
	}
	if _, ok := value.(map[string]any); ok {
		return false // an empty selector selects everything
	}
	return value == nil || value == false || value == "" // 0 is a user and a group
}

// fields allows fields of any value.
func (o object) with(names ...string) object {
	for _, name := range names {
		o[name] = anything
	}
	return o
}

// list allows elements. If they have names, only may restrict those.
func list(element rule, only ...string) rule {
	return func(path string, value any) []string {
		elements, ok := value.([]any)
		if !ok {
			return []string{path}
		}
		var found []string
		for i, e := range elements {
			at := fmt.Sprintf("%s[%d]", path, i)
			if fields, ok := e.(map[string]any); ok && fields["name"] != nil {
				at = fmt.Sprintf("%s[%v]", path, fields["name"])
				if len(only) > 0 && !slices.Contains(only, fmt.Sprint(fields["name"])) {
					found = append(found, at)
					continue
				}
			}
			found = append(found, element(at, e)...)
		}
		return found
	}
}

func annotations(path string, value any) []string {
	var found []string
	m, _ := value.(map[string]any)
	for key := range m {
		if strings.Contains(key, "security.beta.kubernetes.io/") || strings.Contains(key, "security.alpha.kubernetes.io/") ||
			strings.HasPrefix(key, "kubernetes.io/config.") {
			found = append(found, path+"["+key+"]")
		}
	}
	return found
}

func (r TemplateRules) template() rule {
	return object{
		"metadata": object{"annotations": annotations}.with("labels", "creationTimestamp").check,
		"spec":     r.pod(),
	}.check
}

func (r TemplateRules) pod() rule {
	term := object{}.with("labelSelector", "matchLabelKeys", "topologyKey").check
	terms := object{
		"requiredDuringSchedulingIgnoredDuringExecution":  list(term),
		"preferredDuringSchedulingIgnoredDuringExecution": list(object{"podAffinityTerm": term}.with("weight").check),
	}.check
	return object{
		"affinity":       object{"podAffinity": terms, "podAntiAffinity": terms}.with("nodeAffinity").check,
		"containers":     list(r.container(), r.Containers...),
		"initContainers": list(r.initContainer()),
		"dnsPolicy":      only(string(corev1.DNSClusterFirst)),
		"restartPolicy":  only(string(corev1.RestartPolicyAlways)),
		"schedulerName":  only(corev1.DefaultSchedulerName),
		"securityContext": object{
			"runAsNonRoot": only(true), "runAsUser": user,
			"seccompProfile": object{"type": only(string(corev1.SeccompProfileTypeRuntimeDefault))}.check,
			"sysctls":        list(object{}.with("name", "value").check, "net.ipv4.ip_unprivileged_port_start"),
		}.with("fsGroup", "runAsGroup").check,
		"volumes": list(object{
			"projected": object{"sources": list(object{}.with("configMap", "downwardAPI", "secret").check)}.with("defaultMode").check,
		}.with("configMap", "downwardAPI", "emptyDir", "image", "name", "persistentVolumeClaim", "secret").check),
	}.with(
		"automountServiceAccountToken", "enableServiceLinks", "imagePullSecrets", "nodeSelector", "priorityClassName", "runtimeClassName",
		"serviceAccount", "serviceAccountName", "terminationGracePeriodSeconds", "tolerations", "topologySpreadConstraints",
	).check
}

// command allows the words of a command that the kind generates.
func (r TemplateRules) command(path string, value any) []string {
	words, _ := value.([]any)
	text := strings.TrimSuffix(fmt.Sprintln(words...), "\n")
	if r.Commands == nil || r.Commands.MatchString(text) {
		return nil
	}
	return []string{path}
}

// initContainer allows those of the kind, and those that a spec can set.
func (r TemplateRules) initContainer() rule {
	own, ofSpec := r.container(), TemplateRules{}.fields()
	for _, unset := range []string{"envFrom", "lifecycle", "ports"} {
		delete(ofSpec, unset)
	}
	return func(path string, value any) []string {
		fields, _ := value.(map[string]any)
		if slices.Contains(r.Containers, fmt.Sprint(fields["name"])) {
			return own(path, value)
		}
		return ofSpec.check(path, value)
	}
}

func (r TemplateRules) container() rule {
	allowed := r.fields()
	if r.Commands != nil {
		delete(allowed, "env")
		delete(allowed, "envFrom")
	}
	return allowed.check
}

// fields are those of a container whose environment a spec sets.
func (r TemplateRules) fields() object {
	probe := object{
		"httpGet":   object{}.with("httpHeaders", "path", "port", "scheme").check,
		"tcpSocket": object{}.with("port").check,
	}.with("exec", "failureThreshold", "grpc", "initialDelaySeconds", "periodSeconds", "successThreshold", "timeoutSeconds").check
	return object{
		"env": list(object{
			"valueFrom": object{}.with("configMapKeyRef", "fieldRef", "resourceFieldRef", "secretKeyRef").check,
		}.with("name", "value").check),
		"envFrom":       list(object{}.with("configMapRef", "prefix", "secretRef").check),
		"lifecycle":     object{"preStop": object{"exec": object{"command": r.command}.check}.with("sleep").check}.check,
		"livenessProbe": probe, "readinessProbe": probe, "startupProbe": probe,
		"ports":     list(object{}.with("containerPort", "name", "protocol").check),
		"resources": object{}.with("limits", "requests").check,
		"securityContext": object{
			"capabilities": object{}.with("drop").check,
		}.with("readOnlyRootFilesystem").check,
		"restartPolicy":          only(string(corev1.ContainerRestartPolicyAlways)),
		"terminationMessagePath": only(corev1.TerminationMessagePathDefault),
		"volumeMounts":           list(object{}.with("mountPath", "name", "readOnly", "subPath").check),
		"args":                   r.command, "command": r.command,
	}.with("image", "imagePullPolicy", "name", "terminationMessagePolicy")
}

// user allows all users but root.
func user(path string, value any) []string {
	if n, ok := value.(float64); ok && n >= 1 {
		return nil
	}
	return []string{path}
}

// Generated is what the operator adds to the pods of an object itself, to which no
// rule of the platform configuration applies.
type Generated struct {
	Labels              map[string]string // select the pods
	Volumes, Containers []string
}

// NotAllowed returns the values in a template that the platform configuration
// does not allow. It applies the rules that admission applies to a spec. Service
// accounts are not included, see CheckServiceAccount.
func NotAllowed(p config.Platform, own Generated, t *corev1ac.PodTemplateSpecApplyConfiguration) field.ErrorList {
	if t.Spec == nil {
		return nil
	}
	spec := field.NewPath("spec")
	images := imagesOf(t.Spec, spec)
	images = slices.DeleteFunc(images, func(i config.Image) bool { return p.SetsImage(i.Name) })
	var errs field.ErrorList
	for _, i := range images {
		errs = append(errs, p.RefusesImage(i)...)
	}
	errs = append(errs, p.RefusesPod(settingsOf(t, own, spec))...)
	if class := ptr.Deref(t.Spec.PriorityClassName, ""); strings.HasPrefix(class, "system-") { // rejected by the schemas
		errs = append(errs, field.Invalid(spec.Child("priorityClassName"), class, "system priority classes are not allowed"))
	}
	if !p.Pods.AllowsProfile(common.SecurityBaseline) {
		for _, path := range (TemplateRules{Profile: common.SecurityRestricted}).missing(t.Spec) {
			errs = append(errs, field.Forbidden(field.NewPath(path), "the platform configuration does not allow profile Baseline (pods.leastProfile is Restricted)"))
		}
	}
	return errs
}

// imagesOf returns the images of a pod. Their fields have names instead of indexes,
// so that they can be compared with those of another template.
func imagesOf(pod *corev1ac.PodSpecApplyConfiguration, spec *field.Path) []config.Image {
	var images []config.Image
	containers := func(list string, all []corev1ac.ContainerApplyConfiguration) {
		for _, c := range all {
			at := spec.Child(list).Key(ptr.Deref(c.Name, ""))
			images = append(images, config.Image{Field: at.Child("image"), Name: ptr.Deref(c.Image, ""), PullField: at.Child("imagePullPolicy"), Pull: ptr.Deref(c.ImagePullPolicy, "")})
		}
	}
	containers("containers", pod.Containers)
	containers("initContainers", pod.InitContainers)
	for _, v := range pod.Volumes {
		if i := v.Image; i != nil {
			at := spec.Child("volumes").Key(ptr.Deref(v.Name, "")).Child("image")
			images = append(images, config.Image{Field: at.Child("reference"), Name: ptr.Deref(i.Reference, ""), PullField: at.Child("pullPolicy"), Pull: ptr.Deref(i.PullPolicy, "")})
		}
	}
	return images
}

// settingsOf returns what the platform configuration restricts in a template.
func settingsOf(t *corev1ac.PodTemplateSpecApplyConfiguration, own Generated, spec *field.Path) config.PodSettings {
	s := config.PodSettings{
		PriorityClass: config.Text{Field: spec.Child("priorityClassName"), Value: ptr.Deref(t.Spec.PriorityClassName, "")},
		RuntimeClass:  config.Text{Field: spec.Child("runtimeClassName"), Value: ptr.Deref(t.Spec.RuntimeClassName, "")},
	}
	if m := t.ObjectMetaApplyConfiguration; m != nil {
		meta := field.NewPath("metadata")
		s.Annotations = config.Keys{Field: meta.Child("annotations"), Values: own.without(m.Annotations)}
		if s.Annotations.Values[annotationEvictable] == strings.Join(own.Volumes, ",") {
			delete(s.Annotations.Values, annotationEvictable)
		}
		s.Labels = config.Keys{Field: meta.Child("labels"), Values: own.without(m.Labels)}
	}
	for _, c := range t.Spec.InitContainers {
		if name := ptr.Deref(c.Name, ""); !slices.Contains(own.Containers, name) {
			s.InitContainers = append(s.InitContainers, config.InitContainer(spec.Child("initContainers").Key(name), ptr.Deref(c.Image, ""), c))
		}
	}
	for _, toleration := range t.Spec.Tolerations {
		if key := ptr.Deref(toleration.Key, ""); !leavesLostNodes(toleration) {
			s.Tolerations = append(s.Tolerations, config.Text{Field: spec.Child("tolerations").Key(key).Child("key"), Value: key})
		}
	}
	// The operator sets the default if the spec sets nothing.
	if seconds := t.Spec.TerminationGracePeriodSeconds; seconds != nil && *seconds != config.DefaultGracePeriod {
		s.GracePeriod = config.Seconds{Field: spec.Child("terminationGracePeriodSeconds"), Value: *seconds}
	}
	for _, v := range t.Spec.Volumes {
		if name := ptr.Deref(v.Name, ""); v.EmptyDir != nil && !slices.Contains(own.Volumes, name) {
			s.Scratch = append(s.Scratch, config.Size{Field: spec.Child("volumes").Key(name).Child("emptyDir", "sizeLimit"), Limit: v.EmptyDir.SizeLimit})
		}
	}
	return s
}

// without returns the labels or annotations that a user can set.
func (g Generated) without(keys map[string]string) map[string]string {
	keys = maps.Clone(keys)
	maps.DeleteFunc(keys, func(key, _ string) bool {
		_, selects := g.Labels[key]
		return selects || key == naming.LabelManagedBy || strings.HasPrefix(key, naming.Domain+"/")
	})
	return keys
}
