package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

const changelog = `# Changelog

## [Unreleased]

* Not yet.

## [0.0.1] - 2026-11-28

### Added

* Four [kinds](docs/release.md).

## [0.0.0] - 2026-11-01

* Nothing.
`

const install = `apiVersion: v1
kind: Namespace
metadata: {name: platform-operator-system}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: webservers.my.domain}
spec: {names: {kind: WebServer}, versions: [{name: v1, schema: {openAPIV3Schema: {description: An nginx fleet.}}}]}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: platform-operator, namespace: platform-operator-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: platform-operator}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create]}
- {apiGroups: [""], resources: [secrets], resourceNames: [platform-operator-webhook-cert], verbs: [create, get, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: platform-operator-manager}
rules: [{apiGroups: [my.domain], resources: [webservers], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: platform-operator-webhooks}
rules: [{apiGroups: [admissionregistration.k8s.io], resources: [validatingwebhookconfigurations], verbs: [patch]}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: platform-operator}
spec:
  replicas: 2
  template:
    spec:
      containers:
      - name: manager
        image: registry.example/team/platform-operator@sha256:0
        args: [run, --config=/etc/platform-operator/platform.yaml, --webhook-secret=a, --webhook-configuration=b, --manage-certificates=true, --log-level=info]
        env: [{name: A, value: b}]
        volumeMounts: [{name: config, mountPath: /etc/platform-operator}, {name: token, mountPath: /var/run}]
      volumes: [{name: config, configMap: {name: c}}, {name: token, projected: {}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: platform-operator}
webhooks:
- name: webservers.my.domain
  clientConfig: {service: {name: s, path: /validate}}
  matchConditions: [{name: a, expression: "true"}]
  failurePolicy: Fail
  sideEffects: None
`

