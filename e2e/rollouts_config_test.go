//go:build e2e

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"time"
)

// versionHeader identifies the configuration or content of a response.
const versionHeader = "X-Version"

func snippet(version string) string {
	return fmt.Sprintf("add_header %s %q always;", versionHeader, version)
}

// inline returns the configuration field of the managed application.
func inline(text string) map[string]any {
	return map[string]any{"config": map[string]any{"inline": text}}
}

// server returns a complete configuration, as the control needs it.
func server(listen, text string) map[string]string {
	return map[string]string{"default.conf": fmt.Sprintf("server {\n  listen %s;\n  root /usr/share/nginx/html;\n  %s\n}\n", listen, text)}
}

const controlConfig = "control-config"

var configMounts = []mount{{path: "/etc/nginx/conf.d", configMap: controlConfig}}

// setConfig sets the same text in the server block of both. Kubernetes does not
// replace pods when a ConfigMap changes, so users who want the change to take
// effect restart them; that is the disturbance of the control.
func (s *scene) setConfig(x target, text string) error {
	if x.ours {
		return s.patch(inline(text))
	}
	if err := s.apply(configMap(controlConfig, server("80", text))); err != nil {
		return err
	}
	return s.restart(x)
}

// serves waits until all responses are of that version.
func (s *scene) serves(x target, version string) error {
	url, err := s.url(x, way{})
	if err != nil {
		return err
	}
	return errors.Join(s.all(url, "version "+version, hasHeader(versionHeader, version)), s.settled(x))
}

func configChanged() rolloutCase {
	return rolloutCase{
		name: "nginx configuration changed", kinds: []kind{webServerKind}, needs: []string{"config.inline"}, mounts: configMounts,
		prepare: func(s *scene) error {
			s.fields = inline(snippet("1"))
			return s.apply(configMap(controlConfig, server("80", snippet("1"))))
		},
		disturb: func(s *scene) error {
			return s.both(func(x target) error { return errors.Join(s.setConfig(x, snippet("2")), s.serves(x, "2")) })
		},
	}
}

func configMapChanged() rolloutCase {
	const theirs = "site-config"
	ours := func(version string) any {
		return configMap(theirs, map[string]string{"server.conf": snippet(version)})
	}
	return rolloutCase{
		name: "ConfigMap of the configuration changed", kinds: []kind{webServerKind}, needs: []string{"config.configMapRef"}, mounts: configMounts,
		prepare: func(s *scene) error {
			s.fields = map[string]any{"config": map[string]any{"configMapRef": map[string]any{"name": theirs}}}
			return s.apply(ours("1"), configMap(controlConfig, server("80", snippet("1"))))
		},
		disturb: func(s *scene) error {
			return s.both(func(x target) error {
				if x.ours {
					return errors.Join(s.apply(ours("2")), s.serves(x, "2"))
				}
				return errors.Join(s.setConfig(x, snippet("2")), s.serves(x, "2"))
			})
		},
	}
}

func contentChanged() rolloutCase {
	const site, length = "site", "Content-Length"
	pages := func(text string) any { return configMap(site, map[string]string{"index.html": text}) }
	const first, second = "the first page", "the second page, which is longer"
	return rolloutCase{
		name: "ConfigMap of the content changed", kinds: []kind{webServerKind}, needs: []string{"content.configMapRef"},
		mounts: []mount{{path: "/usr/share/nginx/html", configMap: site}},
		prepare: func(s *scene) error {
			s.fields = map[string]any{"content": map[string]any{"configMapRef": map[string]any{"name": site}}}
			return s.apply(pages(first))
		},
		disturb: func(s *scene) error {
			if err := s.apply(pages(second)); err != nil {
				return err
			}
			return s.both(func(x target) error {
				if !x.ours {
					if err := s.restart(x); err != nil {
						return err
					}
				}
				url, err := s.url(x, way{})
				if err != nil {
					return err
				}
				return errors.Join(s.all(url, "the second page", hasHeader(length, strconv.Itoa(len(second)))), s.settled(x))
			})
		},
	}
}

