// Package policy validates objects against the platform configuration, and
// returns warnings about them. Rules that do not depend on the platform
// configuration are in the schemas of the kinds and in the sibling packages.
//
// Everything here is pure. Each message names the platform configuration as the
// reason, and the remedy.
package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/config"
)

// Verdict is the result of validating an object.
type Verdict struct {
	// Refused are the validation errors.
	Refused field.ErrorList
	// Warnings are shown to the user who sent the object.
	Warnings []string
}

// Request is what an object of any kind requests that the platform configuration
// can restrict. A kind sets the fields that its spec has.
type Request struct {
	Namespace string
	Images    []Image

	Replicas    Number // of pods, if the object sets it
	Autoscaling *common.Autoscaling
	Budget      *common.PodDisruptionBudget

	Services  []Service
	NodePorts []Number
	Expose    *common.Expose
	Pod       *common.Pod

	// Service are the settings of the Service, or nil.
	Service *common.ServiceOptions
	// Profile is the security profile of the pods, or "" if the kind has only one.
	Profile common.SecurityProfile

	DeletionPolicy common.DeletionPolicy
}

// Image is the name of an image and the field that sets it, and the same for its
// pull policy.
type Image struct {
	Field     *field.Path
	Name      string
	PullField *field.Path
	Pull      corev1.PullPolicy
}

// Number is a number and the field that sets it, which is nil if none does.
type Number struct {
	Field *field.Path
	Value int32
}

// Service is a type of Service and the field that requests it.
type Service struct {
	Field *field.Path
	Type  corev1.ServiceType
}

// Profile returns the security profile of an object of a kind whose default is
// Baseline.
func Profile(s *common.Security) common.SecurityProfile {
	if s == nil || s.Profile == "" {
		return common.SecurityBaseline
	}
	return s.Profile
}

var spec = field.NewPath("spec")

// Judge validates the request against the platform configuration.
func (r Request) Judge(p config.Platform) Verdict {
	var v Verdict
	pod := spec.Child("pod")
	if r.Pod != nil {
		for i, volume := range r.Pod.Volumes {
			if volume.Image != nil {
				at := pod.Child("volumes").Index(i).Child("image")
				r.Images = append(r.Images, Image{at.Child("reference"), volume.Image.Reference, at.Child("pullPolicy"), volume.Image.PullPolicy})
			}
		}
	}
	for _, i := range r.Images {
		v.judgeImage(i, p.Images)
		v.judgePull(i, p.Images)
	}
	v.judgeReplicas(r.Replicas, p)
	if s := r.Autoscaling; s != nil {
		v.judgeReplicas(Number{spec.Child("autoscaling", "maxReplicas"), s.MaxReplicas}, p)
	}
	for _, s := range r.Services {
		if !slices.Contains(p.ServiceTypes, s.Type) {
			v.refuse(field.Forbidden(s.Field, fmt.Sprintf("the platform configuration allows only Services of type %[2]s, and this field asks for type %[1]s", s.Type, types(p.ServiceTypes))))
		}
	}
	v.Refused = append(v.Refused, p.RefusesExpose(r.Namespace, r.Expose, spec.Child("expose"))...)
	if s := r.Service; s != nil {
		v.judgeAnnotations(spec.Child("service", "annotations"), s.Annotations, p)
		if c := s.LoadBalancerClass; c != "" && !p.AllowsLoadBalancerClass(c) {
			v.notListed(spec.Child("service", "loadBalancerClass"), "load balancer class", c, "loadBalancerClasses", p.LoadBalancerClasses)
		}
	}
	if r.Expose != nil && r.Expose.Ingress != nil {
		at := spec.Child("expose", "ingress")
		v.judgeAnnotations(at.Child("annotations"), r.Expose.Ingress.Annotations, p)
		if c := r.Expose.Ingress.IngressClassName; c != "" && !p.AllowsIngressClass(c) {
			v.notListed(at.Child("ingressClassName"), "ingress class", c, "ingressClasses", p.IngressClasses)
		}
	}
	if r.Pod != nil {
		v.judgePod(pod, r.Pod, p)
	}
	if r.Profile != "" && !p.Pods.AllowsProfile(r.Profile) {
		v.refuse(field.Forbidden(spec.Child("security", "profile"), fmt.Sprintf(
			"the platform configuration does not allow profile %s, which is also the default of this kind (pods.leastProfile is %s): set it to Restricted", r.Profile, p.Pods.LeastProfile)))
	}
	if d := r.DeletionPolicy; d == common.DeletionPolicyOrphan && !slices.Contains(p.DeletionPolicies, d) {
		v.refuse(field.Forbidden(spec.Child("deletionPolicy"), fmt.Sprintf(
			"the platform configuration does not allow policy %s (deletionPolicies is %v): remove deletionPolicy", d, p.DeletionPolicies)))
	}
	r.warn(&v)
	return v
}

