// Package policy validates objects against the platform configuration, and
// returns warnings about them. Rules that do not depend on the platform
// configuration are in the schemas of the kinds and in the sibling packages.
//
// Everything here is pure. Each message names the platform configuration as the
// reason, and the remedy.
package policy

import (
	"fmt"
	"slices"

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
	Images    []config.Image

	Replicas    Number // of pods, if the object sets it
	Autoscaling *common.Autoscaling
	Budget      *common.PodDisruptionBudget

	// ServiceType is the type of the Service that a field requests.
	ServiceType config.Text
	NodePorts   []Number
	Expose      *common.Expose
	Pod         *common.Pod
	Container   *common.Container
	// Selector are the labels that the operator sets on the pods, and Rollout is how a
	// Deployment replaces them, if there is one.
	Selector map[string]string
	Deployed bool
	Rollout  *common.Rollout

	// Service are the settings of the Service, or nil.
	Service *common.ServiceOptions
	// Profile is the security profile of the pods, or "" if the kind has only one.
	Profile common.SecurityProfile

	DeletionPolicy common.DeletionPolicy
}

// Number is a number and the field that sets it, which is nil if none does.
type Number struct {
	Field *field.Path
	Value int32
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
				r.Images = append(r.Images, config.Image{Field: at.Child("reference"), Name: volume.Image.Reference, PullField: at.Child("pullPolicy"), Pull: volume.Image.PullPolicy})
			}
		}
		for i, c := range r.Pod.InitContainers {
			at := pod.Child("initContainers").Index(i)
			r.Images = append(r.Images, config.Image{Field: at.Child("image"), Name: c.Image, PullField: at.Child("imagePullPolicy"), Pull: c.ImagePullPolicy})
		}
	}
	for _, i := range r.Images {
		v.refuse(p.RefusesImage(i)...)
		v.warnImage(i, p.Images)
	}
	v.judgeReplicas(r.Replicas, p)
	if s := r.Autoscaling; s != nil {
		v.judgeReplicas(Number{spec.Child("autoscaling", "maxReplicas"), s.MaxReplicas}, p)
	}
	if s := r.ServiceType; s.Value != "" && !slices.Contains(p.ServiceTypes, corev1.ServiceType(s.Value)) {
		v.refuse(field.Forbidden(s.Field, fmt.Sprintf("the platform configuration allows only Services of type %s, and this field asks for type %s", config.Joined(p.ServiceTypes), s.Value)))
	}
	for _, n := range r.NodePorts {
		if !slices.Contains(p.ServiceTypes, corev1.ServiceTypeNodePort) {
			v.refuse(field.Forbidden(n.Field, fmt.Sprintf("the platform configuration allows only Services of type %s, and this field asks for a port of the nodes, as type NodePort does", config.Joined(p.ServiceTypes))))
		}
	}
	v.refuse(p.RefusesExpose(r.Namespace, r.Expose, spec.Child("expose"))...)
	if s := r.Service; s != nil {
		at := spec.Child("service")
		v.refuse(p.RefusesAnnotations(config.Keys{Field: at.Child("annotations"), Values: config.Texts(s.Annotations)})...)
		class := config.Text{Field: at.Child("loadBalancerClass"), Value: s.LoadBalancerClass}
		v.refuse(config.RefusesClass(class, "load balancer class", "loadBalancerClasses", p.LoadBalancerClasses)...)
	}
	if r.Expose != nil && r.Expose.Ingress != nil {
		at := spec.Child("expose", "ingress")
		v.refuse(p.RefusesAnnotations(config.Keys{Field: at.Child("annotations"), Values: config.Texts(r.Expose.Ingress.Annotations)})...)
		class := config.Text{Field: at.Child("ingressClassName"), Value: r.Expose.Ingress.IngressClassName}
		v.refuse(config.RefusesClass(class, "ingress class", "ingressClasses", p.IngressClasses)...)
	}
	if r.Pod != nil {
		v.refuse(p.RefusesPod(settingsOf(r.Pod, pod))...)
	}
	if r.Rollout.Judged() && p.Pods.JudgeImage == "" {
		v.refuse(field.Forbidden(spec.Child("rollout", "canary", "maxErrorRatio"),
			"the platform configuration has no image that counts errors (pods.judgeImage): remove maxErrorRatio"))
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

// settingsOf returns what the platform configuration restricts in the settings of pods.
func settingsOf(pod *common.Pod, at *field.Path) config.PodSettings {
	s := config.PodSettings{
		Annotations:    config.Keys{Field: at.Child("annotations"), Values: config.Texts(pod.Annotations)},
		Labels:         config.Keys{Field: at.Child("labels"), Values: config.Texts(pod.Labels)},
		PriorityClass:  config.Text{Field: at.Child("priorityClassName"), Value: pod.PriorityClassName},
		RuntimeClass:   config.Text{Field: at.Child("runtimeClassName"), Value: pod.RuntimeClassName},
		ServiceAccount: config.Text{Field: at.Child("serviceAccountName"), Value: pod.ServiceAccountName},
	}
	for i, c := range pod.InitContainers {
		s.InitContainers = append(s.InitContainers, config.InitContainer(at.Child("initContainers").Index(i), c.Image, c))
	}
	for i, t := range pod.Tolerations {
		s.Tolerations = append(s.Tolerations, config.Text{Field: at.Child("tolerations").Index(i).Child("key"), Value: t.Key})
	}
	if seconds := pod.TerminationGracePeriodSeconds; seconds != nil {
		s.GracePeriod = config.Seconds{Field: at.Child("terminationGracePeriodSeconds"), Value: *seconds}
	} else if drain := pod.DrainSeconds; drain != nil && config.GracePeriod(*drain) > config.DefaultGracePeriod {
		s.GracePeriod = config.Seconds{Field: at.Child("terminationGracePeriodSeconds"), Value: config.GracePeriod(*drain)}
	}
	for i, v := range pod.Volumes {
		if v.EmptyDir != nil {
			s.Scratch = append(s.Scratch, config.Size{Field: at.Child("volumes").Index(i).Child("emptyDir", "sizeLimit"), Limit: v.EmptyDir.SizeLimit})
		}
	}
	return s
}

// warnImage adds a warning about an image whose content can change, if the platform
// configuration allows it.
func (v *Verdict) warnImage(i config.Image, p config.Images) {
	if i.Name != "" && p.Latest == config.LatestWarn && config.Moving(i.Name) {
		v.warn("%s: %s has no fixed version, so that a rollback may not restore the previous image: specify a version or a digest", i.Field, config.Excerpt(i.Name))
	}
}

func (v *Verdict) judgeReplicas(r Number, p config.Platform) {
	if r.Field != nil && r.Value > p.MaxReplicas {
		v.refuse(field.Invalid(r.Field, r.Value, fmt.Sprintf("must be %d or less, as set in the platform configuration", p.MaxReplicas)))
	}
}

func (v *Verdict) refuse(errs ...*field.Error) { v.Refused = append(v.Refused, errs...) }

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
