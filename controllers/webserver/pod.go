package webserver

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/judge"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/nginxconf"
	"github.com/platform-operator/platform-operator/pkg/resources"
	"github.com/platform-operator/platform-operator/pkg/rollout"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

// carried is the volume with the content, of which pods also mount other versions if the
// spec asks for that.
var carried = rollout.Carried{Volume: "content", Folder: keptPath}

// scratch are the empty volumes of every pod.
var scratch = []string{cacheVolume, runVolume, tmpVolume}

const (
	containerName = "webserver"
	exporterName  = "exporter"
	// testVolume is mounted in place of "config" for the configuration test.
	testVolume  = "config-test"
	cacheVolume = "cache"
	runVolume   = "run"
	tmpVolume   = "tmp"
	metricsName = "metrics"
	metricsPort = nginxconf.ExporterPort
	// nginxPort is the port that the official nginx image listens on, and the default of the
	// Service.
	nginxPort = nginxconf.HTTPPort
	tlsPort   = nginxconf.HTTPSPort
	// nginxUser is the UID and GID of "nginx" in the official image (docker-nginx,
	// stable/debian/Dockerfile: --uid 101, --gid 101).
	nginxUser = 101
)

// template returns the desired pod template. It depends only on the object and what
// it refers to.
func template(w *webserverv1.WebServer, m material, platform config.Platform) *corev1ac.PodTemplateSpecApplyConfiguration {
	volumes, mounts := volumesOf(w, m)
	secure, confined := resources.SecurityContexts(w.Spec.Security, resources.SecurityDefaults{
		Profile: common.SecurityRestricted, User: nginxUser, ReadOnlyRootFilesystem: true,
	})
	server := corev1ac.Container().
		WithName(containerName).
		WithImage(w.Spec.Image).
		WithPorts(serverPorts(w)...).
		WithSecurityContext(confined).
		WithVolumeMounts(mounts...)
	pod := resources.PodSpec().
		WithSecurityContext(secure.
			// Allows an unprivileged user to listen on port 80 in this pod.
			WithSysctls(corev1ac.Sysctl().WithName("net.ipv4.ip_unprivileged_port_start").WithValue("0"))).
		WithVolumes(volumes...)
	resources.Customize(pod, server, options(w, m))
	resources.Drain(pod, server, w.Spec.Pod, platform.Pods.DrainSeconds)
	resources.OnNodes(pod, platform.Pods)
	if m.config != nil {
		markDraining(server)
		pod.WithInitContainers(configTest(pod, server, m))
	}
	if w.Spec.Rollout.Judged() {
		pod.WithVolumes(workload.JudgeVolume(w)).WithInitContainers(judgeContainer(w, platform.Pods.JudgeImage))
	}
	pod.WithContainers(server)
	if monitored(w) {
		pod.WithContainers(exporter(w, platform.WebServer.ExporterImage))
	}
	t := resources.Template(resources.PodLabels(w.Spec.Pod, w.PodLabels()), pod).WithAnnotations(resources.PodAnnotations(w.Spec.Pod, scratch...))
	if k := keep(w); k != nil {
		t.WithAnnotations(map[string]string{naming.AnnotationKeep: strconv.Itoa(int(k.Revisions))})
	}
	return rollout.Restarted(rollout.WithSecrets(t, m.secrets), w.Spec.Rollout)
}

// options returns the parts of the spec that customize the pods.
func options(w *webserverv1.WebServer, m material) resources.Options {
	return resources.Options{
		Container: common.Container{
			ImagePullPolicy: w.Spec.ImagePullPolicy, ImagePullSecrets: w.Spec.ImagePullSecrets, Probes: w.Spec.Probes,
		},
		Resources: w.Spec.Resources, Pod: w.Spec.Pod,
		ReadinessPort: w.HTTPPort(), Selector: w.PodLabels(), Reserved: reserved(w, m),
		Rename: func(name string) string {
			if c, ok := m.volumes[name]; ok {
				return c.Name
			}
			return name
		},
	}
}

// reserved returns the names of the volumes that are added later.
func reserved(w *webserverv1.WebServer, m material) []string {
	var names []string
	if k := keep(w); k != nil {
		names = carried.Names(int(k.Revisions))
	}
	if testsConstantPaths(m) {
		names = append(names, testVolume)
	}
	if w.Spec.Rollout.Judged() {
		names = append(names, judge.Container)
	}
	return names
}