func environmentChanged() rolloutCase {
	return rolloutCase{
		name: "environment changed", kinds: []kind{demoApplicationKind}, needs: []string{"env"},
		disturb: func(s *scene) error {
			return s.both(func(x target) error {
				if x.ours {
					return errors.Join(s.patch(map[string]any{"env": []any{map[string]any{"name": "COLOUR", "value": "blue"}}}), s.settled(x))
				}
				_, err := s.kubectl("set", "env", x.object, "COLOUR=blue")
				return errors.Join(err, s.settled(x))
			})
		},
	}
}

// settings is the ConfigMap for environment variables.
const settings = "settings"

func fromSettings(name string) map[string]any {
	return map[string]any{"envFrom": []any{map[string]any{"configMapRef": map[string]any{"name": name}}}}
}

// followsConfigMaps is the rollout field of the managed application: its pods are
// replaced when a ConfigMap changes, and are kept while one is missing.
var followsConfigMaps = map[string]any{"restartOnConfigChange": true}

// environmentOfConfigMapChanged takes effect automatically in the managed
// application, and in the pods of the plain Deployment after a restart.
func environmentOfConfigMapChanged() rolloutCase {
	colour := func(is string) any { return configMap(settings, map[string]string{"COLOUR": is}) }
	return rolloutCase{
		name: "ConfigMap of the environment changed", kinds: []kind{demoApplicationKind}, needs: []string{"envFrom", "rollout.restartOnConfigChange"},
		fields:  map[string]any{"envFrom": fromSettings(settings)["envFrom"], "rollout": followsConfigMaps},
		prepare: func(s *scene) error { return s.apply(colour("red")) },
		disturb: func(s *scene) error {
			if err := s.apply(colour("blue")); err != nil {
				return err
			}
			return s.both(func(x target) error {
				var err error
				if x.ours {
					_, err = s.kubectl("wait", "--for=jsonpath={.status.revisions.current}=2", x.object, "--timeout="+patience.String())
				} else {
					err = s.restart(x)
				}
				return errors.Join(err, s.settled(x))
			})
		},
	}
}

// certificateRenewed uses https. The managed application reads the new certificate
// without a restart; the plain nginx has to be restarted.
func certificateRenewed() rolloutCase { return renewal("certificate renewed", false) }

// certificateAndKeyRenewed is the only renewal that can cost a handshake: nginx
// reads two files, and the kubelet may change both in between. One failure per pod
// is allowed, and docs/api/webserver.md describes how often it happens.
func certificateAndKeyRenewed() rolloutCase {
	c := renewal("certificate and key renewed", true)
	c.handshakes = 3
	return c
}

func renewal(name string, newKey bool) rolloutCase {
	const secret = "certificate"
	var renew func(*scene) error
	var renewed func(answer) bool
	return rolloutCase{
		name: name, kinds: []kind{webServerKind}, needs: []string{"tls.secretRef"},
		mounts: append([]mount{{path: "/etc/nginx/tls", secret: secret}}, configMounts...),
		prepare: func(s *scene) error {
			ca, err := newAuthority()
			if err != nil {
				return err
			}
			s.tls = ca.client()
			kept, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				return err
			}
			put := func(serial int64) func(*scene) error {
				return func(s *scene) error {
					private := kept
					if newKey && serial > 2 {
						if private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
							return err
						}
					}
					crt, key, err := ca.issue(serial, private)
					if err != nil {
						return err
					}
					return s.apply(map[string]any{
						"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": map[string]any{"name": secret},
						"stringData": map[string]string{"tls.crt": crt, "tls.key": key},
					})
				}
			}
			renew = put(3)
			renewed = func(a answer) bool { return a.tls.PeerCertificates[0].SerialNumber.Int64() == 3 }
			s.fields = map[string]any{"tls": map[string]any{"secretRef": map[string]any{"name": secret}}}
			listen := "443 ssl"
			text := "ssl_certificate /etc/nginx/tls/tls.crt; ssl_certificate_key /etc/nginx/tls/tls.key;"
			return errors.Join(put(2)(s), s.apply(configMap(controlConfig, server(listen, text))))
		},
		disturb: func(s *scene) error {
			if err := renew(s); err != nil {
				return err
			}
			return s.both(func(x target) error {
				if !x.ours {
					if err := s.restart(x); err != nil {
						return err
					}
				}
				url, err := s.url(x, way{})
				if err != nil {
					return err
				}
				return errors.Join(s.all(url, "the new certificate", renewed), s.settled(x))
			})
		},
	}
}

