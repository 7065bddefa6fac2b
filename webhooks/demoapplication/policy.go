package demoapplication

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/webhooks/policy"
)

// judge validates a DemoApplication against the platform configuration.
func judge(d *demoapplicationv1.DemoApplication, platform config.Platform) policy.Verdict {
	spec := field.NewPath("spec")
	s := d.Spec
	r := policy.Request{
		Namespace: d.Namespace, Images: []config.Image{{Field: spec.Child("image"), Name: s.Image, PullField: spec.Child("imagePullPolicy"), Pull: s.ImagePullPolicy}}, DeletionPolicy: s.DeletionPolicy,
		Autoscaling: s.Autoscaling, Budget: s.PodDisruptionBudget, Expose: s.Expose, Pod: s.Pod, Profile: policy.Profile(s.Security),
		Container: &s.Container, Selector: d.PodLabels(), Deployed: true, Rollout: s.Rollout.Shared(),
	}
	if s.Service != nil {
		r.Service = &s.Service.ServiceOptions
		r.ServiceType = config.Text{Field: spec.Child("service", "type"), Value: string(s.Service.Type)}
	}
	if s.Replica != nil {
		r.Replicas = policy.Number{Field: spec.Child("replica"), Value: *s.Replica}
	}
	for i, port := range s.Ports {
		if port.NodePort != nil {
			r.NodePorts = append(r.NodePorts, policy.Number{Field: spec.Child("ports").Index(i).Child("nodePort"), Value: *port.NodePort})
		}
	}
	return r.Judge(platform)
}
