package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
)

// Kind is the name of the kind.
const Kind = "WebServer"

// PodLabel is the label of a WebServer's pods whose value is its name.
const PodLabel = "webserver_cr"

// ConditionConfigValid is present if nginx runs with a configuration by the
// operator, and True when nginx has accepted it.
const ConditionConfigValid = "ConfigValid"

// Reasons of ConditionConfigValid.
const (
	// ReasonTested: the configuration is in use.
	ReasonTested = "Tested"
	// ReasonTesting: no pod has tested the configuration yet.
	ReasonTesting = "Testing"
	// ReasonInvalid: nginx rejects the configuration; the message quotes nginx.
	ReasonInvalid = "Invalid"
)

// WebServer is a fleet of nginx pods: a Deployment with the name of the object
// and a Service named <name>-service. It serves while its Available condition
// is True; Ready reports that the current spec is completely rolled out.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=webservers,singular=webserver,shortName=ws,categories=platform
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.replicas`,description="replicas that exist now"
// +kubebuilder:printcolumn:name="Up",type=integer,JSONPath=`.status.readyReplicas`,description="replicas that are ready"
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.status.image`,description="image that serves"
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.addresses[0].url`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 55",message="metadata.name must be no more than 55 characters: the Service is named <name>-service, and a Service name has at most 63"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must start with a letter and contain only lower-case letters, digits and '-': it becomes the name of a Service"
type WebServer struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines the desired state of the WebServer.
	// +required
	Spec WebServerSpec `json:"spec"`

	// status defines the observed state of the WebServer.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status WebServerStatus `json:"status,omitzero"`
}

// WebServerSpec defines the desired state of a WebServer.
//
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || !has(self.replicas)",message="must not be set together with autoscaling, which sets the number of pods: remove replicas or autoscaling",fieldPath=".replicas",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || !has(self.autoscaling.targetCPUUtilizationPercentage) || (has(self.resources) && (has(self.resources.requests) && 'cpu' in self.resources.requests ? string(self.resources.requests['cpu']).matches('^[+]?[0.]*[1-9]') : has(self.resources.limits) && 'cpu' in self.resources.limits && string(self.resources.limits['cpu']).matches('^[+]?[0.]*[1-9]')))",message="targetCPUUtilizationPercentage is a percentage of the requested CPU: set resources.requests.cpu to more than 0",fieldPath=".autoscaling.targetCPUUtilizationPercentage"
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || !has(self.autoscaling.targetMemoryUtilizationPercentage) || (has(self.resources) && (has(self.resources.requests) && 'memory' in self.resources.requests ? string(self.resources.requests['memory']).matches('^[+]?[0.]*[1-9]') : has(self.resources.limits) && 'memory' in self.resources.limits && string(self.resources.limits['memory']).matches('^[+]?[0.]*[1-9]')))",message="targetMemoryUtilizationPercentage is a percentage of the requested memory: set resources.requests.memory to more than 0",fieldPath=".autoscaling.targetMemoryUtilizationPercentage"
// +kubebuilder:validation:XValidation:rule="!(has(self.config) || has(self.content) || has(self.tls) || (has(self.monitoring) && has(self.monitoring.enabled) && self.monitoring.enabled) || (has(self.rollout) && has(self.rollout.canary) && has(self.rollout.canary.maxErrorRatio))) || !has(self.pod) || !has(self.pod.volumeMounts) || self.pod.volumeMounts.all(m, !m.mountPath.matches('^/etc(/nginx(/conf[.]d(/.*)?)?)?/?$'))",message="/etc/nginx/conf.d contains the operator's configuration if config, content, tls, monitoring or rollout.canary.maxErrorRatio is set; use another mountPath",fieldPath=".pod.volumeMounts",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(self.content) || !has(self.pod) || !has(self.pod.volumeMounts) || self.pod.volumeMounts.all(m, !m.mountPath.matches('^/usr(/share(/nginx(/html(/.*)?)?)?)?/?$'))",message="/usr/share/nginx/html contains the content; use another mountPath, or remove content",fieldPath=".pod.volumeMounts",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(self.tls) || !has(self.pod) || !has(self.pod.volumeMounts) || self.pod.volumeMounts.all(m, !m.mountPath.matches('^/etc/nginx/tls(/.*)?/?$'))",message="/etc/nginx/tls contains the certificate; use another mountPath",fieldPath=".pod.volumeMounts",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(self.tls) || !has(self.service) || !has(self.service.port) || self.service.port != 443",message="port 443 of the Service is HTTPS if tls is set; use another port for HTTP",fieldPath=".service.port",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(self.content) || !has(self.content.keep) || !has(self.pod) || !has(self.pod.volumeMounts) || self.pod.volumeMounts.all(m, !m.mountPath.matches('^/usr/share/nginx/kept(/.*)?/?$'))",message="/usr/share/nginx/kept contains the content of other revisions if content.keep is set; use another mountPath",fieldPath=".pod.volumeMounts",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || !has(self.pod) || !has(self.pod.initContainers) || self.pod.initContainers.all(c, !has(c.restartPolicy) || [has(self.autoscaling.targetCPUUtilizationPercentage) ? 'cpu' : 'none', has(self.autoscaling.targetMemoryUtilizationPercentage) ? 'memory' : 'none'].all(r, r == 'none' || (has(c.resources) && ((has(c.resources.requests) && r in c.resources.requests) || (has(c.resources.limits) && r in c.resources.limits)))))",message="an autoscaling target is a percentage of the requests of all containers: set the request of each sidecar, too",fieldPath=".pod.initContainers"
type WebServerSpec struct {
	// image is the container image: the official nginx image, or an image based
	// on it that listens on containerPort. It runs as user 101 with a read-only root
	// file system; /var/cache/nginx, /run and /tmp are writable.
	// +required
	Image common.Image `json:"image"`

	// containerPort is the port on which nginx listens for HTTP, such as 8080 for
	// nginxinc/nginx-unprivileged. Unset means 80.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:validation:XValidation:rule="!(self in [443, 9113, 9180, 9182])",message="443 is for HTTPS, and 9113, 9180 and 9182 for metrics; use another port"
	ContainerPort *int32 `json:"containerPort,omitempty"`

	// replicas is the number of pods. Unset means 1; 0 deletes all pods and
	// keeps the Service. It cannot be combined with autoscaling.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Replicas *int32 `json:"replicas,omitempty"`

	// service configures the Service.
	// +optional
	Service *ServiceSpec `json:"service,omitempty"`

	// config is the content of the nginx server block. It is tested with this
	// image before a pod serves with it. If config, content, tls, monitoring or
	// rollout.canary.maxErrorRatio is set, and for the official image,
	// /etc/nginx/conf.d contains the configuration of the operator, which includes
	// this one and replaces that of the image.
	// +optional
	Config *ConfigSource `json:"config,omitempty"`

	// content is the content of /usr/share/nginx/html. Unset serves the files
	// of the image.
	// +optional
	Content *ContentSource `json:"content,omitempty"`

	// tls serves HTTPS on port 443, in addition to HTTP.
	// +optional
	TLS *TLS `json:"tls,omitempty"`

	// monitoring adds an exporter to each pod, which exposes nginx metrics for
	// Prometheus on the container port named metrics.
	// +optional
	Monitoring *common.Monitoring `json:"monitoring,omitempty"`

	// resources are the compute resources of the nginx container.
	// +optional
	Resources *common.Resources `json:"resources,omitempty"`

	// imagePullPolicy defines when image is pulled. Unset means Always for the
	// tag latest and IfNotPresent otherwise.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// imagePullSecrets are the Secrets with the credentials for pulling images.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []common.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// probes check whether nginx has started, is ready and is alive. Its ports
	// are named http and https.
	// +optional
	Probes *common.Probes `json:"probes,omitempty"`

	// pod configures the pods: scheduling, volumes, labels and annotations.
	// Volumes cannot be mounted over the operator's mounts under /etc/nginx and
	// /usr/share/nginx/html.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.initContainers) || self.initContainers.all(c, !(c.name in ['config-test', 'exporter', 'judge', 'webserver']))",message="config-test, exporter, judge and webserver are containers of the operator; use other names",fieldPath=".initContainers"
	Pod *common.Pod `json:"pod,omitempty"`

	// security configures the security context of the pods. The profile is
	// always Restricted. Unset means user 101, which is nginx, and a read-only
	// root file system.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.profile) || self.profile == 'Restricted'",message="must be Restricted: the pods of a WebServer always comply with this profile",fieldPath=".profile"
	Security *common.Security `json:"security,omitempty"`

	// expose makes the fleet reachable from outside of the cluster under host
	// names, which are routed to the http port of the Service.
	// +optional
	Expose *common.Expose `json:"expose,omitempty"`

	// autoscaling sets the number of pods by their load, instead of replicas.
	// When you remove it, set replicas, or the number becomes 1.
	// +optional
	Autoscaling *common.Autoscaling `json:"autoscaling,omitempty"`

	// podDisruptionBudget configures how many pods may be evicted at the same
	// time, such as during a node drain. Unset means one, if there is more than
	// one pod.
	// +optional
	PodDisruptionBudget *common.PodDisruptionBudget `json:"podDisruptionBudget,omitempty"`

	// networkPolicy restricts the connections to the pods. Unset means no
	// restriction. It requires a network plugin that enforces NetworkPolicies.
	// +optional
	NetworkPolicy *common.NetworkPolicy `json:"networkPolicy,omitempty"`

	// rollout configures how changes are rolled out, and what happens if a
	// rollout fails. Unset restartOnConfigChange means true for this kind. If
	// it is false, a change of a ConfigMap in config or content is applied
	// together with the next change of the spec or of restartedAt.
	// +optional
	Rollout *common.Rollout `json:"rollout,omitempty"`

	// paused stops changes to all children, regardless of the spec, except that
	// their owner references follow deletionPolicy. The status is still updated,
	// and the object can be deleted.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// deletionPolicy defines what happens to the children when this object is
	// deleted. Delete, the default, deletes them. Orphan keeps them running,
	// and they are no longer managed.
	// +optional
	DeletionPolicy common.DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// ConfigSource is the source of the content of the nginx server block, inline or
// configMapRef, and of further directives of the http block.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.inline) && has(self.configMapRef))",message="at most one of inline and configMapRef must be set"
// +kubebuilder:validation:XValidation:rule="has(self.inline) || has(self.configMapRef) || has(self.http)",message="one of inline, configMapRef and http must be set"
type ConfigSource struct {
	// inline is the configuration text, such as location blocks.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	// +kubebuilder:validation:XValidation:rule="!self.contains('\\x00')",message="must not contain NUL characters"
	Inline string `json:"inline,omitempty"`

	// configMapRef selects a key of a ConfigMap in this namespace.
	// +optional
	ConfigMapRef *ConfigMapKeyReference `json:"configMapRef,omitempty"`

	// http is configuration text for the http block, such as upstream, map,
	// log_format, limit_req_zone and proxy_cache_path, which the server block
	// can then use.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	// +kubebuilder:validation:XValidation:rule="!self.contains('\\x00')",message="must not contain NUL characters"
	HTTP string `json:"http,omitempty"`
}

// ConfigMapKeyReference refers to a key of a ConfigMap in the same namespace.
type ConfigMapKeyReference struct {
	// name of the ConfigMap.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// key that contains the text. Unset means server.conf.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^\.?[-_a-zA-Z0-9][-._a-zA-Z0-9]*$`
	Key string `json:"key,omitempty"`
}

