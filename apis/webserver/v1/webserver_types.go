package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
)

// Kind is the kind's name.
const Kind = "WebServer"

// ConditionConfigValid is present where nginx runs with a configuration of the
// operator's, and True when nginx has accepted it.
const ConditionConfigValid = "ConfigValid"

// Reasons of ConditionConfigValid.
const (
	// ReasonTested: pods serve with it.
	ReasonTested = "Tested"
	// ReasonTesting: no pod has tested it yet.
	ReasonTesting = "Testing"
	// ReasonInvalid: nginx refuses it, in the words of the message.
	ReasonInvalid = "Invalid"
)

// WebServer is an nginx fleet: a Deployment named as the object and a Service
// named <name>-service. It serves from the moment its Available condition is
// True; Ready says that the whole of the current spec serves.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=webservers,singular=webserver,shortName=ws,categories=platform
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.replicas`,description="replicas that exist now"
// +kubebuilder:printcolumn:name="Up",type=integer,JSONPath=`.status.readyReplicas`,description="replicas that are ready"
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.addresses[0].url`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 55",message="metadata.name must be no more than 55 characters: the Service is named <name>-service, and a Service name has at most 63"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must start with a letter and hold only lower-case letters, digits and '-': it becomes the name of a Service"
type WebServer struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted.
	// +required
	Spec WebServerSpec `json:"spec"`

	// status is what is there, as the operator last saw it.
	// +optional
	Status WebServerStatus `json:"status,omitzero"`
}

