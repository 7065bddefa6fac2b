package operator

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// InstalledLabels select the Deployments of operators that are installed by the chart or
// with Kustomize.
var InstalledLabels = client.MatchingLabels{"app.kubernetes.io/part-of": "platform-operator", "app.kubernetes.io/component": "manager"}

// Installed returns the Deployment of the operator of a cluster.
func Installed(ctx context.Context, c client.Reader) (*appsv1.Deployment, error) {
	var all appsv1.DeploymentList
	if err := c.List(ctx, &all, InstalledLabels); err != nil {
		return nil, fmt.Errorf("listing the Deployments of the operator: %w", err)
	}
	switch len(all.Items) {
	case 0:
		return nil, errors.New("no operator is installed in this cluster")
	case 1:
		return &all.Items[0], nil
	}
	return nil, fmt.Errorf("%d operators are installed, in the namespaces %s and %s", len(all.Items), all.Items[0].Namespace, all.Items[1].Namespace)
}

// InstalledConfiguration returns the platform configuration of the operator that is
// installed in a cluster, and where it is. It is empty if the operator has none.
func InstalledConfiguration(ctx context.Context, c client.Reader) (content, source string, err error) {
	d, err := Installed(ctx, c)
	if err != nil {
		return "", "", err
	}
	source = "Deployment " + d.Namespace + "/" + d.Name
	for i := range d.Spec.Template.Spec.Containers {
		container := &d.Spec.Template.Spec.Containers[i]
		file := flag(container.Args, "--config")
		if file == "" {
			continue
		}
		name, key := mounted(&d.Spec.Template.Spec, container, file)
		if name == "" {
			return "", "", fmt.Errorf("%s reads %s, which is not in a ConfigMap", source, file)
		}
		var cm corev1.ConfigMap
		if err := c.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: name}, &cm); err != nil {
			return "", "", fmt.Errorf("reading the platform configuration: %w", err)
		}
		source = "ConfigMap " + d.Namespace + "/" + name
		content, ok := cm.Data[key]
		if !ok {
			return "", "", fmt.Errorf("%s has no key %s", source, key)
		}
		return content, source, nil
	}
	return "", source, nil
}

// flag returns the value of a flag.
func flag(args []string, name string) string {
	for i, a := range args {
		if value, ok := strings.CutPrefix(a, name+"="); ok {
			return value
		}
		if a == name && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}

// mounted returns the ConfigMap that contains a file of a container, and its key.
func mounted(pod *corev1.PodSpec, c *corev1.Container, file string) (name, key string) {
	for _, m := range c.VolumeMounts {
		rest, ok := strings.CutPrefix(file, path.Clean(m.MountPath)+"/")
		i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if !ok || m.SubPath != "" || i < 0 || pod.Volumes[i].ConfigMap == nil {
			continue
		}
		for _, item := range pod.Volumes[i].ConfigMap.Items {
			if item.Path == rest {
				return pod.Volumes[i].ConfigMap.Name, item.Key
			}
		}
		return pod.Volumes[i].ConfigMap.Name, rest
	}
	return "", ""
}