// ContentSource is the source of the served files: exactly one of files,
// configMapRef and image.
//
// +kubebuilder:validation:XValidation:rule="[has(self.files), has(self.configMapRef), has(self.image)].exists_one(set, set)",message="exactly one of files, configMapRef and image must be set"
type ContentSource struct {
	// files are the contents of the files by name: at most 64 files, and 262144
	// bytes in all. A name consists of letters, digits, '-', '_' and '.'.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.size() <= 253 && name.matches('^[-._a-zA-Z0-9]+$') && name != '.' && !name.startsWith('..'))",message="a file name must have at most 253 letters, digits, '-', '_' and '.', and not begin with '..'"
	// +kubebuilder:validation:XValidation:rule="self.map(name, bytes(self[name]).size()).sum() <= 262144",message="the files must have at most 262144 bytes in all; use an image for larger content"
	Files map[string]FileText `json:"files,omitempty"`

	// configMapRef refers to a ConfigMap in this namespace, each key of which
	// is a file.
	// +optional
	ConfigMapRef *ConfigMapReference `json:"configMapRef,omitempty"`

	// image is an OCI image or artifact that contains the files. It requires
	// Kubernetes 1.35 or newer.
	// +optional
	Image *ImageSource `json:"image,omitempty"`

	// keep serves files of earlier contents too, and those of a new content before
	// its pages. Unset serves only the current content.
	// +optional
	Keep *Keep `json:"keep,omitempty"`
}

