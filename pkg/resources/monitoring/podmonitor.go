// Package monitoring contains the fields that the operator uses of the
// Prometheus operator's API monitoring.coreos.com/v1, PodMonitor. The module of
// that API has far more dependencies than these few fields justify.
//
// +kubebuilder:object:generate=true
package monitoring

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
)

// GroupVersion is the group and version of PodMonitor.
var GroupVersion = schema.GroupVersion{Group: "monitoring.coreos.com", Version: "v1"}

const podMonitor = "PodMonitor"

// AddToScheme adds PodMonitor to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &PodMonitor{}, &PodMonitorList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// PodMonitor contains the fields of a live PodMonitor that the operator
// applies. Other fields are not decoded.
//
// +kubebuilder:object:root=true
type PodMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec PodMonitorSpec `json:"spec"`
}

// PodMonitorSpec specifies which pods are scraped, and how.
type PodMonitorSpec struct {
	Selector            Selector             `json:"selector"`
	PodMetricsEndpoints []PodMetricsEndpoint `json:"podMetricsEndpoints"`
	SampleLimit         int64                `json:"sampleLimit,omitempty"`
	LabelLimit          int64                `json:"labelLimit,omitempty"`
}

// Selector selects pods of the same namespace.
type Selector struct {
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
}

// PodMetricsEndpoint is a scraped port.
type PodMetricsEndpoint struct {
	Port            string `json:"port,omitempty"`
	Interval        string `json:"interval,omitempty"`
	FollowRedirects *bool  `json:"followRedirects,omitempty"`
}

// PodMonitorList is a list of PodMonitors.
//
// +kubebuilder:object:root=true
type PodMonitorList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []PodMonitor `json:"items"`
}

// PodMonitorApplyConfiguration is the apply configuration of a PodMonitor.
//
// +kubebuilder:object:generate=false
type PodMonitorApplyConfiguration struct {
	metav1ac.TypeMetaApplyConfiguration    `json:",inline"`
	*metav1ac.ObjectMetaApplyConfiguration `json:"metadata,omitempty"`

	Spec *PodMonitorSpec `json:"spec,omitempty"`
}

// PodMonitorConfiguration returns an apply configuration with a name and a
// namespace.
func PodMonitorConfiguration(name, namespace string) *PodMonitorApplyConfiguration {
	c := &PodMonitorApplyConfiguration{ObjectMetaApplyConfiguration: metav1ac.ObjectMeta().WithName(name).WithNamespace(namespace)}
	c.TypeMetaApplyConfiguration.WithKind(podMonitor).WithAPIVersion(GroupVersion.String())
	return c
}

// IsApplyConfiguration implements runtime.ApplyConfiguration.
func (c PodMonitorApplyConfiguration) IsApplyConfiguration() {}

// GetKind returns the kind.
func (c *PodMonitorApplyConfiguration) GetKind() *string { return c.Kind }

// GetAPIVersion returns the API version, which contains the group.
func (c *PodMonitorApplyConfiguration) GetAPIVersion() *string { return c.APIVersion }

// GetName returns the name.
func (c *PodMonitorApplyConfiguration) GetName() *string { return c.Name }

// GetNamespace returns the namespace.
func (c *PodMonitorApplyConfiguration) GetNamespace() *string { return c.Namespace }

// WithLabels adds labels.
func (c *PodMonitorApplyConfiguration) WithLabels(entries map[string]string) *PodMonitorApplyConfiguration {
	c.ObjectMetaApplyConfiguration.WithLabels(entries)
	return c
}

// WithAnnotations adds annotations.
func (c *PodMonitorApplyConfiguration) WithAnnotations(entries map[string]string) *PodMonitorApplyConfiguration {
	c.ObjectMetaApplyConfiguration.WithAnnotations(entries)
	return c
}
