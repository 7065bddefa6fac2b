package redirect

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/resources"
	"github.com/platform-operator/platform-operator/pkg/rollout"
	"github.com/platform-operator/platform-operator/pkg/testkit/redirect/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

const (
	containerName = "redirect"
	port          = 8080
	user          = 101 // nginx, in the official image
)

func labels(r *v1alpha1.Redirect) map[string]string {
	return map[string]string{v1alpha1.PodLabel: r.Name}
}

// object is a Redirect as one reconcile handles it.
type object struct {
	workload.Defaults
	r *v1alpha1.Redirect
}

// Spec returns the parts of spec and status that kinds share.
func (x *object) Spec() workload.Spec {
	r := x.r
	return workload.Spec{
		Kind: v1alpha1.Kind, Owner: r, Labels: labels(r), Container: containerName, Service: r.Name,
		Replicas: ptr.Deref(r.Spec.Replicas, 1), Rollout: r.Spec.Rollout, RolloutStatus: &r.Status.RolloutStatus,
		PodDisruptionBudget: r.Spec.PodDisruptionBudget, NetworkPolicy: r.Spec.NetworkPolicy,
		Ports: []*corev1ac.ContainerPortApplyConfiguration{containerPort()},
	}
}

// Pods returns the inputs and the template of the pods.
func (x *object) Pods() (any, *corev1ac.PodTemplateSpecApplyConfiguration, error) {
	r := x.r
	inputs := v1alpha1.RedirectSpec{Image: r.Spec.Image, To: r.Spec.To, Rollout: r.Spec.Rollout.Inputs()}
	ofPod, ofContainer := resources.SecurityContexts(nil, resources.SecurityDefaults{Profile: common.SecurityRestricted, User: user})
	c := corev1ac.Container().WithName(containerName).WithImage(r.Spec.Image).WithPorts(containerPort()).WithSecurityContext(ofContainer).
		WithCommand("sh", "-c", `printf 'server { listen 8080; return 301 %s; }' "$TO" >/etc/nginx/conf.d/default.conf && exec nginx -g 'daemon off;'`).
		WithEnv(corev1ac.EnvVar().WithName("TO").WithValue(r.Spec.To))
	pod := resources.PodSpec().WithSecurityContext(ofPod)
	resources.Customize(pod, c, resources.Options{ReadinessPort: port, Selector: labels(r)})
	return inputs, rollout.Restarted(resources.Template(labels(r), pod.WithContainers(c)), r.Spec.Rollout), nil
}

func containerPort() *corev1ac.ContainerPortApplyConfiguration {
	return corev1ac.ContainerPort().WithName("http").WithContainerPort(port).WithProtocol(corev1.ProtocolTCP)
}

// Deployment returns the Deployment.
func (x *object) Deployment(build func(map[string]string) apply.Intent, _ *corev1ac.PodTemplateSpecApplyConfiguration) apply.Intent {
	return build(labels(x.r))
}

// AddService adds the Service.
func (x *object) AddService(plan *converge.Plan, _ workload.Ports) {
	ac := corev1ac.Service(x.r.Name, x.r.Namespace).WithLabels(labels(x.r)).WithSpec(corev1ac.ServiceSpec().
		WithType(corev1.ServiceTypeClusterIP).WithSelector(labels(x.r)).
		WithPorts(corev1ac.ServicePort().WithName("http").WithProtocol(corev1.ProtocolTCP).WithPort(80).WithTargetPort(intstr.FromInt(port))))
	plan.Apply = append(plan.Apply, resources.Service(ac, common.ServiceOptions{}))
}

// UpdateStatus writes the part of the status that only a Redirect has.
func (x *object) UpdateStatus(r workload.Result) {
	if d := r.Deployment; d != nil {
		x.r.Status.ReadyReplicas = d.Status.ReadyReplicas
	}
}