func (v *Verdict) judgePod(at *field.Path, pod *common.Pod, p config.Platform) {
	keys := func(field string, keys []string, allows func(string) bool, listed []string) {
		for _, key := range keys {
			if !allows(key) {
				v.refuseKey(at.Child(field).Key(key), "pods."+field, listed, p.Pods.UnlistedKeys)
			}
		}
	}
	keys("annotations", slices.Sorted(maps.Keys(pod.Annotations)), p.Pods.AllowsAnnotation, p.Pods.Annotations)
	keys("labels", slices.Sorted(maps.Keys(pod.Labels)), p.Pods.AllowsLabel, p.Pods.Labels)
	if c := pod.PriorityClassName; c != "" && !p.AllowsPriorityClass(c) {
		v.notListed(at.Child("priorityClassName"), "priority class", c, "priorityClasses", p.PriorityClasses)
	}
	if c := pod.RuntimeClassName; c != "" && !p.Pods.AllowsRuntimeClass(c) {
		v.notListed(at.Child("runtimeClassName"), "runtime class", c, "pods.runtimeClasses", p.Pods.RuntimeClasses)
	}
	if pod.ServiceAccountName != "" && !p.ServiceAccounts {
		v.refuse(field.Forbidden(at.Child("serviceAccountName"), config.NoServiceAccounts))
	}
	for i, t := range pod.Tolerations {
		if !p.Pods.AllowsToleration(t.Key) {
			v.refuse(field.Forbidden(at.Child("tolerations").Index(i).Child("key"), fmt.Sprintf(
				"the platform configuration does not allow a toleration of %s (pods.tolerations is [%s]): use an allowed key, or remove the toleration",
				cmp.Or(t.Key, "all taints"), strings.Join(p.Pods.Tolerations, ", "))))
		}
	}
	if s := pod.TerminationGracePeriodSeconds; s != nil && !p.Pods.AllowsGracePeriod(*s) {
		v.refuse(field.Invalid(at.Child("terminationGracePeriodSeconds"), *s, fmt.Sprintf(
			"must be %d or less, as set in the platform configuration (pods.maxTerminationGracePeriodSeconds): a pod delays the drain of its node for as long", p.Pods.MaxTerminationGracePeriodSeconds)))
	}
	most := p.Pods.MaxEmptyDirSize
	for i, volume := range pod.Volumes {
		if d := volume.EmptyDir; d != nil && !most.IsZero() && (d.SizeLimit == nil || d.SizeLimit.IsZero() || d.SizeLimit.Cmp(most) > 0) {
			v.refuse(field.Forbidden(at.Child("volumes").Index(i).Child("emptyDir", "sizeLimit"), fmt.Sprintf(
				"the platform configuration requires a size of at most %s (pods.maxEmptyDirSize): set it", &most)))
		}
	}
}

// notListed refuses a class that the platform configuration does not list.
func (v *Verdict) notListed(at *field.Path, what, name, setting string, listed []string) {
	v.refuse(field.Forbidden(at, fmt.Sprintf("the platform configuration does not allow %s %q (%s is [%s]): use an allowed one, or remove %s",
		what, name, setting, strings.Join(listed, ", "), at.String()[strings.LastIndex(at.String(), ".")+1:])))
}

func (v *Verdict) refuseKey(at *field.Path, setting string, listed []string, unlisted config.KeyPolicy) {
	why := "because other programs of the cluster act on it"
	if unlisted == config.KeysRefuse {
		why = "because it is not listed"
	}
	v.refuse(field.Forbidden(at, fmt.Sprintf("the platform configuration does not allow this key, %s (%s is [%s]): remove it", why, setting, strings.Join(listed, ", "))))
}

