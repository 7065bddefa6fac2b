package webserver

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/webhooks/policy"
)

// judge validates a WebServer against the platform configuration.
func judge(w *webserverv1.WebServer, platform config.Platform) policy.Verdict {
	spec := field.NewPath("spec")
	s := w.Spec
	r := policy.Request{
		Namespace: w.Namespace, Images: []config.Image{{Field: spec.Child("image"), Name: s.Image, PullField: spec.Child("imagePullPolicy"), Pull: s.ImagePullPolicy}}, DeletionPolicy: s.DeletionPolicy,
		Autoscaling: s.Autoscaling, Budget: s.PodDisruptionBudget, Expose: s.Expose, Pod: s.Pod, Selector: w.PodLabels(), Deployed: true, Rollout: s.Rollout,
	}
	if s.Content != nil && s.Content.Image != nil {
		r.Images = append(r.Images, config.Image{
			Field: spec.Child("content", "image", "reference"), Name: s.Content.Image.Reference,
			PullField: spec.Child("content", "image", "pullPolicy"), Pull: s.Content.Image.PullPolicy,
		})
	}
	if s.Replicas != nil {
		r.Replicas = policy.Number{Field: spec.Child("replicas"), Value: *s.Replicas}
	}
	if v := s.Service; v != nil {
		r.Service = &v.ServiceOptions
		at := spec.Child("service")
		if v.NodePort != nil {
			r.NodePorts = []policy.Number{{Field: at.Child("nodePort"), Value: *v.NodePort}}
		}
		r.ServiceType = config.Text{Field: at.Child("type"), Value: string(v.Type)}
	}
	return r.Judge(platform)
}
