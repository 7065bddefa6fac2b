package common

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Container is what a user can say about the container of every kind. A kind
// inlines it; names and meaning are those of a container of Kubernetes.
type Container struct {
	// env are environment variables of the container.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:XValidation:rule="self.map(e, has(e.value) ? e.value.size() : 0).sum() <= 262144",message="the values must have at most 262144 characters in all; take a ConfigMap and a volume for more"
	Env []EnvVar `json:"env,omitempty"`

	// envFrom takes all keys of ConfigMaps and Secrets as environment
	// variables. Of equal names the last counts, and env before all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	EnvFrom []EnvFromSource `json:"envFrom,omitempty"`

	// imagePullPolicy says when the image is pulled. Unset means Always for the
	// tag latest and IfNotPresent for any other.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// imagePullSecrets are the Secrets with which images are pulled.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// probes tell whether the container has started, serves and lives.
	// +optional
	Probes *Probes `json:"probes,omitempty"`
}

// Entrypoint is what runs in the container, for kinds whose image is the
// user's own. A kind inlines it.
type Entrypoint struct {
	// command replaces the image's entrypoint.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=32768
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self[0] != ''",message="the first word is the program to run, and must not be empty"
	// +kubebuilder:validation:XValidation:rule="self.map(a, a.size()).sum() <= 262144 && self.all(a, !a.contains('\\x00'))",message="must have at most 262144 characters in all, and no NUL"
	Command []string `json:"command,omitempty"`

	// args replace the image's arguments.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=32768
	// +kubebuilder:validation:XValidation:rule="self.map(a, a.size()).sum() <= 262144 && self.all(a, !a.contains('\\x00'))",message="must have at most 262144 characters in all, and no NUL"
	Args []string `json:"args,omitempty"`
}

