package common

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Container contains the settings of the container that kinds have in common. A
// kind inlines it; names and meanings are those of a Kubernetes container.
type Container struct {
	// env are environment variables of the container.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:XValidation:rule="self.map(e, has(e.value) ? e.value.size() : 0).sum() <= 262144",message="the values must have at most 262144 characters in all; use a ConfigMap and a volume for larger values"
	Env []EnvVar `json:"env,omitempty"`

	// envFrom lists ConfigMaps and Secrets whose keys become environment
	// variables. If a name occurs more than once, the last source wins; env
	// takes precedence over envFrom.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	EnvFrom []EnvFromSource `json:"envFrom,omitempty"`

	// imagePullPolicy defines when the image is pulled. Unset means Always for
	// the tag latest and IfNotPresent otherwise.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// imagePullSecrets are the Secrets with the credentials for pulling images.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// probes check whether the container has started, is ready and is alive.
	// +optional
	Probes *Probes `json:"probes,omitempty"`
}

// Entrypoint is the command of the container, for kinds that run images of the
// user's choice. A kind inlines it.
type Entrypoint struct {
	// command replaces the entrypoint of the image.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=32768
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self[0] != ''",message="the first element is the program to run, and must not be empty"
	// +kubebuilder:validation:XValidation:rule="self.map(a, a.size()).sum() <= 262144 && self.all(a, !a.contains('\\x00'))",message="must have at most 262144 characters in all, and must not contain NUL characters"
	Command []string `json:"command,omitempty"`

	// args replace the arguments of the image.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=32768
	// +kubebuilder:validation:XValidation:rule="self.map(a, a.size()).sum() <= 262144 && self.all(a, !a.contains('\\x00'))",message="must have at most 262144 characters in all, and must not contain NUL characters"
	Args []string `json:"args,omitempty"`
}