// WebServerSpec is what is wanted.
//
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || !has(self.replicas)",message="with autoscaling the autoscaler sets the number of pods: remove replicas, or autoscaling",fieldPath=".replicas",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || !has(self.autoscaling.targetCPUUtilizationPercentage) || (has(self.resources) && (has(self.resources.requests) && 'cpu' in self.resources.requests ? string(self.resources.requests['cpu']).matches('^[+]?[0.]*[1-9]') : has(self.resources.limits) && 'cpu' in self.resources.limits && string(self.resources.limits['cpu']).matches('^[+]?[0.]*[1-9]')))",message="a target for CPU is in percent of what the pods request: set resources.requests.cpu to more than 0",fieldPath=".autoscaling.targetCPUUtilizationPercentage"
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || !has(self.autoscaling.targetMemoryUtilizationPercentage) || (has(self.resources) && (has(self.resources.requests) && 'memory' in self.resources.requests ? string(self.resources.requests['memory']).matches('^[+]?[0.]*[1-9]') : has(self.resources.limits) && 'memory' in self.resources.limits && string(self.resources.limits['memory']).matches('^[+]?[0.]*[1-9]')))",message="a target for memory is in percent of what the pods request: set resources.requests.memory to more than 0",fieldPath=".autoscaling.targetMemoryUtilizationPercentage"
// +kubebuilder:validation:XValidation:rule="!(has(self.config) || has(self.content) || has(self.tls) || (has(self.monitoring) && has(self.monitoring.enabled) && self.monitoring.enabled)) || !has(self.pod) || !has(self.pod.volumeMounts) || self.pod.volumeMounts.all(m, !m.mountPath.matches('^/etc(/nginx(/conf[.]d(/.*)?)?)?/?$'))",message="/etc/nginx/conf.d holds the operator's configuration where config, content, tls or monitoring is set; take another mountPath",fieldPath=".pod.volumeMounts",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(self.content) || !has(self.pod) || !has(self.pod.volumeMounts) || self.pod.volumeMounts.all(m, !m.mountPath.matches('^/usr(/share(/nginx(/html(/.*)?)?)?)?/?$'))",message="/usr/share/nginx/html holds the content; take another mountPath, or remove content",fieldPath=".pod.volumeMounts",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(self.tls) || !has(self.pod) || !has(self.pod.volumeMounts) || self.pod.volumeMounts.all(m, !m.mountPath.matches('^/etc/nginx/tls(/.*)?/?$'))",message="/etc/nginx/tls holds the certificate; take another mountPath",fieldPath=".pod.volumeMounts",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(self.tls) || !has(self.service) || !has(self.service.port) || self.service.port != 443",message="port 443 of the Service is https where tls is set; take another port for http",fieldPath=".service.port",reason=FieldValueForbidden
type WebServerSpec struct {
	// image is the container image that serves: the stock nginx image or one
	// built on it, which listens on port 80. It runs as user 101 with a
	// read-only root file system; /var/cache/nginx, /run and /tmp are writable.
	// +required
	Image common.Image `json:"image"`

	// replicas is the number of pods. Unset means 1; 0 stops all of them and
	// keeps the Service. It cannot be set together with autoscaling.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Replicas *int32 `json:"replicas,omitempty"`

	// service says how the fleet is reached.
	// +optional
	Service *ServiceSpec `json:"service,omitempty"`

	// config is what stands within nginx's server block. It is tested with
	// this image before any pod serves with it. Where config, content, tls or
	// monitoring is set, and for the image nginx itself, /etc/nginx/conf.d
	// holds the operator's configuration, which includes this one, and not the
	// image's.
	// +optional
	Config *ConfigSource `json:"config,omitempty"`

	// content is what is served from /usr/share/nginx/html. Unset serves what
	// the image has there.
	// +optional
	Content *ContentSource `json:"content,omitempty"`

	// tls serves https on port 443, beside http on port 80.
	// +optional
	TLS *TLS `json:"tls,omitempty"`

	// monitoring puts nginx's own figures in reach of Prometheus: an exporter
	// in each pod answers on the container port named metrics.
	// +optional
	Monitoring *common.Monitoring `json:"monitoring,omitempty"`

	// resources are what nginx asks for, and what it may use at most.
	// +optional
	Resources *common.Resources `json:"resources,omitempty"`

	// imagePullPolicy says when image is pulled. Unset means Always for the
	// tag latest and IfNotPresent for any other.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// imagePullSecrets are the Secrets with which images are pulled.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []common.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// probes tell whether nginx has started, serves and lives. Its ports are
	// called http and https.
	// +optional
	Probes *common.Probes `json:"probes,omitempty"`

	// pod says more about the pods: where they run, what they mount, their
	// labels and annotations. What the operator mounts under /etc/nginx and
	// /usr/share/nginx/html nothing else can be mounted over.
	// +optional
	Pod *common.Pod `json:"pod,omitempty"`

	// security says more about what the pods may do. This kind knows the
	// profile Restricted only; runAsUser unset means 101, nginx's own, and the
	// root file system cannot be written.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.profile) || self.profile == 'Restricted'",message="a WebServer's pods always keep to the profile Restricted",fieldPath=".profile"
	Security *common.Security `json:"security,omitempty"`

	// expose makes the fleet reachable from outside of the cluster by the
	// names of hosts. They lead to the http port of the Service.
	// +optional
	Expose *common.Expose `json:"expose,omitempty"`

	// autoscaling lets the load decide the number of pods, instead of
	// replicas. Whoever removes it sets replicas, or gets 1.
	// +optional
	Autoscaling *common.Autoscaling `json:"autoscaling,omitempty"`

	// podDisruptionBudget says how many pods a drain of nodes may take at a
	// time. Unset, with more than one pod, means one.
	// +optional
	PodDisruptionBudget *common.PodDisruptionBudget `json:"podDisruptionBudget,omitempty"`

	// networkPolicy says who may connect to the pods. Unset means whoever the
	// cluster lets. It takes a network plugin that enforces policies.
	// +optional
	NetworkPolicy *common.NetworkPolicy `json:"networkPolicy,omitempty"`

	// rollout says how a change reaches the pods, and what becomes of one that
	// fails. restartOnConfigChange unset means true for this kind. Where it is
	// false, a changed ConfigMap that config or content names waits for the
	// next change of the spec, or of restartedAt.
	// +optional
	Rollout *common.Rollout `json:"rollout,omitempty"`

	// paused leaves all children as they are, whatever the spec says, except that
	// their owner references follow deletionPolicy. The status goes on, and so
	// does deletion.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// deletionPolicy says what becomes of the Deployment, the Service and the
	// rest when this object is deleted. Delete, the default, deletes them too;
	// Orphan leaves them serving, managed by nobody.
	// +optional
	DeletionPolicy common.DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// ConfigSource is where the text within nginx's server block comes from:
// exactly one of inline and configMapRef.
//
// +kubebuilder:validation:XValidation:rule="has(self.inline) != has(self.configMapRef)",message="exactly one of inline and configMapRef must be set"
type ConfigSource struct {
	// inline is the text itself, such as location blocks.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	// +kubebuilder:validation:XValidation:rule="!self.contains('\\x00')",message="must have no NUL"
	Inline string `json:"inline,omitempty"`

	// configMapRef takes the text from a ConfigMap of this namespace.
	// +optional
	ConfigMapRef *ConfigMapKeyReference `json:"configMapRef,omitempty"`
}

// ConfigMapKeyReference is a key of a ConfigMap in the object's namespace.
type ConfigMapKeyReference struct {
	// name of the ConfigMap.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// key that holds the text. Unset means server.conf.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key,omitempty"`
}

// ContentSource is where the served files come from: exactly one of files,
// configMapRef and image.
//
// +kubebuilder:validation:XValidation:rule="[has(self.files), has(self.configMapRef), has(self.image)].exists_one(set, set)",message="exactly one of files, configMapRef and image must be set"
type ContentSource struct {
	// files are the files themselves, each under its name; at most 64, and
	// 262144 characters in all. A name holds letters, digits, '-', '_' and '.'.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.size() <= 253 && name.matches('^[-._a-zA-Z0-9]+$') && name != '.' && !name.startsWith('..'))",message="a file name must have at most 253 letters, digits, '-', '_' and '.', and not begin with '..'"
	// +kubebuilder:validation:XValidation:rule="self.map(name, self[name].size()).sum() <= 262144",message="the files must have at most 262144 characters in all; take an image for more"
	Files map[string]FileText `json:"files,omitempty"`

	// configMapRef takes the files from a ConfigMap of this namespace: each
	// key is a file.
	// +optional
	ConfigMapRef *ConfigMapReference `json:"configMapRef,omitempty"`

	// image takes the files from an OCI image or artifact. It needs
	// Kubernetes 1.35 or newer.
	// +optional
	Image *ImageSource `json:"image,omitempty"`
}

// FileText is the text of a file.
//
// +kubebuilder:validation:MaxLength=262144
type FileText string

// ConfigMapReference is a ConfigMap in the object's namespace.
type ConfigMapReference struct {
	// name of the ConfigMap.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`
}

// ImageSource is an OCI image or artifact whose files are mounted.
type ImageSource struct {
	// reference is the image, such as registry.example/site:1.4 or one with a
	// digest. Its root folder is what is served.
	// +required
	Reference common.Image `json:"reference"`

	// pullPolicy says when the image is pulled. Unset means Always for the tag
	// latest, and IfNotPresent otherwise.
	// +optional
	// +kubebuilder:validation:Enum=Always;Never;IfNotPresent
	PullPolicy corev1.PullPolicy `json:"pullPolicy,omitempty"`
}

// TLS says how https is served.
type TLS struct {
	// secretRef is the Secret of type kubernetes.io/tls with certificate and
	// key. The pods mount it; the operator does not read it. A renewed one is
	// served within about two minutes, and no connection ends for it.
	// +required
	SecretRef SecretReference `json:"secretRef"`
}

// SecretReference is a Secret in the object's namespace.
type SecretReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`
}

// ServiceSpec says how the fleet is reached.
//
// +kubebuilder:validation:XValidation:rule="!has(self.type) || !has(oldSelf.type) || self.type != 'LoadBalancer' || oldSelf.type != 'LoadBalancer' || has(self.loadBalancerClass) == has(oldSelf.loadBalancerClass)",message="loadBalancerClass cannot be added or removed while the type is LoadBalancer; change the type first",fieldPath=".loadBalancerClass"
// +kubebuilder:validation:XValidation:rule="!has(self.nodePort) || !has(self.type) || self.type != 'ClusterIP'",message="nodePort needs type NodePort or LoadBalancer; remove nodePort or change type",fieldPath=".nodePort",reason=FieldValueForbidden
type ServiceSpec struct {
	// type is the type of the Service. Unset takes the platform's preference,
	// NodePort as delivered, and NodePort where nodePort is set. The value in
	// force is in status.service.type.
	// +optional
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`

	// port is the port of the Service. Unset means 80. The pods always listen
	// on port 80.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`

	// nodePort is the port on every node. Unset takes the platform's
	// preference, 30010 as delivered; where that is taken Kubernetes allocates
	// one. The port in force is in status.service.nodePort and is kept when
	// the Service is deleted and created again.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	NodePort *int32 `json:"nodePort,omitempty"`

	common.ServiceOptions `json:",inline"`
}