// serverName is the name in the certificates; the load sends requests to addresses.
const serverName = "web.test"

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := unsigned(1)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert: cert, key: key}, err
}

func unsigned(serial int64) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: fmt.Sprintf("%s %d", serverName, serial)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
}

// issue returns a certificate for a key, and the key, as PEM.
func (a *authority) issue(serial int64, private *ecdsa.PrivateKey) (crt, key string, err error) {
	template := unsigned(serial)
	template.DNSNames = []string{serverName}
	return a.sign(template, private)
}

// sign returns a certificate like the template for a key, and the key, as PEM.
func (a *authority) sign(template *x509.Certificate, private *ecdsa.PrivateKey) (crt, key string, err error) {
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &private.PublicKey, a.key)
	if err != nil {
		return "", "", err
	}
	rawKey, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", err
	}
	pemOf := func(kind string, raw []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}))
	}
	return pemOf("CERTIFICATE", der), pemOf("PRIVATE KEY", rawKey), nil
}

// client returns a configuration that trusts the certificates of the authority.
func (a *authority) client() *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return &tls.Config{RootCAs: roots, ServerName: serverName, MinVersion: tls.VersionTLS12}
}

// autoscaled moves the target below and above the usage of the pods, which reliably
// and immediately scales up and down on any machine.
func autoscaled() rolloutCase {
	const low, high = 1, 1000
	ours := func(percent int) map[string]any {
		return map[string]any{"autoscaling": map[string]any{
			"minReplicas": 2, "maxReplicas": 5, "targetCPUUtilizationPercentage": percent,
			"behavior": map[string]any{"scaleDown": map[string]any{"stabilizationWindowSeconds": 0}},
		}}
	}
	control := func(percent int) map[string]any {
		return map[string]any{
			"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": map[string]any{"name": "control"},
			"spec": map[string]any{
				"minReplicas": 2, "maxReplicas": 5,
				"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "control"},
				"behavior":       map[string]any{"scaleDown": map[string]any{"stabilizationWindowSeconds": 0}},
				"metrics": []any{map[string]any{"type": "Resource", "resource": map[string]any{
					"name": "cpu", "target": map[string]any{"type": "Utilization", "averageUtilization": percent},
				}}},
			},
		}
	}
	requests := map[string]string{"cpu": "20m"}
	fields := ours(high)
	fields["resources"] = map[string]any{"requests": requests}
	return rolloutCase{
		name: "autoscaled up and down", kinds: bothKinds, metrics: true, unset: true, fields: fields, requests: requests, extra: []any{control(high)},
		needs: []string{"autoscaling.targetCPUUtilizationPercentage", "autoscaling.behavior.scaleDown.stabilizationWindowSeconds", "resources"},
		disturb: func(s *scene) error {
			return s.both(func(x target) error {
				for _, step := range []struct{ percent, replicas int }{{low, 5}, {high, 2}} {
					var err error
					if x.ours {
						err = s.patch(ours(step.percent))
					} else {
						err = s.apply(control(step.percent))
					}
					if err != nil {
						return err
					}
					want := fmt.Sprintf("--for=jsonpath={.status.readyReplicas}=%d", step.replicas)
					if _, err := s.kubectl("wait", want, x.deployment, "--timeout="+patience.String()); err != nil {
						return err
					}
				}
				return s.settled(x)
			})
		},
	}
}