// write releases small files, and returns the folder that was written.
func write(t *testing.T) string {
	t.Helper()
	root, programs, dist := t.TempDir(), t.TempDir(), t.TempDir()
	for path, content := range map[string]string{
		filepath.Join(root, "LICENSE"):                           "licence",
		filepath.Join(root, "THIRD_PARTY_LICENSES"):              "licences",
		filepath.Join(root, "CHANGELOG.md"):                      changelog,
		filepath.Join(dist, "platform-operator-0.0.1.tgz"):       "chart",
		filepath.Join(dist, "install.yaml"):                      install,
		filepath.Join(programs, "platform-operator-linux-amd64"): "linux amd64",
		filepath.Join(programs, "platform-operator-linux-arm64"): "linux arm64",
		filepath.Join(programs, "kubectl-platform-linux-amd64"):  "plugin linux amd64",
		filepath.Join(programs, "kubectl-platform-linux-arm64"):  "plugin linux arm64",
		filepath.Join(programs, "kubectl-platform-darwin-amd64"): "plugin darwin amd64",
		filepath.Join(programs, "kubectl-platform-darwin-arm64"): "plugin darwin arm64",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, subcommand := range []string{"image", "pack"} {
		if err := run(t.Context(), []string{
			subcommand, "-version", "0.0.1", "-registry", "registry.example/team", "-revision", "abc", "-source", "https://example.com/repo",
			"-created", "1700000000", "-root", root, "-programs", programs, "-dist", dist,
		}); err != nil {
			t.Fatal(err)
		}
	}
	return dist
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestRelease_IsReproducible(t *testing.T) {
	one := write(t)
	t.Setenv("TZ", "Asia/Kathmandu")
	two := write(t)
	if a, b := read(t, one, "SHA256SUMS"), read(t, two, "SHA256SUMS"); a != b {
		t.Errorf("two runs wrote\n%s\nand\n%s", a, b)
	}
	check := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	check.Dir = one
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestPush_UploadsImageAndChart(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://") + "/team"
	if err := run(t.Context(), []string{"push", "-dist", write(t), "-registry", host}); err != nil {
		t.Fatal(err)
	}
	get := func(reference string) *remote.Descriptor {
		ref, err := name.ParseReference(host + "/" + reference)
		if err != nil {
			t.Fatal(err)
		}
		d, err := remote.Get(ref)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for _, arch := range []string{"amd64", "arm64"} {
		index, err := get("platform-operator:0.0.1").ImageIndex()
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := index.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range manifest.Manifests {
			if d.Platform.Architecture != arch {
				continue
			}
			image, err := index.Image(d.Digest)
			if err != nil {
				t.Fatal(err)
			}
			checkImage(t, image, arch)
		}
		if len(manifest.Manifests) != 2 {
			t.Errorf("the index has %d images, want 2", len(manifest.Manifests))
		}
	}
	chart, err := get("charts/platform-operator:0.0.1").Image()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := chart.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if got := manifest.Config.MediaType + " " + manifest.Layers[0].MediaType; got !=
		"application/vnd.cncf.helm.config.v1+json application/vnd.cncf.helm.chart.content.v1.tar+gzip" {
		t.Errorf("media types of the chart: %s", got)
	}
}

func checkImage(t *testing.T, image v1.Image, arch string) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture != arch || config.OS != "linux" || config.Config.User != "65532:65532" || config.Config.Entrypoint[0] != "/platform-operator" {
		t.Errorf("configuration of the image for %s: %+v", arch, config)
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	want := "licenses/LICENSE 644 licence, licenses/THIRD_PARTY_LICENSES 644 licences, platform-operator 755 linux " + arch
	if got := list(t, content); got != want {
		t.Errorf("files of the image for %s: %s, want %s", arch, got, want)
	}
}

// list returns the names, modes and contents of an archive.
func list(t *testing.T, content io.Reader) string {
	t.Helper()
	var files []string
	for r := tar.NewReader(content); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return strings.Join(files, ", ")
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, fmt.Sprintf("%s %o %s", header.Name, header.Mode, body))
	}
}

func TestPlugin_KrewManifestHasEachArchive(t *testing.T) {
	dist := write(t)
	manifest := read(t, dist, "platform.yaml")
	for _, platform := range []string{"darwin amd64", "darwin arm64", "linux amd64", "linux arm64"} {
		goos, arch, _ := strings.Cut(platform, " ")
		file := "kubectl-platform_0.0.1_" + goos + "_" + arch + ".tar.gz"
		content := read(t, dist, file)
		if want := fmt.Sprintf(`
  - selector:
      matchLabels: {os: %s, arch: %s}
    uri: https://example.com/repo/releases/download/v0.0.1/%s
    sha256: %x
    bin: kubectl-platform
`, goos, arch, file, sha256.Sum256([]byte(content))); !strings.Contains(manifest, want) {
			t.Errorf("the manifest lacks%sin\n%s", want, manifest)
		}
		z, err := gzip.NewReader(bytes.NewReader([]byte(content)))
		if err != nil {
			t.Fatal(err)
		}
		want := "LICENSE 644 licence, THIRD_PARTY_LICENSES 644 licences, kubectl-platform 755 plugin " + platform
		if got := list(t, z); got != want {
			t.Errorf("files of %s: %s, want %s", file, got, want)
		}
	}
}

func TestNotes_HaveTheSectionOfTheVersion(t *testing.T) {
	for version, want := range map[string]string{
		"0.0.1": "### Added\n\n* Four [kinds](docs/release.md).",
		"0.0.0": "* Nothing.",
		"9.9.9": "* Not yet.",
	} {
		if got, err := section(changelog, version); err != nil || got != want {
			t.Errorf("section %s: %q, %v, want %q", version, got, err, want)
		}
	}
	if got, err := section("# Changelog\n", "0.0.1"); err == nil {
		t.Errorf("a changelog without sections: %q, want an error", got)
	}
	if got := read(t, write(t), "RELEASE_NOTES.md"); !strings.HasPrefix(got, "### Added\n\n* Four [kinds](https://example.com/repo/blob/v0.0.1/docs/release.md).\n") ||
		!strings.Contains(got, "oci://registry.example/team/charts/platform-operator --version 0.0.1 ") {
		t.Errorf("the notes are\n%s", got)
	}
}