// WebServerStatus is what is there, as the operator last saw it.
type WebServerStatus struct {
	common.Status        `json:",inline"`
	common.RolloutStatus `json:",inline"`

	// replicas is the number of pods that exist.
	// +optional
	Replicas int32 `json:"replicas"`

	// readyReplicas is the number of pods that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// updatedReplicas is the number of pods made from the current spec.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`

	// selector selects the pods, in the form kubectl -l takes.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Selector string `json:"selector,omitempty"`

	// service is the Service as it is.
	// +optional
	Service *ServiceStatus `json:"service,omitempty"`

	// addresses are the places where the fleet can be reached, the one for
	// most people first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Addresses []common.Address `json:"addresses,omitempty"`
}

// ServiceStatus is the Service as it is.
type ServiceStatus struct {
	// name of the Service.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// type of the Service.
	// +optional
	Type corev1.ServiceType `json:"type,omitempty"`

	// port of the Service.
	// +optional
	Port int32 `json:"port,omitempty"`

	// nodePort on every node, 0 where there is none.
	// +optional
	NodePort int32 `json:"nodePort,omitempty"`

	// httpsNodePort is the port of https on every node, 0 where there is none.
	// +optional
	HTTPSNodePort int32 `json:"httpsNodePort,omitempty"`
}

// WebServerList is a list of WebServers.
//
// +kubebuilder:object:root=true
type WebServerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []WebServer `json:"items"`
}

// GetStatus returns the part of the status that every kind has.
func (w *WebServer) GetStatus() *common.Status { return &w.Status.Status }

// GetDeletionPolicy returns the deletion policy in force.
func (w *WebServer) GetDeletionPolicy() common.DeletionPolicy {
	if w.Spec.DeletionPolicy == "" {
		return common.DeletionPolicyDelete
	}
	return w.Spec.DeletionPolicy
}