// testsConstantPaths reports whether another configuration is tested than the one that
// is used.
func testsConstantPaths(m material) bool { return m.config != nil && m.config.Data[testFile] != "" }

// serverPorts returns the ports of the container that serves.
func serverPorts(w *webserverv1.WebServer) []*corev1ac.ContainerPortApplyConfiguration {
	ports := []*corev1ac.ContainerPortApplyConfiguration{containerPort("http", w.HTTPPort())}
	if w.Spec.TLS != nil {
		ports = append(ports, containerPort(httpsName, tlsPort))
	}
	if http3(w) {
		ports = append(ports, containerPort(http3Name, tlsPort).WithProtocol(corev1.ProtocolUDP))
	}
	return ports
}

func containerPort(name string, port int32) *corev1ac.ContainerPortApplyConfiguration {
	return corev1ac.ContainerPort().WithName(name).WithContainerPort(port).WithProtocol(corev1.ProtocolTCP)
}

// commands matches those of the containers: the hook of markDraining, and the commands of
// configTest, judgeContainer and exporter. Those of earlier versions must stay in it, or
// else their objects are stalled by an upgrade.
var commands = regexp.MustCompile(fmt.Sprintf(`^(sh -c touch %[1]s; sleep \d+(; rm -f %[1]s)?|nginx -t -q|judge|--nginx\.scrape-uri=http://127\.0\.0\.1:\d+/stub_status)$`, drainingFile))

// markDraining makes nginx ask clients to open another connection while the pod
// drains, which the generated configuration does if a file exists. Otherwise nginx
// closes kept connections at the end, and a request that was just sent is lost. A hook
// that runs a shell fails at once in an image without one, so that other images only
// sleep. The kubelet also runs the hook before it restarts a container, therefore the
// hook removes the file.
func markDraining(server *corev1ac.ContainerApplyConfiguration) {
	if server.Lifecycle == nil || !nginxconf.HasShell(*server.Image) {
		return
	}
	seconds := *server.Lifecycle.PreStop.Sleep.Seconds
	server.Lifecycle = corev1ac.Lifecycle().WithPreStop(corev1ac.LifecycleHandler().
		WithExec(corev1ac.ExecAction().WithCommand("sh", "-c", fmt.Sprintf("touch %[1]s; sleep %[2]d; rm -f %[1]s", drainingFile, seconds))))
}

// configTest returns an init container that tests the configuration in the pod that
// will use it, with the same image, files and permissions. The pod does not start
// until the test succeeds, and the previous pods keep serving. The output of nginx
// is recorded in the status of the pod.
func configTest(pod *corev1ac.PodSpecApplyConfiguration, server *corev1ac.ContainerApplyConfiguration, m material) *corev1ac.ContainerApplyConfiguration {
	test := corev1ac.Container().
		WithName(rollout.ConfigTest).
		WithImage(*server.Image).
		WithCommand("nginx", "-t", "-q").
		WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError)
	test.ImagePullPolicy, test.Resources, test.SecurityContext = server.ImagePullPolicy, server.Resources, server.SecurityContext
	test.VolumeMounts = slices.Clone(server.VolumeMounts)
	if !testsConstantPaths(m) {
		return test
	}
	// nginx -t does not resolve a variable in the path of a certificate. Therefore
	// it tests the same configuration with constant paths.
	constant := configMapVolume(testVolume, m.config.Name)
	constant.ConfigMap.WithItems(corev1ac.KeyToPath().WithKey(testFile).WithPath(serverFile))
	for _, file := range []string{ipv6File, snippetFile, httpFile} {
		if m.config.Data[file] != "" {
			constant.ConfigMap.WithItems(corev1ac.KeyToPath().WithKey(file).WithPath(file))
		}
	}
	pod.WithVolumes(constant)
	for i := range test.VolumeMounts {
		if *test.VolumeMounts[i].MountPath == configPath {
			test.VolumeMounts[i].Name = new(testVolume)
		}
	}
	return test
}