func (v *Verdict) judgeAnnotations(at *field.Path, annotations map[string]common.AnnotationValue, p config.Platform) {
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if !p.AllowsAnnotation(key) {
			v.refuse(field.Forbidden(at.Key(key), fmt.Sprintf(
				"the platform configuration does not allow this annotation (annotations is [%s]): remove it", strings.Join(p.Annotations, ", "))))
		}
	}
}

// warn adds warnings about settings that are allowed but have no effect.
func (r Request) warn(v *Verdict) {
	least := int32(1)
	if s := r.Autoscaling; s != nil {
		if s.MinReplicas != nil {
			least = *s.MinReplicas
		}
	} else if r.Replicas.Field != nil {
		least = r.Replicas.Value
	}
	if r.Budget != nil && least == 1 {
		v.warn("%s: there may be a single pod, which a drain of its node evicts regardless of the budget: set at least two replicas", spec.Child("podDisruptionBudget"))
	}
	if r.Replicas.Field != nil && r.Replicas.Value == 0 {
		for _, n := range r.NodePorts {
			v.warn("%s: node port %d stays allocated although %s is 0, and nothing answers on it", n.Field, n.Value, r.Replicas.Field)
		}
	}
}

func (v *Verdict) judgeImage(i Image, p config.Images) {
	if i.Name == "" {
		return // the platform's default, or rejected by the schema
	}
	if !p.Allows(i.Name) {
		v.refuse(field.Forbidden(i.Field, fmt.Sprintf("the platform configuration allows images only from %s, and this is %s", strings.Join(p.Allowed, ", "), excerpt(i.Name))))
	}
	if !config.Moving(i.Name) {
		return
	}
	switch p.Latest {
	case config.LatestRefuse:
		v.refuse(field.Forbidden(i.Field, fmt.Sprintf("the platform configuration rejects images without a fixed version, such as %s: specify a version or a digest", excerpt(i.Name))))
	case config.LatestWarn:
		v.warn("%s: %s has no fixed version, so that a rollback may not restore the previous image: specify a version or a digest", i.Field, excerpt(i.Name))
	}
}

// judgePull rejects images that a pod may use without pulling them: an image that is
// on the node for another tenant's pod needs no credentials then.
func (v *Verdict) judgePull(i Image, p config.Images) {
	if p.Pull != config.PullAlways || i.Name == "" || i.Pull == corev1.PullAlways || i.Pull == "" && config.Moving(i.Name) {
		return
	}
	v.refuse(field.Forbidden(i.PullField, "the platform configuration requires that images are pulled (images.pull is Always): set it to Always"))
}

func (v *Verdict) judgeReplicas(r Number, p config.Platform) {
	if r.Field != nil && r.Value > p.MaxReplicas {
		v.refuse(field.Invalid(r.Field, r.Value, fmt.Sprintf("must be %d or less, as set in the platform configuration", p.MaxReplicas)))
	}
}

func (v *Verdict) refuse(e *field.Error) { v.Refused = append(v.Refused, e) }

func (v *Verdict) warn(format string, args ...any) {
	v.Warnings = append(v.Warnings, fmt.Sprintf(format, args...))
}

// Scale validates a request to change the number of pods. A request that does
// not increase the number is always allowed.
func Scale(old, now *autoscalingv1.Scale, p config.Platform) field.ErrorList {
	if now.Spec.Replicas <= old.Spec.Replicas {
		return nil
	}
	var v Verdict
	v.judgeReplicas(Number{spec.Child("replicas"), now.Spec.Replicas}, p)
	return v.Refused
}

func types(all []corev1.ServiceType) string {
	words := make([]string, len(all))
	for i, t := range all {
		words[i] = string(t)
	}
	return strings.Join(words, ", ")
}

// excerpt shortens the name of an image, because the API server truncates long
// warnings.
func excerpt(name string) string {
	const most = 80
	if len(name) > most {
		return strings.ToValidUTF8(name[:most], "") + "…"
	}
	return name
}
