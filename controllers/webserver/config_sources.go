package webserver

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/platform-operator/platform-operator/apis/common"
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

// sources are the parts of a spec that determine the content of the files in the pods:
// the users' ConfigMaps and Secrets that it refers to, and what it contains itself.
type sources struct {
	// owner is the name of the WebServer.
	owner string
	// site is the generated configuration, or nil if nginx runs with that of the
	// image. Its snippet is the one in the spec.
	site *site
	// config refers to the ConfigMap that contains the snippet instead.
	config *webserverv1.ConfigMapKeyReference
	// content are the files to serve, or nil if an image contains them.
	content *webserverv1.ContentSource
	// follows reports whether the pods are replaced when the content of a ConfigMap
	// or Secret that they use changes. configMaps and secrets are then the ones that
	// spec.pod uses.
	follows             bool
	configMaps, secrets []configsource.Use
}

// sourcesOf returns the sources of a WebServer. spec.tls is not one of them: nginx
// reads the certificate again for each connection.
func sourcesOf(w *webserverv1.WebServer) sources {
	r := w.Spec.Rollout
	s := sources{owner: w.Name, follows: r == nil || r.RestartOnConfigChange == nil || *r.RestartOnConfigChange}
	if s.follows {
		s.configMaps, s.secrets = resources.Uses(resources.Options{Pod: w.Spec.Pod})
	}
	if generated(w) {
		s.site = &site{port: int(w.HTTPPort()), tls: w.Spec.TLS != nil, http3: http3(w), monitoring: monitored(w), judged: w.Spec.Rollout.Judged(), keep: keep(w)}
		if c := w.Spec.Config; c != nil {
			s.site.snippet, s.site.http, s.config = c.Inline, c.HTTP, c.ConfigMapRef
		}
	}
	if c := w.Spec.Content; c != nil && c.Image == nil {
		s.content = c
	}
	return s
}

// secretNames returns the names of the Secrets that the operator reads if it may.
func secretNames(w *webserverv1.WebServer) []string {
	names := configsource.UsedNames(sourcesOf(w).secrets)
	if t := w.Spec.TLS; t != nil && !slices.Contains(names, t.SecretRef.Name) {
		names = append(names, t.SecretRef.Name)
	}
	return names
}

// references returns the ConfigMaps to read.
func (s sources) references() []configsource.Reference {
	var refs []configsource.Reference
	if s.config != nil {
		refs = append(refs, configsource.Reference{Name: s.config.Name, Key: configKey(s.config)})
	}
	if s.content != nil && s.content.ConfigMapRef != nil {
		refs = append(refs, configsource.Reference{Name: s.content.ConfigMapRef.Name})
	}
	for _, name := range configsource.UsedNames(s.configMaps) {
		refs = append(refs, configsource.Reference{Name: name})
	}
	return refs
}

func configKey(r *webserverv1.ConfigMapKeyReference) string { return cmp.Or(r.Key, defaultConfigKey) }

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
// tested, and not with that of the image. Nothing can be mounted into the folder of a
// generated one.
func generated(w *webserverv1.WebServer) bool {
	within := w.Spec.Pod != nil && slices.ContainsFunc(w.Spec.Pod.VolumeMounts, func(m common.VolumeMount) bool {
		return strings.HasPrefix(m.MountPath, configPath+"/")
	})
	return configured(w) || nginxconf.IsOfficialImage(w.Spec.Image) && !within
}

// configured reports whether the spec requires a generated configuration.
func configured(w *webserverv1.WebServer) bool {
	return w.Spec.Config != nil || w.Spec.Content != nil || w.Spec.TLS != nil || monitored(w) || w.Spec.Rollout.Judged()
}

// keep returns what is kept of the content of earlier revisions, or nil.
func keep(w *webserverv1.WebServer) *webserverv1.Keep {
	if w.Spec.Content == nil {
		return nil
	}
	return w.Spec.Content.Keep
}

func http3(w *webserverv1.WebServer) bool { return w.Spec.TLS != nil && w.Spec.TLS.HTTP3 }

func monitored(w *webserverv1.WebServer) bool {
	return w.Spec.Monitoring != nil && w.Spec.Monitoring.Enabled
}

// resolve returns the content of the sources. The error lists everything that is
// missing.
func (s sources) resolve(o workload.Observed) (material, error) {
	m := material{hashes: map[string]string{}}
	var secretsErr, volumesErr error
	m.secrets, secretsErr = configsource.CombinedDigest(s.secrets, o.Secrets)
	configErr, contentErr := s.addConfig(&m, o.Sources), s.addContent(&m, o.Sources)
	if s.follows {
		m.volumes, volumesErr = configsource.SnapshotsOf(s.owner+"-volume", webserverv1.Kind, s.configMaps, o.Sources)
	}
	for name, c := range m.volumes {
		m.hashes["volumes/"+name] = hash(c.Data, c.BinaryData)
	}
	if !s.follows {
		m.hashes = nil
	}
	return m, errors.Join(configErr, contentErr, volumesErr, secretsErr)
}

// addConfig adds the generated configuration.
func (s sources) addConfig(m *material, found map[string]configsource.Source) error {
	if s.site == nil {
		return nil
	}
	generated, source := *s.site, ofSpec
	if s.config != nil {
		text, err := configsource.Find(found, "spec.config.configMapRef", s.config.Name)
		if err != nil {
			return err
		}
		key := configKey(s.config)
		snippet, ok := text.Content.Data[key]
		if !ok {
			return fault.Stalled(msgNoKey, s.config.Name, key)
		}
		generated.snippet, source = snippet, text.Part(key, snippetFile)
		m.hashes["config"] = hash(map[string]string{key: snippet}, nil)
	}
	m.config = s.snapshot("config", source, generated.files(), nil)
	return nil
}

// addContent adds the files to serve.
func (s sources) addContent(m *material, found map[string]configsource.Source) error {
	if s.content == nil {
		return nil
	}
	files, source := &corev1.ConfigMap{Data: map[string]string{}}, ofSpec
	if r := s.content.ConfigMapRef; r != nil {
		all, err := configsource.Find(found, "spec.content.configMapRef", r.Name)
		if err != nil {
			return err
		}
		files, source = all.Content, all.Whole()
		m.hashes["content"] = hash(files.Data, files.BinaryData)
	}
	for name, text := range s.content.Files {
		files.Data[name] = string(text)
	}
	m.content = s.snapshot("content", source, files.Data, files.BinaryData)
	return nil
}

func (s sources) snapshot(name, source string, data map[string]string, binary map[string][]byte) *configsource.Snapshot {
	c := configsource.NewSnapshot(s.owner+"-"+name, webserverv1.Kind, "", data, binary)
	c.Source = source
	return &c
}

// hash returns a string that identifies the content.
func hash(data map[string]string, binary map[string][]byte) string {
	return configsource.NewSnapshot("", webserverv1.Kind, "", data, binary).Name
}