// Resources are what the container asks for, and what it may use at most.
//
// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.limits) || self.requests.all(r, !(r in self.limits) || string(self.requests[r]).matches('[eE][-+]?[0-9]{3}') || string(self.limits[r]).matches('[eE][-+]?[0-9]{3}') || quantity(string(self.requests[r])).compareTo(quantity(string(self.limits[r]))) <= 0)",message="requests must not be greater than limits",fieldPath=".requests"
type Resources struct {
	// requests are what the pod is scheduled with: cpu, memory and
	// ephemeral-storage. Unset takes the limits.
	// +optional
	// +kubebuilder:validation:MaxProperties=3
	// +kubebuilder:validation:XValidation:rule="self.all(r, r in ['cpu', 'memory', 'ephemeral-storage'])",message="requests can hold cpu, memory and ephemeral-storage; other resources are requested by their limit"
	// +kubebuilder:validation:XValidation:rule="self.all(r, !string(self[r]).matches('^-|[eE][-+]?[0-9]{3}'))",message="must not be negative, and an exponent must have at most two digits"
	// +kubebuilder:validation:XValidation:rule="!('cpu' in self) || (!string(self['cpu']).matches('[.][0-9]*m|[.][0-9]{4,}|[nu]$|[eE][-+]?[0-9]{3}') && quantity(string(self['cpu'])).isLessThan(quantity('10k')))",message="cpu must be a multiple of 1m and less than 10k, such as 2, 0.5 or 500m"
	// +kubebuilder:validation:XValidation:rule="['memory', 'ephemeral-storage'].all(r, !(r in self) || (!string(self[r]).matches('[mun]$|[.][0-9]+$|[eE][-+]?[0-9]{3}') && quantity(string(self[r])).isLessThan(quantity('1Ei')) && (quantity(string(self[r])).compareTo(quantity('0')) == 0 || !quantity(string(self[r])).isLessThan(quantity('1Mi')))))",message="memory and ephemeral-storage must be whole numbers of bytes, from 1Mi and less than 1Ei, such as 64Mi"
	Requests corev1.ResourceList `json:"requests,omitempty"`

	// limits are what the container may use at most: cpu, memory,
	// ephemeral-storage, and whole numbers of extended resources such as
	// example.com/gpu.
	// +optional
	// +kubebuilder:validation:MaxProperties=8
	// +kubebuilder:validation:XValidation:rule="self.all(r, r in ['cpu', 'memory', 'ephemeral-storage'] || (r.contains('/') && !r.contains('kubernetes.io/') && !format.qualifiedName().validate(r).hasValue() && !string(self[r]).matches('[eE][-+]?[0-9]{3}') && quantity(string(self[r])).isInteger()))",message="limits can hold cpu, memory, ephemeral-storage, and whole numbers of extended resources such as example.com/gpu"
	// +kubebuilder:validation:XValidation:rule="self.all(r, !string(self[r]).matches('^-|[eE][-+]?[0-9]{3}'))",message="must not be negative, and an exponent must have at most two digits"
	// +kubebuilder:validation:XValidation:rule="!('cpu' in self) || (!string(self['cpu']).matches('[.][0-9]*m|[.][0-9]{4,}|[nu]$|[eE][-+]?[0-9]{3}') && quantity(string(self['cpu'])).isLessThan(quantity('10k')))",message="cpu must be a multiple of 1m and less than 10k, such as 2, 0.5 or 500m"
	// +kubebuilder:validation:XValidation:rule="['memory', 'ephemeral-storage'].all(r, !(r in self) || (!string(self[r]).matches('[mun]$|[.][0-9]+$|[eE][-+]?[0-9]{3}') && quantity(string(self[r])).isLessThan(quantity('1Ei')) && !quantity(string(self[r])).isLessThan(quantity('1Mi'))))",message="memory and ephemeral-storage must be whole numbers of bytes, from 1Mi and less than 1Ei, such as 64Mi"
	// +kubebuilder:validation:XValidation:rule="!('cpu' in self) || string(self['cpu']).matches('^[+]?[0.]*[1-9]')",message="cpu must be more than 0; leave it out for no limit"
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// EnvVar is an environment variable.
//
// +kubebuilder:validation:XValidation:rule="!has(self.value) || self.value.size() == 0 || !has(self.valueFrom)",message="value and valueFrom exclude each other"
type EnvVar struct {
	// name of the variable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[ -<>-~]+$`
	Name string `json:"name"`

	// value of the variable. $(NAME) stands for the value of an earlier one.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	// +kubebuilder:validation:XValidation:rule="!self.contains('\\x00')",message="must have no NUL: no process can be given one"
	Value string `json:"value,omitempty"`

	// valueFrom is where the value comes from.
	// +optional
	ValueFrom *EnvVarSource `json:"valueFrom,omitempty"`
}

// EnvVarSource is where the value of a variable comes from.
//
// +kubebuilder:validation:ExactlyOneOf=configMapKeyRef;secretKeyRef;fieldRef;resourceFieldRef
type EnvVarSource struct {
	// configMapKeyRef is a key of a ConfigMap.
	// +optional
	ConfigMapKeyRef *KeySelector `json:"configMapKeyRef,omitempty"`

	// secretKeyRef is a key of a Secret.
	// +optional
	SecretKeyRef *KeySelector `json:"secretKeyRef,omitempty"`

	// fieldRef is a field of the pod.
	// +optional
	FieldRef *EnvFieldSelector `json:"fieldRef,omitempty"`

	// resourceFieldRef is a request or limit of the container.
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

	// key of its data.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^\.?[-_a-zA-Z0-9][-._a-zA-Z0-9]*$`
	Key string `json:"key"`

	// optional says that the pod starts without the object or key, too.
	// +optional
	Optional *bool `json:"optional,omitempty"`
}

// EnvFieldSelector selects a field of the pod for a variable.
type EnvFieldSelector struct {
	// fieldPath is the field, such as metadata.name or status.podIP.
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
	// resource is the request or limit.
	// +required
	// +kubebuilder:validation:Enum=limits.cpu;limits.memory;limits.ephemeral-storage;requests.cpu;requests.memory;requests.ephemeral-storage
	Resource string `json:"resource"`

	// divisor is the unit, such as "1Mi". Unset means "1".
	// +optional
	// +kubebuilder:validation:Enum="1m";"1";"1k";"1M";"1G";"1T";"1Ki";"1Mi";"1Gi";"1Ti"
	Divisor string `json:"divisor,omitempty"`
}

// EnvFromSource takes all keys of a ConfigMap or a Secret as variables.
//
// +kubebuilder:validation:ExactlyOneOf=configMapRef;secretRef
type EnvFromSource struct {
	// prefix goes before the name of each variable.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[ -<>-~]*$`
	Prefix string `json:"prefix,omitempty"`

	// configMapRef is the ConfigMap.
	// +optional
	ConfigMapRef *OptionalReference `json:"configMapRef,omitempty"`

	// secretRef is the Secret.
	// +optional
	SecretRef *OptionalReference `json:"secretRef,omitempty"`
}

// OptionalReference names a ConfigMap or Secret of the same namespace.
type OptionalReference struct {
	// name of the object.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// optional says that the pod starts without the object, too.
	// +optional
	Optional *bool `json:"optional,omitempty"`
}

// LocalObjectReference names an object of the same namespace.
type LocalObjectReference struct {
	// name of the object.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`
}

// Probes tell how the container is.
type Probes struct {
	// startup holds the other probes back until it has succeeded once.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.successThreshold) || self.successThreshold == 1",message="must be 1",fieldPath=".successThreshold"
	Startup *Probe `json:"startup,omitempty"`

	// readiness takes the pod out of its Services while it fails. Unset means
	// a connection to the first TCP port.
	// +optional
	Readiness *Probe `json:"readiness,omitempty"`

	// liveness restarts the container when it fails. Unset means none.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.successThreshold) || self.successThreshold == 1",message="must be 1",fieldPath=".successThreshold"
	Liveness *Probe `json:"liveness,omitempty"`
}

// Probe asks the container something, again and again.
//
// +kubebuilder:validation:ExactlyOneOf=exec;httpGet;tcpSocket;grpc
// +kubebuilder:validation:XValidation:rule="(has(self.timeoutSeconds) ? self.timeoutSeconds : 1) <= (has(self.periodSeconds) ? self.periodSeconds : 10)",message="timeoutSeconds, 1 unless it is set, must not be greater than periodSeconds, 10 unless it is set",fieldPath=".timeoutSeconds"
type Probe struct {
	// exec runs a command in the container, which has to end with 0.
	// +optional
	Exec *ExecAction `json:"exec,omitempty"`

	// httpGet makes a request, which has to be answered with 200 to 399.
	// +optional
	HTTPGet *HTTPGetAction `json:"httpGet,omitempty"`

	// tcpSocket opens a connection.
	// +optional
	TCPSocket *TCPSocketAction `json:"tcpSocket,omitempty"`

	// grpc asks the gRPC health service.
	// +optional
	GRPC *GRPCAction `json:"grpc,omitempty"`

	// initialDelaySeconds is waited before the first attempt. Unset means 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	InitialDelaySeconds *int32 `json:"initialDelaySeconds,omitempty"`

	// periodSeconds is the time between attempts. Unset means 10.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	PeriodSeconds *int32 `json:"periodSeconds,omitempty"`

	// timeoutSeconds is how long an attempt may take. Unset means 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`

	// successThreshold is how many attempts in a row have to succeed after a
	// failure. Unset means 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	SuccessThreshold *int32 `json:"successThreshold,omitempty"`

	// failureThreshold is how many attempts in a row have to fail. Unset means 3.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	FailureThreshold *int32 `json:"failureThreshold,omitempty"`
}

// ExecAction runs a command.
type ExecAction struct {
	// command and its arguments; no shell is involved.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self[0] != ''",message="the first word is the program to run, and must not be empty"
	Command []string `json:"command"`
}

// HTTPGetAction makes a request to the pod. It has no host: a probe must not
// lead anywhere else.
type HTTPGetAction struct {
	// path of the request. Unset means /.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[^[:space:][:cntrl:]]*$')",message="must begin with / and have no white space"
	Path string `json:"path,omitempty"`

	// port is the number or the name of a port of the container.
	// +required
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^([0-9]+-)*[0-9]*[a-z][a-z0-9]*(-[a-z0-9]+)*$`
	// +kubebuilder:validation:XValidation:rule="type(self) == string || (self >= 1 && self <= 65535)",message="must be a name, or a number from 1 to 65535"
	Port intstr.IntOrString `json:"port"`

	// scheme is HTTP or HTTPS. Unset means HTTP. No certificate is verified.
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
	// +kubebuilder:validation:XValidation:rule="!self.matches('[[:cntrl:]]')",message="must have no line breaks and other control characters"
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

// GRPCAction asks the gRPC health service of the pod.
type GRPCAction struct {
	// port is the number of a port of the container.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`

	// service whose health is asked for. Unset means the server's as a whole.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Service string `json:"service,omitempty"`
}