// Keep defines which files of other contents are served.
type Keep struct {
	// revisions is how many earlier contents are kept.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5
	Revisions int32 `json:"revisions"`

	// paths are how the paths of the files begin, such as /assets/ or, for files and
	// configMapRef, which have no folders, /app. or just /.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Paths []KeptPath `json:"paths"`
}

// KeptPath is the beginning of paths of files.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=256
// +kubebuilder:validation:Pattern=`^/[-._~a-zA-Z0-9/]*$`
type KeptPath string

// FileText is the content of a file.
//
// +kubebuilder:validation:MaxLength=262144
type FileText string

// ConfigMapReference refers to a ConfigMap in the same namespace.
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
	// digest. Its root directory is served.
	// +required
	Reference common.Image `json:"reference"`

	// pullPolicy defines when the image is pulled. Unset means Always for the
	// tag latest and IfNotPresent otherwise.
	// +optional
	// +kubebuilder:validation:Enum=Always;Never;IfNotPresent
	PullPolicy corev1.PullPolicy `json:"pullPolicy,omitempty"`
}

// TLS configures HTTPS.
type TLS struct {
	// secretRef is a Secret of type kubernetes.io/tls, which the pods mount. A
	// renewed certificate is in use within about two minutes, and no connection
	// is closed for it.
	// +required
	SecretRef SecretReference `json:"secretRef"`

	// http3 adds HTTP/3 on port 443 of UDP. The nginx of the image must have
	// ngx_http_v3_module, as the official one has from 1.25 on. Unset means no HTTP/3.
	// +optional
	HTTP3 bool `json:"http3,omitempty"`
}