// exporter returns a container that converts stub_status to Prometheus metrics.
// Everyone who can connect to the pod can read them, because they contain only
// counts.
func exporter(w *webserverv1.WebServer, image string) *corev1ac.ContainerApplyConfiguration {
	return corev1ac.Container().
		WithName(exporterName).
		WithImage(image).
		WithImagePullPolicy(config.DefaultPull(image)).
		WithArgs(fmt.Sprintf("--nginx.scrape-uri=http://127.0.0.1:%d/stub_status", statusPort)).
		WithPorts(containerPort(metricsName, metricsPort)).
		WithSecurityContext(resources.RestrictedContainer()).
		WithResources(exporterResources(w))
}

// exporterResources returns the resources of the exporter. A quota of limits applies
// to every container of the pod.
func exporterResources(w *webserverv1.WebServer) *corev1ac.ResourceRequirementsApplyConfiguration {
	if r := w.Spec.Monitoring.Resources; r != nil {
		return resources.Requirements(r)
	}
	return resources.Small(w.Spec.Resources, "64Mi")
}

// judgeContainer returns a container that counts the errors of a canary, and then of all
// pods. It starts before nginx, and runs as long as the pod. Everyone who can connect to the
// pod can read the counts.
func judgeContainer(w *webserverv1.WebServer, image string) *corev1ac.ContainerApplyConfiguration {
	return workload.JudgeContainer(image, w.Spec.Resources).
		WithPorts(containerPort(judge.MetricsName, nginxconf.JudgePort)).
		WithVolumeMounts(corev1ac.VolumeMount().WithName(runVolume).WithMountPath(nginxconf.RunFolder))
}

// volumesOf returns the volumes of the pod and their mounts in the server.
func volumesOf(w *webserverv1.WebServer, m material) (volumes []*corev1ac.VolumeApplyConfiguration, mounts []*corev1ac.VolumeMountApplyConfiguration) {
	add := func(volume *corev1ac.VolumeApplyConfiguration, mount *corev1ac.VolumeMountApplyConfiguration) {
		volumes, mounts = append(volumes, volume), append(mounts, mount)
	}
	over := func(name, path string) *corev1ac.VolumeMountApplyConfiguration {
		return corev1ac.VolumeMount().WithName(name).WithMountPath(path).WithReadOnly(true)
	}
	add(resources.Scratch(cacheVolume, nginxconf.CacheFolder))
	add(resources.Scratch(runVolume, nginxconf.RunFolder))
	add(resources.Scratch(tmpVolume, nginxconf.TemporaryFolder))

	switch c := w.Spec.Content; {
	case m.content != nil:
		add(configMapVolume("content", m.content.Name), over("content", contentPath))
	case c != nil && c.Image != nil:
		image := corev1ac.ImageVolumeSource().WithReference(c.Image.Reference).
			WithPullPolicy(cmp.Or(c.Image.PullPolicy, config.DefaultPull(c.Image.Reference)))
		add(corev1ac.Volume().WithName("content").WithImage(image), over("content", contentPath))
	}
	if w.Spec.TLS != nil {
		// Users other than root read it with the permissions of "others".
		add(corev1ac.Volume().WithName("tls").WithSecret(corev1ac.SecretVolumeSource().
			WithSecretName(w.Spec.TLS.SecretRef.Name).WithDefaultMode(0o444).WithOptional(false)),
			over("tls", tlsPath))
	}
	if m.config != nil {
		add(configMapVolume("config", m.config.Name), over("config", configPath))
	}
	return volumes, mounts
}

func configMapVolume(volume, name string) *corev1ac.VolumeApplyConfiguration {
	return corev1ac.Volume().WithName(volume).WithConfigMap(corev1ac.ConfigMapVolumeSource().
		WithName(name).WithDefaultMode(0o444).WithOptional(false))
}

// openPorts returns all ports of the pod that clients may connect to.
func openPorts(w *webserverv1.WebServer) []*corev1ac.ContainerPortApplyConfiguration {
	ports := serverPorts(w)
	if monitored(w) {
		ports = append(ports, containerPort(metricsName, metricsPort))
	}
	if w.Spec.Rollout.Judged() {
		ports = append(ports, containerPort(judge.MetricsName, nginxconf.JudgePort))
	}
	return ports
}
