package images

import (
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/platform-operator/platform-operator/e2e/cluster/build"
)

// rootfs is a folder to be filled from packages, one layer of an image. Each
// entry of packages may name alternatives, for names that differ between
// Debian releases.
type rootfs struct {
	name     string
	packages []string
	remove   []string // globs of files that no container needs
	dirs     []string
	files    map[string]string // target path to file in the recipe
	links    map[string]string
}

const baseLayer = "base"

func rootfses() []rootfs {
	docs := []string{"usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian", "usr/share/vim"}
	return []rootfs{
		{
			// The C library and a shell, shared by all.
			name:     baseLayer,
			packages: []string{"libc6", "libcrypt1", "libssl3|libssl3t64", "libzstd1", "zlib1g", "busybox"},
			remove:   append([]string{"usr/lib/*/gconv"}, docs...),
			dirs:     []string{"tmp", "root", "proc", "sys", "dev", "run", "var/log"},
			links:    map[string]string{"var/run": "/run"},
			files:    map[string]string{"etc/passwd": "passwd", "etc/group": "group"},
		},
		{
			name:     "nginx",
			packages: []string{"nginx", "nginx-common", "libpcre2-8-0"},
			remove: append([]string{
				"etc/init.d", "etc/logrotate.d", "etc/ufw", "etc/default", "lib/systemd", "usr/lib/systemd",
				"etc/nginx/sites-*", "etc/nginx/modules-*", "etc/nginx/snippets", "etc/nginx/nginx.conf",
				"usr/share/nginx/html", "var/www",
			}, docs...),
			dirs: []string{"etc/nginx/conf.d", "var/cache/nginx", "var/log/nginx", "var/lib/nginx", "usr/share/nginx/html"},
			links: map[string]string{
				"var/log/nginx/access.log": "/dev/stdout",
				"var/log/nginx/error.log":  "/dev/stderr",
			},
			files: map[string]string{
				"etc/nginx/conf.d/default.conf": "default.conf",
				"usr/share/nginx/html/50x.html": "50x.html",
			},
		},
		{
			name: "memcached",
			packages: []string{
				"memcached", "libevent-2.1-7|libevent-2.1-7t64", "libsasl2-2", "libsasl2-modules-db", "libdb5.3|libdb5.3t64",
				"liblua5.4-0", // since 1.6.45
			},
			remove: append([]string{"usr/share", "etc", "lib/systemd", "usr/lib/systemd"}, docs...),
		},
		{
			name:     "nginx-exporter",
			packages: []string{"prometheus-nginx-exporter"},
			remove:   append([]string{"etc", "lib/systemd", "usr/lib/systemd"}, docs...),
			links:    map[string]string{"usr/bin/nginx-prometheus-exporter": "prometheus-nginx-exporter"},
		},
	}
}

// image is a repository of the cluster's registry and its tags.
type image struct {
	repository string
	tags       []string
	layers     []string          // of rootfses
	tagFiles   map[string]string // a further layer of templates that know the tag
	config     v1.Config
}

func catalog() []image {
	path := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	nginx := v1.Config{
		Env: path, Cmd: []string{"nginx", "-g", "daemon off;"},
		StopSignal: "SIGQUIT", ExposedPorts: map[string]struct{}{"80/tcp": {}},
	}
	nginxFiles := map[string]string{"etc/nginx/nginx.conf": "nginx.conf", "usr/share/nginx/html/index.html": "index.html"}
	shell := func(script string) v1.Config {
		c := nginx
		c.Cmd = []string{"sh", "-c", script}
		return c
	}
	return []image{
		{
			// It holds the namespaces of a pod, until containerd kills it.
			repository: "pause", tags: []string{build.PauseVersion}, layers: []string{baseLayer},
			config: v1.Config{Env: path, Entrypoint: []string{"tail", "-f", "/dev/null"}, User: "65535:65535"},
		},
		{
			repository: "library/nginx", tags: []string{"1.23.0", "1.23.1", "1.27.3", "1.27.4", "latest"},
			layers: []string{baseLayer, "nginx"}, tagFiles: nginxFiles, config: nginx,
		},
		{
			// A version that cannot start.
			repository: "library/nginx", tags: []string{"crash"},
			layers: []string{baseLayer, "nginx"}, tagFiles: nginxFiles,
			config: shell("echo 'nginx: [emerg] this image always fails' >&2; exit 1"),
		},
		{
			// A version that starts and never answers.
			repository: "library/nginx", tags: []string{"mute"},
			layers: []string{baseLayer, "nginx"}, tagFiles: nginxFiles,
			config: shell("trap 'exit 0' QUIT TERM; echo 'running, not listening'; while :; do sleep 1; done"),
		},
		{
			repository: "library/memcached", tags: []string{"1.6", "1.6.18", "1.4.36-alpine", "latest"},
			layers: []string{baseLayer, "memcached"},
			config: v1.Config{
				Env: path, Cmd: []string{"memcached"}, User: "11211:11211",
				ExposedPorts: map[string]struct{}{"11211/tcp": {}},
			},
		},
		{
			// Debian's is version 0.11. Its flags are the newer ones', except
			// that it gives up when nginx does not answer at the start, and a
			// sidecar is often first. The newer ones go on; trying again for a
			// day is as close as its settings get to that.
			repository: "nginx/nginx-prometheus-exporter", tags: []string{"1.4", "1.4.0", "latest"},
			layers: []string{baseLayer, "nginx-exporter"},
			config: v1.Config{
				Env:        append([]string{"NGINX_RETRIES=86400", "NGINX_RETRY_INTERVAL=1s"}, path...),
				Entrypoint: []string{"/usr/bin/nginx-prometheus-exporter"}, User: "1001:1001",
				ExposedPorts: map[string]struct{}{"9113/tcp": {}},
			},
		},
		{
			repository: "library/busybox", tags: []string{"latest"},
			layers: []string{baseLayer}, config: v1.Config{Env: path, Cmd: []string{"sh"}},
		},
	}
}