// Resources are the compute resources of the container.
//
// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.limits) || self.requests.all(r, !(r in self.limits) || string(self.requests[r]).matches('[eE][-+]?[0-9]{3}') || string(self.limits[r]).matches('[eE][-+]?[0-9]{3}') || quantity(string(self.requests[r])).compareTo(quantity(string(self.limits[r]))) <= 0)",message="requests must not be greater than limits",fieldPath=".requests"
type Resources struct {
	// requests are the resources with which the pod is scheduled: cpu, memory
	// and ephemeral-storage. Unset means the limits.
	// +optional
	// +kubebuilder:validation:MaxProperties=3
	// +kubebuilder:validation:XValidation:rule="self.all(r, r in ['cpu', 'memory', 'ephemeral-storage'])",message="requests can contain cpu, memory and ephemeral-storage; other resources are requested by their limit"
	// +kubebuilder:validation:XValidation:rule="self.all(r, !string(self[r]).matches('^-|[eE][-+]?[0-9]{3}'))",message="must not be negative, and an exponent must have at most two digits"
	// +kubebuilder:validation:XValidation:rule="!('cpu' in self) || (!string(self['cpu']).matches('[.][0-9]*m|[.][0-9]{4,}|[nu]$|[eE]-|[eE][-+]?[0-9]{3}') && quantity(string(self['cpu'])).isLessThan(quantity('10k')))",message="cpu must be a multiple of 1m and less than 10k, such as 2, 0.5 or 500m"
	// +kubebuilder:validation:XValidation:rule="['memory', 'ephemeral-storage'].all(r, !(r in self) || (!string(self[r]).matches('[mun]$|[.][0-9]+$|[.][0-9]{4,}|[eE]-|[eE][-+]?[0-9]{3}') && quantity(string(self[r])).isLessThan(quantity('1Ei')) && (quantity(string(self[r])).compareTo(quantity('0')) == 0 || !quantity(string(self[r])).isLessThan(quantity('1Mi')))))",message="memory and ephemeral-storage must be whole numbers of bytes, from 1Mi and less than 1Ei, such as 64Mi"
	Requests corev1.ResourceList `json:"requests,omitempty"`

	// limits are the most resources that the container may use: cpu, memory,
	// ephemeral-storage, and whole numbers of extended resources such as
	// example.com/gpu.
	// +optional
	// +kubebuilder:validation:MaxProperties=8
	// +kubebuilder:validation:XValidation:rule="self.all(r, r in ['cpu', 'memory', 'ephemeral-storage'] || (r.contains('/') && !r.contains('kubernetes.io/') && !r.startsWith('requests.') && !format.qualifiedName().validate('requests.' + r).hasValue() && !string(self[r]).matches('[eE][-+]?[0-9]{3}') && quantity(string(self[r])).isInteger()))",message="limits can contain cpu, memory, ephemeral-storage, and whole numbers of extended resources such as example.com/gpu"
	// +kubebuilder:validation:XValidation:rule="self.all(r, !string(self[r]).matches('^-|[eE][-+]?[0-9]{3}'))",message="must not be negative, and an exponent must have at most two digits"
	// +kubebuilder:validation:XValidation:rule="!('cpu' in self) || (!string(self['cpu']).matches('[.][0-9]*m|[.][0-9]{4,}|[nu]$|[eE]-|[eE][-+]?[0-9]{3}') && quantity(string(self['cpu'])).isLessThan(quantity('10k')))",message="cpu must be a multiple of 1m and less than 10k, such as 2, 0.5 or 500m"
	// +kubebuilder:validation:XValidation:rule="['memory', 'ephemeral-storage'].all(r, !(r in self) || (!string(self[r]).matches('[mun]$|[.][0-9]+$|[.][0-9]{4,}|[eE]-|[eE][-+]?[0-9]{3}') && quantity(string(self[r])).isLessThan(quantity('1Ei')) && !quantity(string(self[r])).isLessThan(quantity('1Mi'))))",message="memory and ephemeral-storage must be whole numbers of bytes, from 1Mi and less than 1Ei, such as 64Mi"
	// +kubebuilder:validation:XValidation:rule="!('cpu' in self) || string(self['cpu']).matches('^[+]?[0.]*[1-9]')",message="cpu must be more than 0; leave it out for no limit"
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// EnvVar is an environment variable.
//
// +kubebuilder:validation:XValidation:rule="!has(self.value) || self.value.size() == 0 || !has(self.valueFrom)",message="value and valueFrom are mutually exclusive"
type EnvVar struct {
	// name of the variable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[ -<>-~]+$`
	Name string `json:"name"`

	// value of the variable. $(NAME) is replaced by the value of an earlier
	// variable.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	// +kubebuilder:validation:XValidation:rule="!self.contains('\\x00')",message="must not contain NUL characters, which a process cannot receive"
	Value string `json:"value,omitempty"`

	// valueFrom is the source of the value.
	// +optional
	ValueFrom *EnvVarSource `json:"valueFrom,omitempty"`
}

// EnvVarSource is the source of the value of a variable.
//
// +kubebuilder:validation:ExactlyOneOf=configMapKeyRef;secretKeyRef;fieldRef;resourceFieldRef
type EnvVarSource struct {
	// configMapKeyRef selects a key of a ConfigMap.
	// +optional
	ConfigMapKeyRef *KeySelector `json:"configMapKeyRef,omitempty"`

	// secretKeyRef selects a key of a Secret.
	// +optional
	SecretKeyRef *KeySelector `json:"secretKeyRef,omitempty"`

	// fieldRef selects a field of the pod.
	// +optional
	FieldRef *EnvFieldSelector `json:"fieldRef,omitempty"`

	// resourceFieldRef selects a request or limit of the container.
	// +optional
	ResourceFieldRef *ResourceFieldSelector `json:"resourceFieldRef,omitempty"`
}

// KeySelector selects a key of a ConfigMap or Secret.
type KeySelector struct {
	// name of the object.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// key is the key in the object's data.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^\.?[-_a-zA-Z0-9][-._a-zA-Z0-9]*$`
	Key string `json:"key"`

	// optional allows the pod to start without the object or key.
	// +optional
	Optional *bool `json:"optional,omitempty"`
}

// EnvFieldSelector selects a field of the pod for a variable.
type EnvFieldSelector struct {
	// fieldPath is the path of the field, such as metadata.name or
	// status.podIP.
	// +required
	// +kubebuilder:validation:MaxLength=360
	// +kubebuilder:validation:Pattern=`^(metadata\.(name|namespace|uid|(labels|annotations)\['[-A-Za-z0-9_./]+'\])|spec\.(nodeName|serviceAccountName)|status\.(hostIPs?|podIPs?))$`
	// +kubebuilder:validation:XValidation:rule="!self.contains('[') || !format.qualifiedName().validate(self.startsWith('metadata.annotations') ? self.split('\\'')[1].lowerAscii() : self.split('\\'')[1]).hasValue()",message="the key must be a name such as example.com/key"
	FieldPath string `json:"fieldPath"`
}

// ResourceFieldSelector selects a request or limit of the container.
//
// +kubebuilder:validation:XValidation:rule="!has(self.divisor) || self.divisor == '1' || (self.divisor == '1m') == self.resource.endsWith('.cpu')",message="divisor can be 1 or 1m for cpu, and 1, 1k, 1Ki and so on for the others",fieldPath=".divisor"
type ResourceFieldSelector struct {
	// resource is the name of the request or limit, such as limits.memory.
	// +required
	// +kubebuilder:validation:Enum=limits.cpu;limits.memory;limits.ephemeral-storage;requests.cpu;requests.memory;requests.ephemeral-storage
	Resource string `json:"resource"`

	// divisor is the unit, such as "1Mi". Unset means "1".
	// +optional
	// +kubebuilder:validation:Enum="1m";"1";"1k";"1M";"1G";"1T";"1Ki";"1Mi";"1Gi";"1Ti"
	Divisor string `json:"divisor,omitempty"`
}

// EnvFromSource is a ConfigMap or a Secret whose keys become variables.
//
// +kubebuilder:validation:ExactlyOneOf=configMapRef;secretRef
type EnvFromSource struct {
	// prefix is prepended to the name of each variable.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[ -<>-~]*$`
	Prefix string `json:"prefix,omitempty"`

	// configMapRef refers to the ConfigMap.
	// +optional
	ConfigMapRef *OptionalReference `json:"configMapRef,omitempty"`

	// secretRef refers to the Secret.
	// +optional
	SecretRef *OptionalReference `json:"secretRef,omitempty"`
}

// OptionalReference refers to a ConfigMap or Secret of the same namespace.
type OptionalReference struct {
	// name of the object.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// optional allows the pod to start without the object.
	// +optional
	Optional *bool `json:"optional,omitempty"`
}

// LocalObjectReference refers to an object of the same namespace.
type LocalObjectReference struct {
	// name of the object.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`
}

// Probes are the health checks of the container.
type Probes struct {
	// startup delays the other probes until it has succeeded once.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.successThreshold) || self.successThreshold == 1",message="must be 1",fieldPath=".successThreshold"
	Startup *Probe `json:"startup,omitempty"`

	// readiness removes the pod from its Services while it fails. Unset means a
	// connection to the first TCP port.
	// +optional
	Readiness *Probe `json:"readiness,omitempty"`

	// liveness restarts the container when it fails. Unset means none.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.successThreshold) || self.successThreshold == 1",message="must be 1",fieldPath=".successThreshold"
	Liveness *Probe `json:"liveness,omitempty"`
}

// Probe is a periodic health check of the container.
//
// +kubebuilder:validation:ExactlyOneOf=exec;httpGet;tcpSocket;grpc
// +kubebuilder:validation:XValidation:rule="(has(self.timeoutSeconds) ? self.timeoutSeconds : 1) <= (has(self.periodSeconds) ? self.periodSeconds : 10)",message="timeoutSeconds (default 1) must not be greater than periodSeconds (default 10)",fieldPath=".timeoutSeconds"
type Probe struct {
	// exec runs a command in the container. It succeeds if the command exits
	// with 0.
	// +optional
	Exec *ExecAction `json:"exec,omitempty"`

	// httpGet sends a request. It succeeds if the status code is from 200 to
	// 399.
	// +optional
	HTTPGet *HTTPGetAction `json:"httpGet,omitempty"`

	// tcpSocket opens a connection.
	// +optional
	TCPSocket *TCPSocketAction `json:"tcpSocket,omitempty"`

	// grpc calls the gRPC health service.
	// +optional
	GRPC *GRPCAction `json:"grpc,omitempty"`

	// initialDelaySeconds is the delay before the first attempt. Unset means 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	InitialDelaySeconds *int32 `json:"initialDelaySeconds,omitempty"`

	// periodSeconds is the time between two attempts. Unset means 10.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	PeriodSeconds *int32 `json:"periodSeconds,omitempty"`

	// timeoutSeconds is the time limit of an attempt. Unset means 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`

	// successThreshold is the number of consecutive successes after a failure
	// for the probe to succeed. Unset means 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	SuccessThreshold *int32 `json:"successThreshold,omitempty"`

	// failureThreshold is the number of consecutive failures for the probe to
	// fail. Unset means 3.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	FailureThreshold *int32 `json:"failureThreshold,omitempty"`
}

// ExecAction runs a command in the container.
type ExecAction struct {
	// command is the program and its arguments; it is not run in a shell.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self[0] != ''",message="the first element is the program to run, and must not be empty"
	// +kubebuilder:validation:XValidation:rule="self.all(a, !a.contains('\\x00'))",message="must not contain NUL characters"
	Command []string `json:"command"`
}

// HTTPGetAction sends an HTTP request to the pod. It has no host, so that a
// probe cannot send requests elsewhere.
type HTTPGetAction struct {
	// path of the request. Unset means /.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[^[:space:][:cntrl:]]*$')",message="must begin with / and have no white space"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('//')",message="must not begin with //, which the kubelet reads as the name of a host"
	Path string `json:"path,omitempty"`

	// port is the number or the name of a port of the container.
	// +required
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^([0-9]+-)*[0-9]*[a-z][a-z0-9]*(-[a-z0-9]+)*$`
	// +kubebuilder:validation:XValidation:rule="type(self) == string || (self >= 1 && self <= 65535)",message="must be a name, or a number from 1 to 65535"
	Port intstr.IntOrString `json:"port"`

	// scheme is HTTP or HTTPS. Unset means HTTP. Certificates are not verified.
	// +optional
	// +kubebuilder:validation:Enum=HTTP;HTTPS
	Scheme corev1.URIScheme `json:"scheme,omitempty"`

	// httpHeaders are headers of the request.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	HTTPHeaders []HTTPHeader `json:"httpHeaders,omitempty"`
}

// HTTPHeader is a header of a request.
type HTTPHeader struct {
	// name of the header.
	// +required
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[-A-Za-z0-9]+$`
	Name string `json:"name"`

	// value of the header.
	// +required
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="!self.matches('[[:cntrl:]]')",message="must not contain line breaks or other control characters"
	Value string `json:"value"`
}

// TCPSocketAction opens a connection to the pod.
type TCPSocketAction struct {
	// port is the number or the name of a port of the container.
	// +required
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^([0-9]+-)*[0-9]*[a-z][a-z0-9]*(-[a-z0-9]+)*$`
	// +kubebuilder:validation:XValidation:rule="type(self) == string || (self >= 1 && self <= 65535)",message="must be a name, or a number from 1 to 65535"
	Port intstr.IntOrString `json:"port"`
}

// GRPCAction calls the gRPC health service of the pod.
type GRPCAction struct {
	// port is the number of a port of the container.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`

	// service is the name of the service to check. Unset means the server as a
	// whole.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Service string `json:"service,omitempty"`
}