// SecretReference refers to a Secret in the same namespace.
type SecretReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`
}

// ServiceSpec configures the Service.
//
// +kubebuilder:validation:XValidation:rule="!has(self.type) || !has(oldSelf.type) || self.type != 'LoadBalancer' || oldSelf.type != 'LoadBalancer' || has(self.loadBalancerClass) == has(oldSelf.loadBalancerClass)",message="loadBalancerClass cannot be added or removed while the type is LoadBalancer; change the type first",fieldPath=".loadBalancerClass"
// +kubebuilder:validation:XValidation:rule="!has(self.nodePort) || !has(self.type) || self.type != 'ClusterIP'",message="nodePort needs type NodePort or LoadBalancer; remove nodePort or change type",fieldPath=".nodePort",reason=FieldValueForbidden
type ServiceSpec struct {
	// type is the type of the Service. Unset means NodePort if nodePort is set,
	// and otherwise the default in the platform configuration, which is
	// NodePort unless it was changed. The current value is in
	// status.service.type.
	// +optional
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`

	// port is the port of the Service. Unset means 80. The pods listen on
	// containerPort.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`

	// nodePort is the port on every node. Unset means the default in the
	// platform configuration, which is 30010 unless it was changed; if that
	// port is allocated to another Service, Kubernetes allocates one. The
	// current value is in status.service.nodePort, and is kept if the Service
	// is deleted and created again.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	NodePort *int32 `json:"nodePort,omitempty"`

	common.ServiceOptions `json:",inline"`
}

