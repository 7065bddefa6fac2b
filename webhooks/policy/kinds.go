package policy

import (
	corev1 "k8s.io/api/core/v1"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
)

// WebServer validates a WebServer against the platform configuration.
func WebServer(w *webserverv1.WebServer, p config.Platform) Verdict {
	s := w.Spec
	a := ask{
		namespace: w.Namespace, images: []image{{spec.Child("image"), s.Image}},
		autoscaling: s.Autoscaling, budget: s.PodDisruptionBudget, expose: s.Expose, pod: s.Pod,
	}
	if s.Content != nil && s.Content.Image != nil {
		a.images = append(a.images, image{spec.Child("content", "image", "reference"), s.Content.Image.Reference})
	}
	if s.Replicas != nil {
		a.replicas = number{spec.Child("replicas"), *s.Replicas}
	}
	if v := s.Service; v != nil {
		a.serviceAnnotations = v.Annotations
		at := spec.Child("service")
		if v.NodePort != nil {
			a.nodePorts = []number{{at.Child("nodePort"), *v.NodePort}}
		}
		switch {
		case v.Type != "":
			a.services = []service{{at.Child("type"), v.Type}}
		case v.NodePort != nil:
			a.services = []service{{at.Child("nodePort"), corev1.ServiceTypeNodePort}}
		}
	}
	return a.judge(p)
}

// DemoApplication validates a DemoApplication against the platform
// configuration.
func DemoApplication(d *demoapplicationv1.DemoApplication, p config.Platform) Verdict {
	s := d.Spec
	a := ask{
		namespace: d.Namespace, images: []image{{spec.Child("image"), s.Image}},
		autoscaling: s.Autoscaling, budget: s.PodDisruptionBudget, expose: s.Expose, pod: s.Pod,
	}
	if s.Service != nil {
		a.serviceAnnotations = s.Service.Annotations
	}
	if s.Replica != nil {
		a.replicas = number{spec.Child("replica"), *s.Replica}
	}
	for i, port := range s.Ports {
		if port.NodePort != nil {
			a.nodePorts = append(a.nodePorts, number{spec.Child("ports").Index(i).Child("nodePort"), *port.NodePort})
		}
	}
	switch {
	case s.Service != nil && s.Service.Type != "":
		a.services = []service{{spec.Child("service", "type"), s.Service.Type}}
	default:
		for _, n := range a.nodePorts {
			a.services = append(a.services, service{n.at, corev1.ServiceTypeNodePort})
		}
	}
	return a.judge(p)
}

// ImmortalContainer validates an ImmortalContainer against the platform
// configuration.
func ImmortalContainer(i *immortalv1alpha1.ImmortalContainer, p config.Platform) Verdict {
	return ask{
		namespace: i.Namespace, images: []image{{spec.Child("image"), i.Spec.Image}}, pod: i.Spec.Pod,
	}.judge(p)
}

// Memcached validates a Memcached against the platform configuration.
func Memcached(m *cachev1alpha1.Memcached, p config.Platform) Verdict {
	a := ask{
		namespace: m.Namespace, images: []image{{spec.Child("image"), m.Spec.Image}}, pod: m.Spec.Pod,
		replicas: number{spec.Child("size"), m.Spec.Size}, budget: m.Spec.PodDisruptionBudget,
	}
	if m.Spec.Service != nil {
		a.serviceAnnotations = m.Spec.Service.Annotations
	}
	return a.judge(p)
}
