package webserver

import (
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/configsource"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/nginxconf"
	"github.com/platform-operator/platform-operator/pkg/resources"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

// reasonConfigMapKeyNotFound means that a ConfigMap that the spec refers to does
// not contain the requested key.
const reasonConfigMapKeyNotFound = "ConfigMapKeyNotFound"

// defaultConfigKey is the default of spec.config.configMapRef.key.
const defaultConfigKey = "server.conf"

// ofSpec is the source of a snapshot whose content is entirely from the spec.
const ofSpec = "spec"

// follows reports whether the pods are replaced when the content of a ConfigMap or
// Secret that they use changes.
func follows(w *webserverv1.WebServer) bool {
	r := w.Spec.Rollout
	return r == nil || r.RestartOnConfigChange == nil || *r.RestartOnConfigChange
}

// referenced returns the ConfigMaps whose content affects the pods.
func referenced(w *webserverv1.WebServer) []configsource.Reference {
	var refs []configsource.Reference
	if c := w.Spec.Config; c != nil && c.ConfigMapRef != nil {
		refs = append(refs, configsource.Reference{Name: c.ConfigMapRef.Name, Key: configKey(c.ConfigMapRef)})
	}
	if c := w.Spec.Content; c != nil && c.ConfigMapRef != nil {
		refs = append(refs, configsource.Reference{Name: c.ConfigMapRef.Name})
	}
	if follows(w) {
		configMaps, _ := resources.Uses(options(w, material{}))
		for _, name := range configsource.UsedNames(configMaps) {
			refs = append(refs, configsource.Reference{Name: name})
		}
	}
	return refs
}

// secrets returns the Secrets whose content affects the pods. That of spec.tls does
// not: nginx reads it again for each connection.
func secrets(w *webserverv1.WebServer) []configsource.Use {
	if !follows(w) {
		return nil
	}
	_, secrets := resources.Uses(options(w, material{}))
	return secrets
}

func configKey(r *webserverv1.ConfigMapKeyReference) string {
	if r.Key == "" {
		return defaultConfigKey
	}
	return r.Key
}

// material contains the immutable snapshots that a pod mounts, and digests of their
// content. Pods never mount a ConfigMap of config or content itself, because a
// change of it would reach serving pods untested.
type material struct {
	config  *configsource.Snapshot // nil for the configuration of the image
	content *configsource.Snapshot // nil for the files of the image, or of another image
	// volumes are snapshots of the ConfigMaps that spec.pod.volumes refers to, by
	// their names. An optional ConfigMap that does not exist has none.
	volumes map[string]configsource.Snapshot
	// hashes are hashes of the content of the users' ConfigMaps, by purpose. A
	// change of one replaces the pods. The text that the operator generates around
	// a user's snippet is not included, so that a newer version of that text does
	// not replace pods.
	hashes map[string]string
	// secrets is a digest of the content of the users' Secrets, "" for none.
	secrets string
}

// snapshots returns the snapshots in m.
func (m material) snapshots() []configsource.Snapshot {
	var all []configsource.Snapshot
	for _, c := range []*configsource.Snapshot{m.config, m.content} {
		if c != nil {
			all = append(all, *c)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.volumes)) {
		all = append(all, m.volumes[name])
	}
	return all
}

// generated reports whether nginx runs with a generated configuration, which is
// tested, and not with that of the image.
func generated(w *webserverv1.WebServer) bool {
	return configured(w) || nginxconf.Official(w.Spec.Image)
}

// configured reports whether the spec requires a generated configuration.
func configured(w *webserverv1.WebServer) bool {
	return w.Spec.Config != nil || w.Spec.Content != nil || w.Spec.TLS != nil || monitored(w)
}

func monitored(w *webserverv1.WebServer) bool {
	return w.Spec.Monitoring != nil && w.Spec.Monitoring.Enabled
}

// materialOf resolves the references of the spec. The error lists everything that
// is missing.
func materialOf(w *webserverv1.WebServer, o workload.Observed) (material, error) {
	m := material{hashes: map[string]string{}}
	var err error
	m.secrets, err = configsource.CombinedDigest(secrets(w), o.Secrets)
	err = errors.Join(m.findConfig(w, o), m.findContent(w, o), m.findVolumes(w, o), err)
	if !follows(w) {
		m.hashes = nil
	}
	return m, err
}

func (m *material) findConfig(w *webserverv1.WebServer, o workload.Observed) error {
	if !generated(w) {
		return nil
	}
	s := site{tls: w.Spec.TLS != nil, monitoring: monitored(w)}
	source := ofSpec
	switch c := w.Spec.Config; {
	case c == nil:
	case c.ConfigMapRef == nil:
		s.snippet = c.Inline
	default:
		found, err := configsource.Find(o.Sources, "spec.config.configMapRef", c.ConfigMapRef.Name)
		if err != nil {
			return err
		}
		key := configKey(c.ConfigMapRef)
		text, ok := found.Content.Data[key]
		if !ok {
			return fault.Stalled(msgNoKey, c.ConfigMapRef.Name, key)
		}
		s.snippet = text
		source = found.Part(key, snippetFile)
		m.hashes["config"] = hash(map[string]string{key: text}, nil)
	}
	c := configsource.NewSnapshot(w.Name+"-config", webserverv1.Kind, "", s.files(), nil)
	c.Source = source
	m.config = &c
	return nil
}

func (m *material) findContent(w *webserverv1.WebServer, o workload.Observed) error {
	c := w.Spec.Content
	if c == nil || c.Image != nil {
		return nil
	}
	files, source := &corev1.ConfigMap{Data: map[string]string{}}, ofSpec
	if c.ConfigMapRef != nil {
		found, err := configsource.Find(o.Sources, "spec.content.configMapRef", c.ConfigMapRef.Name)
		if err != nil {
			return err
		}
		files, source = found.Content, found.Whole()
		m.hashes["content"] = hash(files.Data, files.BinaryData)
	}
	for name, text := range c.Files {
		files.Data[name] = string(text)
	}
	content := configsource.NewSnapshot(w.Name+"-content", webserverv1.Kind, "", files.Data, files.BinaryData)
	content.Source = source
	m.content = &content
	return nil
}

func (m *material) findVolumes(w *webserverv1.WebServer, o workload.Observed) error {
	if !follows(w) {
		return nil
	}
	configMaps, _ := resources.Uses(options(w, material{}))
	var err error
	m.volumes, err = configsource.SnapshotsOf(w.Name+"-volume", webserverv1.Kind, configMaps, o.Sources)
	for name, c := range m.volumes {
		m.hashes["volumes/"+name] = hash(c.Data, c.BinaryData)
	}
	return err
}

// hash returns a string that identifies the content.
func hash(data map[string]string, binary map[string][]byte) string {
	return configsource.NewSnapshot("", webserverv1.Kind, "", data, binary).Name
}