// WebServerStatus defines the observed state of a WebServer.
type WebServerStatus struct {
	common.Status        `json:",inline"`
	common.RolloutStatus `json:",inline"`

	// replicas is the number of pods that exist.
	// +optional
	Replicas int32 `json:"replicas"`

	// readyReplicas is the number of pods that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// updatedReplicas is the number of pods of the current revision.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`

	// selector selects the pods, in the format of kubectl -l.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Selector string `json:"selector,omitempty"`

	// service is the observed state of the Service.
	// +optional
	Service *ServiceStatus `json:"service,omitempty"`

	// addresses are the URLs of the fleet, those with the widest scope first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Addresses []common.Address `json:"addresses,omitempty"`
}

// ServiceStatus is the observed state of the Service.
type ServiceStatus struct {
	// name of the Service.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// type of the Service.
	// +optional
	Type corev1.ServiceType `json:"type,omitempty"`

	// defaultType is the type that the object got from the platform
	// configuration, because its spec sets none. It keeps this type when the
	// platform configuration changes.
	// +optional
	DefaultType corev1.ServiceType `json:"defaultType,omitempty"`

	// port of the Service.
	// +optional
	Port int32 `json:"port,omitempty"`

	// nodePort on every node, or 0 if none is allocated.
	// +optional
	NodePort int32 `json:"nodePort,omitempty"`

	// httpsNodePort is the port for HTTPS on every node, or 0 if none is
	// allocated.
	// +optional
	HTTPSNodePort int32 `json:"httpsNodePort,omitempty"`
}

// HTTPPort returns containerPort, which defaults to 80.
func (w *WebServer) HTTPPort() int32 {
	if w.Spec.ContainerPort == nil {
		return 80
	}
	return *w.Spec.ContainerPort
}

// DefaultServiceType returns the type of the Service if the spec sets none: the one
// that the object got before, or else that of the platform configuration.
func (w *WebServer) DefaultServiceType(platform corev1.ServiceType) corev1.ServiceType {
	switch s := w.Status.Service; {
	case s == nil:
		return platform
	case s.DefaultType != "":
		return s.DefaultType
	case s.Type != "" && w.Status.ObservedGeneration == w.Generation:
		return s.Type // by a version that did not record the default
	default:
		return platform
	}
}

// WebServerList is a list of WebServers.
//
// +kubebuilder:object:root=true
type WebServerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []WebServer `json:"items"`
}

// PodLabels returns the labels by which the pods are selected. They are those of the legacy
// operator and immutable in a Deployment, so that its objects can be adopted.
func (w *WebServer) PodLabels() map[string]string {
	return map[string]string{"app": "webserver", PodLabel: w.Name}
}

// GetStatus returns the part of the status that all kinds have in common.
func (w *WebServer) GetStatus() *common.Status { return &w.Status.Status }

// GetRollout returns how changes are rolled out, or nil for the defaults.
func (w *WebServer) GetRollout() *common.Rollout { return w.Spec.Rollout }

// GetRolloutStatus returns the observed state of rollouts.
func (w *WebServer) GetRolloutStatus() *common.RolloutStatus { return &w.Status.RolloutStatus }

// GetDeletionPolicy returns the deletion policy, or its default.
func (w *WebServer) GetDeletionPolicy() common.DeletionPolicy {
	if w.Spec.DeletionPolicy == "" {
		return common.DeletionPolicyDelete
	}
	return w.Spec.DeletionPolicy
}
