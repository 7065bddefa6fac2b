package webserver

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/yaml"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/resources"
)

func TestSite_Text(t *testing.T) {
	for name, tc := range map[string]struct {
		site site
		want string
	}{
		"nothing asked for": {site{}, `# Made by platform-operator from a WebServer.
map $server_protocol $webserver_close {
    HTTP/1.0 close;
    HTTP/1.1 close;
}
server {
    listen 80;
    # Without IPv6 in the kernel, nginx would not start, and this pattern matches no file.
    include /proc/sys/net/ipv6/../../../../etc/nginx/conf.d/ipv6.snippe[t];
    root /usr/share/nginx/html;
    index index.html;
    set $webserver_draining '';
    if (-f /run/draining) {
        set $webserver_draining $webserver_close;
    }
    add_header Connection $webserver_draining always;
}
`},
		"the user's own root and index": {site{snippet: "root /srv;\nindex a.html;"}, `# Made by platform-operator from a WebServer.
map $server_protocol $webserver_close {
    HTTP/1.0 close;
    HTTP/1.1 close;
}
server {
    listen 80;
    # Without IPv6 in the kernel, nginx would not start, and this pattern matches no file.
    include /proc/sys/net/ipv6/../../../../etc/nginx/conf.d/ipv6.snippe[t];
    set $webserver_draining '';
    if (-f /run/draining) {
        set $webserver_draining $webserver_close;
    }
    add_header Connection $webserver_draining always;
    include /etc/nginx/conf.d/server.snippet;
}
`},
		"a root that would keep nothing": {site{snippet: "root /srv;", keep: &webserverv1.Keep{Revisions: 1, Paths: []webserverv1.KeptPath{"/a."}}}, `# Made by platform-operator from a WebServer.
map $server_protocol $webserver_close {
    HTTP/1.0 close;
    HTTP/1.1 close;
}
map $uri $webserver_kept {
    volatile;
    default '';
    "~^/a\." $uri;
}
server {
    listen 80;
    # Without IPv6 in the kernel, nginx would not start, and this pattern matches no file.
    include /proc/sys/net/ipv6/../../../../etc/nginx/conf.d/ipv6.snippe[t];
    set $webserver_root /usr/share/nginx/html;
    if (-f /usr/share/nginx/kept/1$webserver_kept) {
        set $webserver_root /usr/share/nginx/kept/1;
    }
    if (-f /usr/share/nginx/kept/next$webserver_kept) {
        set $webserver_root /usr/share/nginx/kept/next;
    }
    if (-f /usr/share/nginx/html$uri) {
        set $webserver_root /usr/share/nginx/html;
    }
    root $webserver_root;
    index index.html;
    set $webserver_draining '';
    if (-f /run/draining) {
        set $webserver_draining $webserver_close;
    }
    add_header Connection $webserver_draining always;
    include /etc/nginx/conf.d/server.snippet;
}
`},
		"the http block": {site{http: "index a.html; upstream a { server b; }", snippet: "root /srv;"}, `# Made by platform-operator from a WebServer.
include /etc/nginx/conf.d/http.snippet;
map $server_protocol $webserver_close {
    HTTP/1.0 close;
    HTTP/1.1 close;
}
server {
    listen 80;
    # Without IPv6 in the kernel, nginx would not start, and this pattern matches no file.
    include /proc/sys/net/ipv6/../../../../etc/nginx/conf.d/ipv6.snippe[t];
    set $webserver_draining '';
    if (-f /run/draining) {
        set $webserver_draining $webserver_close;
    }
    add_header Connection $webserver_draining always;
    include /etc/nginx/conf.d/server.snippet;
}
`},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.site.files()[serverFile]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSite_ListensOnIPv6(t *testing.T) {
	for name, tc := range map[string]struct {
		site site
		want string
	}{
		"http":               {site{}, "listen [::]:80;\n"},
		"https":              {site{tls: true}, "listen [::]:80;\nlisten [::]:443 ssl;\n"},
		"the user's address": {site{snippet: "listen [::]:80;", tls: true}, "listen [::]:443 ssl;\n"},
		"both of the user":   {site{snippet: "listen [::]; listen [::]:443 ssl;", tls: true}, ""},
		"http3":              {site{snippet: "listen [::]:443 ssl;", tls: true, http3: true}, "listen [::]:80;\nlisten [::]:443 quic reuseport;\n"},
	} {
		t.Run(name, func(t *testing.T) {
			files := tc.site.files()
			if diff := cmp.Diff(tc.want, files[ipv6File]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			// The include finds the file by its path in the pod, if the folder exists.
			_, pattern, _ := strings.Cut(files[serverFile], "include ")
			pattern, _, _ = strings.Cut(pattern, ";")
			match, err := path.Match(path.Clean(pattern), configPath+"/"+ipv6File)
			if err != nil || !match || !strings.HasPrefix(pattern, "/proc/sys/net/ipv6/..") {
				t.Errorf("include %s: %v", pattern, err)
			}
		})
	}
}

// A generated location would conflict with the user's.
func TestSite_GeneratesNoLocation(t *testing.T) {
	for _, s := range []site{{}, {tls: true}, {snippet: "location / {}", tls: true, http3: true}} {
		if text := s.files()[serverFile]; strings.Contains(text, "location") {
			t.Errorf("%+v:\n%s", s, text)
		}
	}
}

func TestSite_Files(t *testing.T) {
	for name, tc := range map[string]struct {
		site site
		want []string
	}{
		"plain":     {site{}, []string{"default.conf", "ipv6.snippet"}},
		"with text": {site{snippet: "x;"}, []string{"default.conf", "ipv6.snippet", "server.snippet"}},
		"tls":       {site{tls: true}, []string{"default.conf", "default.conf.test", "ipv6.snippet"}},
		"all":       {site{snippet: "x;", tls: true, monitoring: true}, []string{"default.conf", "default.conf.test", "ipv6.snippet", "server.snippet"}},
	} {
		t.Run(name, func(t *testing.T) {
			files := tc.site.files()
			if diff := cmp.Diff(tc.want, slices.Sorted(maps.Keys(files))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for file := range files {
				// nginx includes conf.d/*.conf, which must match only one of them.
				if strings.HasSuffix(file, ".conf") != (file == serverFile) {
					t.Errorf("nginx would include %s by itself, or not include %s", file, serverFile)
				}
			}
		})
	}
}

// Headers of a location replace those of the server, of which the announcement of HTTP/3 is one.
func TestSite_AnnouncesHTTP3EverywhereAndKeepsTheLines(t *testing.T) {
	text := "location / {\n\tadd_header A b; add_header C d;\n}\n"
	want := "location / {\n\t" + announcement + " add_header A b; add_header C d;\n}\n"
	files := site{snippet: text, tls: true, http3: true}.files()
	if diff := cmp.Diff(want, files[snippetFile]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(text, site{snippet: text, tls: true}.files()[snippetFile]); diff != "" {
		t.Errorf("without HTTP/3 (-want +got):\n%s", diff)
	}
}

// The tested configuration differs from the served one only in the two paths.
func TestSite_TestedConfigurationMatchesTheServed(t *testing.T) {
	files := site{snippet: "x;", tls: true, http3: true, monitoring: true}.files()
	constant := strings.NewReplacer("$webserver_tls/tls.", "/etc/nginx/tls/tls.").Replace(files[serverFile])
	if diff := cmp.Diff(constant, files[testFile]); diff != "" {
		t.Errorf("(-serves +tested):\n%s", diff)
	}
	if strings.Count(files[serverFile], "$webserver_tls/") != 2 {
		t.Errorf("certificate and key are not both read through a variable:\n%s", files[serverFile])
	}
}

// The tested configuration includes files, which the volume of the test must contain.
func TestConfigTest_HasAllFiles(t *testing.T) {
	w := sample()
	w.Spec.TLS = &webserverv1.TLS{SecretRef: webserverv1.SecretReference{Name: "pair"}}
	w.Spec.Config = &webserverv1.ConfigSource{Inline: "return 204;", HTTP: "map $uri $a { default b; }"}
	m, err := sourcesOf(w).resolve(Observed{})
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Sorted(maps.Keys(m.config.Data))
	want = slices.DeleteFunc(want, func(file string) bool { return file == serverFile })
	var got []string
	for _, v := range template(w, m, platform).Spec.Volumes {
		if *v.Name == testVolume {
			for _, item := range v.ConfigMap.Items {
				got = append(got, *item.Key)
			}
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestExporterResources(t *testing.T) {
	const requests = "requests: {cpu: 5m, memory: 16Mi}\n"
	for name, tc := range map[string]struct{ spec, want string }{
		"nothing set":             {"monitoring: {enabled: true}", requests + "limits: {memory: 64Mi}"},
		"no limit of the CPU":     {"{monitoring: {enabled: true}, resources: {requests: {cpu: 1}, limits: {memory: 1Gi}}}", requests + "limits: {memory: 64Mi}"},
		"a limit of the CPU":      {"{monitoring: {enabled: true}, resources: {limits: {cpu: 1}}}", requests + "limits: {cpu: 100m, memory: 64Mi}"},
		"resources of the user's": {"{monitoring: {enabled: true, resources: {limits: {cpu: 20m}}}, resources: {limits: {cpu: 1}}}", "limits: {cpu: 20m}"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &webserverv1.WebServer{}
			var want corev1ac.ResourceRequirementsApplyConfiguration
			if err := errors.Join(yaml.UnmarshalStrict([]byte(tc.spec), &w.Spec), yaml.UnmarshalStrict([]byte(tc.want), &want)); err != nil {
				t.Fatal(err)
			}
			if got := exporterResources(w); !equality.Semantic.DeepEqual(got, &want) {
				t.Errorf("%+v, want %+v", got, &want)
			}
		})
	}
}

func TestMarkDraining(t *testing.T) {
	sleep := corev1ac.LifecycleHandler().WithSleep(corev1ac.SleepAction().WithSeconds(5))
	shell := corev1ac.LifecycleHandler().WithExec(corev1ac.ExecAction().
		WithCommand("sh", "-c", "touch /run/draining; sleep 5; rm -f /run/draining"))
	for image, want := range map[string]*corev1ac.LifecycleHandlerApplyConfiguration{
		"nginx:1.27.4":                          shell,
		"registry.example/library/nginx:1.27.4": shell,
		"registry.example/shop:1":               shell, // it is probably built from the official one
		"cgr.dev/chainguard/nginx:latest":       sleep,
	} {
		t.Run(image, func(t *testing.T) {
			c := corev1ac.Container().WithImage(image).WithLifecycle(corev1ac.Lifecycle().WithPreStop(sleep))
			markDraining(c)
			if diff := cmp.Diff(want, c.Lifecycle.PreStop); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A container that is restarted finds the files of the previous one in its volumes.
func TestMarkDraining_RemovesTheMark(t *testing.T) {
	c := corev1ac.Container().WithImage("nginx:1")
	resources.Drain(resources.PodSpec(), c, nil, 5)
	markDraining(c)
	command := c.Lifecycle.PreStop.Exec.Command
	mark := filepath.Join(t.TempDir(), "draining")
	script := strings.NewReplacer(drainingFile, mark, "sleep 5", "test -f "+mark+" && echo marked").Replace(command[2])
	out, err := exec.Command(command[0], command[1], script).CombinedOutput()
	if err != nil || string(out) != "marked\n" {
		t.Errorf("%s: %v: %s", script, err, out)
	}
	if _, err := os.Stat(mark); !os.IsNotExist(err) {
		t.Errorf("the mark exists after the hook: %v", err)
	}
}
